// The description of the service, as a page: made from openapi.json.

import { addModes, element, json, token } from "./service.js";

const by = (id) => document.getElementById(id);

// A type in a few words; the name of an object is a link to it.
function typed(schema = {}) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [element("a", { href: `#${name}` }, name)];
  }
  if (schema.anyOf) return schema.anyOf.flatMap((one, at) => (at ? [" or ", ...typed(one)] : typed(one)));
  if (schema.type === "array") return ["list of ", ...typed(schema.items)];
  if (schema.type === "object" && schema.additionalProperties && schema.additionalProperties !== true)
    return ["object of ", ...typed(schema.additionalProperties)];
  return [schema.format === "binary" ? "bytes" : schema.type || "anything"];
}

function contents(content = {}) {
  return Object.entries(content).flatMap(([kind, found], at) => [at ? ", " : "", ...typed(found.schema), ` (${kind})`]);
}

function place(path, method, about) {
  const made = element("div", { className: "place" });
  made.append(element("h3", {}, element("span", { className: "method" }, method.toUpperCase()), path));
  if (about.description) made.append(element("p", {}, about.description));
  if (about.requestBody) made.append(element("p", {}, "Body: ", ...contents(about.requestBody.content)));
  for (const [status, answer] of Object.entries(about.responses)) {
    const content = contents(answer.content);
    const name = status === "default" ? "Otherwise" : `Status ${status}`;
    made.append(element("p", { className: "quiet" }, `${name}: `, ...(content.length ? content : [answer.description])));
  }
  return made;
}

function members(name, schema) {
  const made = element("div", { className: "place", id: name }, element("h3", {}, name));
  if (schema.description) made.append(element("p", {}, schema.description));
  const rows = Object.entries(schema.properties || {}).map(([member, about]) =>
    element(
      "tr", {},
      element("td", {}, element("code", {}, member), (schema.required || []).includes(member) ? "\u00a0*" : ""),
      element("td", {}, ...typed(about)),
      element("td", {}, about.description || ""),
    ));
  if (rows.length) {
    const heads = ["Member", "Type", "Meaning"].map((text) => element("th", { scope: "col" }, text));
    made.append(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)));
  }
  return made;
}

async function begin() {
  try {
    const about = await json("GET", "openapi.json");
    // A link to the place itself would be asked for without the token.
    by("description").href = URL.createObjectURL(new Blob([JSON.stringify(about, null, 2)], { type: "application/json" }));
    by("description").hidden = false;
    by("about").textContent = `API, version ${about.info.version}`;
    for (const [path, methods] of Object.entries(about.paths))
      for (const [method, one] of Object.entries(methods)) by("places").append(place(path, method, one));
    for (const [name, schema] of Object.entries(about.components.schemas)) by("schemas").append(members(name, schema));
    by("schemas").append(element("p", { className: "quiet small" }, "* must be given"));
  } catch (error) {
    by("notice").hidden = false;
    by("notice").textContent = error.status === 401 && !token()
      ? "The service needs a token: enter it on the page “Run a program”, in this tab."
      : error.message;
  }
}

addModes(by("theme"));
begin();
