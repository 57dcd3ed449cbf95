// The page: an editor, runs, their results, sessions. Output of code is shown as text, as an image, or in a frame that has
// no origin and no network: see frame.html.

import { Colours } from "./colours.js";
import { paint } from "./editor.js";
import { addModes, call, element, events, json, keepToken, Problem, token } from "./service.js";

const by = (id) => document.getElementById(id);
const EXAMPLE = "import sys\n\nprint(sys.version.split()[0])\nsum(n * n for n in range(10))\n";
// By MIME type, the form of an image that may be shown: an <img> runs no script, of SVG either.
const IMAGES = { "image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/svg+xml": false };
const OF_NAMES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
// Characters of output that the page keeps: a browser becomes slow with more.
const MOST = 1_000_000;

let running = null; // {abort, session} while a program runs
let shown = 0;
let returned = false; // the last character was a carriage return
let colours = {}; // of each kind of output

function complain(error) {
  const asks = error instanceof Problem && error.status === 401;
  by("notice").hidden = !error || asks;
  by("notice").textContent = error && !asks ? error.message : "";
  if (asks) login(token() ? "This token is not known here." : "");
}

// Editor

const code = by("code");

function follow() {
  by("gutter").scrollTop = code.scrollTop;
  by("colours").scrollTop = code.scrollTop;
  by("colours").scrollLeft = code.scrollLeft;
}

function number() {
  const lines = code.value.split("\n").length;
  by("gutter").textContent = Array.from({ length: lines }, (_, at) => at + 1).join("\n");
  paint(by("colours"), code.value);
  follow();
}

// The only way to change a text so that the browser can undo it.
const insert = (text) => document.execCommand("insertText", false, text);

function goTo(line) {
  const lines = code.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  code.focus();
  code.setSelectionRange(start, start + (lines[line - 1] || "").length);
}

let leaves = false; // the next Tab leaves the editor
code.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    leaves = true;
    return;
  }
  if (event.key === "Tab" && !leaves && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey) {
    event.preventDefault();
    insert("    ");
  } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && !event.isComposing) {
    const line = code.value.slice(0, code.selectionStart).split("\n").pop();
    event.preventDefault();
    insert("\n" + line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : ""));
  }
  if (!["Shift", "Control", "Alt", "Meta"].includes(event.key)) leaves = false;
});
code.addEventListener("blur", () => { leaves = false; });
code.addEventListener("input", number);
code.addEventListener("scroll", follow);
new ResizeObserver(() => { by("gutter").style.height = `${code.clientHeight}px`; }).observe(code);

// Results

function clear() {
  shown = 0;
  returned = false;
  colours = {};
  for (const id of ["facts", "output"]) by(id).replaceChildren();
  for (const id of ["violations", "figures", "files"]) by(id).hidden = true;
  by("violations").querySelector("tbody").replaceChildren();
  by("figures").querySelector("div").replaceChildren();
  // The content of a file stays in memory for as long as its address.
  for (const link of by("files").querySelectorAll("a")) URL.revokeObjectURL(link.href);
  by("files").querySelector("ul").replaceChildren();
}

// A carriage return begins the line again, as in a terminal. Progress bars need it.
function put(output, className, piece) {
  while (returned && !piece.startsWith("\n") && output.lastChild) {
    const text = output.lastChild.lastChild;
    const kept = text.data.lastIndexOf("\n") + 1;
    shown -= text.length - kept;
    text.data = text.data.slice(0, kept);
    if (kept) break;
    text.remove();
    if (!output.lastChild.lastChild) output.lastChild.remove();
  }
  if (output.lastChild && output.lastChild.className === className) output.lastChild.append(piece);
  else output.append(element("span", { className }, piece));
}

function write(text, kind = "") {
  const output = by("output");
  const below = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
  if (shown < MOST) {
    colours[kind] = colours[kind] || new Colours();
    for (const [classes, part] of colours[kind].parts(text.slice(0, MOST - shown))) {
      const className = `${kind} ${classes}`.trim();
      for (const piece of part.match(/\r|[^\r]+/g) || []) {
        if (piece !== "\r") put(output, className, piece);
        returned = piece === "\r";
      }
    }
    if (shown + text.length >= MOST) output.append(element("span", { className: "warn" }, "\n[the page shows no more]\n"));
  }
  shown += text.length;
  if (below) output.scrollTop = output.scrollHeight;
}

function fact(text, kind = "") {
  by("facts").append(element("li", { className: kind }, text));
}

const bytes = (size) => (size < 1024 ? `${size} B` : size < 1048576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1048576).toFixed(1)} MiB`);
const seconds = (time) => (time < 1 ? `${Math.round(time * 1000)} ms` : `${time.toFixed(2)} s`);

function showFacts(done) {
  if (done.violations.length && done.error && done.error.type === "PolicyViolation") fact("refused by the profile", "bad");
  else if (done.timed_out) fact("timeout", "bad");
  else if (done.error) fact(done.error.type, "bad");
  else fact(`exit code ${done.exit_code}`, done.exit_code ? "bad" : "good");
  fact(done.warm ? "warm start" : "cold start", done.warm ? "good" : "warn");
  fact(`${seconds(done.usage.wall_sec)} by the clock`);
  fact(`${seconds(done.usage.cpu_sec)} of CPU`);
  if (done.usage.peak_memory_mb) fact(`${done.usage.peak_memory_mb.toFixed(1)} MiB of memory`);
  if (done.truncated) fact("output was left out", "warn");
}

function showFigure(content, name) {
  by("figures").querySelector("div").append(element("figure", {}, content, element("figcaption", {}, name)));
  by("figures").hidden = false;
}

function showImage(source, name) {
  if ([...by("figures").querySelectorAll("img")].some((one) => one.src === source)) return;
  showFigure(element("img", { src: source, alt: name }), name);
}

// Scripts run after a click only, because a browser lets those of a frame send data by WebRTC.
function onClick(words, work) {
  const button = element("button", { type: "button", className: "link" }, words);
  button.addEventListener("click", () => work(button), { once: true });
  return button;
}

function makeFrame(text, name, scripts) {
  const frame = element("iframe", { src: "web/frame.html", title: name });
  frame.sandbox = "allow-scripts";
  frame.addEventListener("load", () => frame.contentWindow.postMessage({ text, scripts }, "*"), { once: true });
  return frame;
}

function showHtml(text, name) {
  const frame = makeFrame(text, name, false);
  const run = onClick("Run its scripts", (button) => {
    frame.replaceWith(makeFrame(text, name, true));
    button.remove();
  });
  showFigure(element("div", {}, frame, ...(/<script|\son\w+\s*=/i.test(text) ? [run] : [])), name);
}

window.addEventListener("message", (event) => {
  const frame = [...by("figures").querySelectorAll("iframe")].find((one) => one.contentWindow === event.source);
  if (frame && typeof event.data === "number") frame.style.height = `${Math.min(Math.max(event.data + 2, 40), 700)}px`;
});

// The JavaScript of plotly is taken from the package in the sandbox, because a frame loads nothing.
const PLOTLY = `import gzip, pathlib, plotly
found = pathlib.Path(plotly.__file__).parent / "package_data/plotly.min.js"
pathlib.Path("/output/plotly").write_bytes(gzip.compress(found.read_bytes()))`;
let plotly = null; // the promise of its text

const decoded = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

async function loadPlotly(choice) {
  const done = await json("POST", "v1/run", { ...choice, code: PLOTLY });
  if (!done.artifacts.length) throw new Problem(0, { title: "plotly cannot be shown", detail: done.error?.message || done.left_out.join() });
  const found = new Blob([decoded(done.artifacts[0].base64)]).stream();
  return new Response(found.pipeThrough(new DecompressionStream("gzip"))).text();
}

function showPlotly(figure, name, choice) {
  showFigure(onClick("Run the scripts of this figure", (button) => drawPlotly(button, figure, name, choice)), name);
}

async function drawPlotly(button, figure, name, choice) {
  plotly = plotly || loadPlotly(choice);
  try {
    const call = `{ const { data, layout } = ${figure}; Plotly.newPlot("figure", data, layout, { responsive: true }); }`;
    const parts = [await plotly, call].map((text) => `<script>${text.replaceAll("</script", "<\\/script")}</script>`);
    button.replaceWith(makeFrame(`<div id="figure"></div>${parts.join("")}`, name, true));
  } catch (error) {
    plotly = null;
    complain(error);
  }
}

function showFile(file) {
  const kind = OF_NAMES[file.name.split(".").pop().toLowerCase()];
  if (kind) showImage(`data:${kind};base64,${file.base64}`, file.name);
  const address = URL.createObjectURL(new Blob([decoded(file.base64)], { type: "application/octet-stream" }));
  const link = element("a", { href: address, download: file.name.split("/").pop() }, file.name);
  by("files").querySelector("ul").append(element("li", {}, link, ` (${bytes(file.size)})`));
  by("files").hidden = false;
}

function showDisplay(bundle, at, choice) {
  const name = `display ${at + 1}`;
  if ("application/vnd.plotly.v1+json" in bundle) return showPlotly(bundle["application/vnd.plotly.v1+json"], name, choice);
  if ("text/html" in bundle) return showHtml(bundle["text/html"], name);
  for (const [kind, is64] of Object.entries(IMAGES)) {
    if (kind in bundle) {
      showImage(`data:${kind}${is64 ? ";base64," : ","}${is64 ? bundle[kind].replace(/\s/g, "") : encodeURIComponent(bundle[kind])}`, name);
      return;
    }
  }
}

function showViolation(found) {
  const line = element("button", { type: "button", className: "link", title: "Go to this line" }, String(found.line));
  line.addEventListener("click", () => goTo(found.line));
  const row = element("tr", {}, element("td", {}, line), element("td", {}, element("code", {}, found.rule)), element("td", {}, found.message));
  by("violations").querySelector("tbody").append(row);
  by("violations").hidden = false;
}

const isDrawn = (bundle) => ["application/vnd.plotly.v1+json", "text/html", ...Object.keys(IMAGES)].some((kind) => kind in bundle);

// What the output does not say of an error: code can catch a traceback, and that of a timeout is the interrupt's.
function unsaid({ type, message, traceback }, said, late) {
  if (traceback && !said.includes(traceback.trimEnd().split("\n").pop())) return traceback;
  return traceback && !late ? "" : `${type}: ${message}\n`;
}

function showResult(done, choice) {
  showFacts(done);
  const said = by("output").textContent;
  const drawn = done.displays.some((bundle) => bundle["text/plain"] === done.value && isDrawn(bundle));
  if (done.value !== null && !drawn) write((said && !said.endsWith("\n") ? "\n" : "") + done.value + "\n", "value");
  if (done.error) write(unsaid(done.error, said, done.timed_out), "bad");
  if (done.error && done.error.hint) write(`Hint: ${done.error.hint}\n`, "warn");
  done.displays.forEach((bundle, at) => showDisplay(bundle, at, choice));
  done.artifacts.forEach(showFile);
  done.violations.forEach(showViolation);
  if (done.left_out.length) write(`Files that were left out: ${done.left_out.join(", ")}\n`, "warn");
  if (done.uncollected.length) write(`Not returned, write to /output: ${done.uncollected.join(", ")}\n`, "warn");
  if (done.session_ended) write(`The session has ended: ${done.session_ended}\n`, "warn");
  if (!by("output").textContent && !drawn) write("no output", "quiet");
  say("done");
}

// Runs

function say(text, busy = false) {
  by("state").textContent = text;
  by("state").classList.toggle("running", busy);
}

function set(now) {
  running = now;
  by("run").disabled = Boolean(now);
  by("stop").disabled = !now;
}

function limits() {
  const found = {};
  if (by("seconds").value) found.timeout_sec = Number(by("seconds").value);
  return found;
}

function sandbox() {
  const found = limits();
  if (by("memory").value) found.memory_mb = Number(by("memory").value);
  if (by("profile").value) found.profile = by("profile").value;
  const packages = [...by("packages").querySelectorAll("input:checked")].map((one) => one.value);
  return packages.length ? { ...found, packages } : found;
}

// The files that are chosen, as a new sandbox gets them. A session has got them already.
async function chosenFiles() {
  const found = {};
  for (const file of by("upload").files) {
    const text = await new Promise((done, failed) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.onerror = () => failed(reader.error);
      reader.readAsDataURL(file);
    });
    found[file.name] = { base64: text.slice(text.indexOf(",") + 1) };
  }
  return found;
}

async function run() {
  if (running) return;
  const session = by("where").value;
  const of = sessions.find((one) => one.id === session);
  const choice = of ? { profile: of.profile || undefined, packages: of.dependencies } : sandbox();
  const body = { code: code.value, stdin: by("stdin").value, ...(session ? limits() : sandbox()) };
  const abort = new AbortController();
  set({ abort, session });
  complain(null);
  clear();
  say("running", true);
  // In one column the result is below what a phone shows: otherwise nothing would seem to happen.
  const title = by("result-title");
  if (title.getBoundingClientRect().bottom > innerHeight) title.scrollIntoView();
  try {
    if (!session) body.files = await chosenFiles();
    const route = session ? `v1/sessions/${encodeURIComponent(session)}/run` : "v1/run";
    const answer = await call("POST", route, body, { signal: abort.signal, headers: { Accept: "text/event-stream" } });
    if (session) list(); // which shows that it runs
    let ended = false;
    await events(answer, (kind, data) => {
      if (kind === "stdout") write(data.text);
      else if (kind === "stderr") write(data.text, "bad");
      else if (kind === "installing") say(`installing ${data.text || "packages"}`, true);
      else if (kind === "installed") say("running", true);
      else if (kind === "problem") throw new Problem(data.status, data);
      else if (kind === "result") {
        ended = true;
        showResult(data, choice);
      }
    });
    if (!ended) throw new Problem(0, { title: "The service has closed the connection before the result" });
  } catch (error) {
    say(error.name === "AbortError" ? "stopped" : "failed");
    if (error.name !== "AbortError") complain(error);
  } finally {
    set(null);
    await list();
  }
}

async function stop() {
  if (!running) return;
  if (!running.session) {
    running.abort.abort(); // the service ends a sandbox whose client has gone
    return;
  }
  try {
    await json("POST", `v1/sessions/${encodeURIComponent(running.session)}/interrupt`);
  } catch (error) {
    complain(error);
  }
}

// Sessions

let sessions = [];

const fileRoute = (path) => `v1/sessions/${by("where").value}/files/${path.split("/").map(encodeURIComponent).join("/")}`;

async function download(path) {
  const content = await (await call("GET", fileRoute(path))).blob();
  const link = element("a", { href: URL.createObjectURL(content), download: path.split("/").pop() });
  link.click();
  URL.revokeObjectURL(link.href);
}

let filesAsked = 0;

async function listFiles() {
  const session = by("where").value;
  const turn = (filesAsked += 1);
  by("kept").hidden = !session;
  if (!session || sessions.find((one) => one.id === session)?.running) return;
  const { files } = await json("GET", `v1/sessions/${session}/files`);
  if (turn !== filesAsked) return; // as in list()
  by("kept").querySelector("ul").replaceChildren(...Object.entries(files).map(([path, size]) => {
    const get = element("button", { type: "button", className: "link", title: "Download" }, path);
    get.addEventListener("click", () => act(() => download(path)));
    const remove = element("button", { type: "button", className: "link", ariaLabel: `Remove ${path}` }, "Remove");
    remove.addEventListener("click", () => act(() => json("DELETE", fileRoute(path))));
    return element("li", {}, get, ` (${bytes(size)}) `, remove);
  }));
  if (!Object.keys(files).length) by("kept").querySelector("ul").append(element("li", { className: "quiet" }, "none"));
}

// Of a new sandbox the files stay chosen. A session gets them once.
async function upload() {
  const files = by("where").value ? [...by("upload").files] : [];
  if (files.length) by("upload").value = "";
  for (const file of files) await call("PUT", fileRoute(file.name), file);
}

function choose(id) {
  by("where").value = id;
  for (const name of ["profile", "memory"]) by(name).disabled = Boolean(by("where").value);
  by("packages").disabled = Boolean(by("where").value);
  upload().then(listFiles).catch(complain);
}

async function act(work) {
  complain(null);
  try {
    const made = await work();
    await list();
    if (made && made.id) choose(made.id);
  } catch (error) {
    await list(); // the session may have ended
    complain(error);
  }
}

function row(session) {
  const route = `v1/sessions/${encodeURIComponent(session.id)}`;
  const name = session.id.slice(0, 6);
  const button = (text, work, disabled = false) => {
    const made = element("button", { type: "button", disabled, ariaLabel: `${text} session ${name}` }, text);
    made.addEventListener("click", () => act(work));
    return made;
  };
  return element(
    "tr", {},
    element("td", {}, element("code", {}, name)),
    element("td", { className: session.running ? "warn" : "good" }, session.running ? "running" : "ready"),
    element("td", {}, session.profile || "default"),
    element("td", { className: "number" }, seconds(session.age_sec)),
    element("td", { className: "number" }, seconds(session.unused_sec)),
    element(
      "td", {},
      button("Use", async () => { choose(session.id); code.focus(); }),
      button("Interrupt", () => json("POST", `${route}/interrupt`), !session.running),
      button("Fork", () => json("POST", `${route}/fork`)),
      button("End", () => json("DELETE", route)),
    ),
  );
}

function showSessions(found) {
  const sameIds = found.map((one) => one.id).join() === sessions.map((one) => one.id).join();
  sessions = found;
  const body = by("sessions").querySelector("tbody");
  const focused = body.contains(document.activeElement) && document.activeElement.ariaLabel;
  body.replaceChildren(...found.map(row));
  if (focused) [...body.querySelectorAll("button")].find((one) => one.ariaLabel === focused)?.focus();
  if (!found.length) body.append(element("tr", {}, element("td", { colSpan: 6, className: "quiet" }, "none")));
  const chosen = by("where").value;
  if (sameIds) return choose(chosen); // a menu that is open stays so
  by("where").replaceChildren(
    element("option", { value: "" }, "new for each run"),
    ...found.map((one) => element("option", { value: one.id }, `session ${one.id.slice(0, 6)}`)),
  );
  choose(found.some((one) => one.id === chosen) ? chosen : "");
}

let latest = null; // the promise of the list that was asked for last
let again = 0; // the timer of the next list

// Each request that uses a session makes it "running", also one that lists its files. So the page lists again until the
// session is ready: after a second, then less and less often.
function list(pause = 1000) {
  clearTimeout(again);
  const mine = json("GET", "v1/sessions").then((answer) => {
    if (mine !== latest) return latest; // a later answer may have come first
    showSessions(answer.sessions);
    if (sessions.some((one) => one.running)) again = setTimeout(list, pause, Math.min(2 * pause, 30_000));
    return null;
  }).catch(complain);
  latest = mine;
  return mine;
}

// The service

async function begin() {
  complain(null);
  try {
    const choice = await json("GET", "v1/profiles");
    by("about").textContent = `Python ${choice.python}`;
    by("profile").replaceChildren(
      element("option", { value: "" }, "default"),
      ...choice.profiles.map((one) => element("option", { value: one.name, title: one.description }, one.name)),
    );
    by("seconds").max = choice.limits.timeout_sec;
    by("seconds").placeholder = String(choice.limits.timeout_sec);
    by("memory").max = choice.limits.memory_mb;
    by("memory").placeholder = String(choice.limits.memory_mb);
    by("packages").replaceChildren(
      element("legend", {}, "Packages"),
      ...choice.packages.map((name) => element("label", {}, element("input", { type: "checkbox", value: name }), name)),
    );
    by("packages").hidden = !choice.packages.length;
    await list();
  } catch (error) {
    by("about").textContent = error.status === 401 ? "needs a token" : "not connected";
    complain(error);
  }
}

function login(reason) {
  by("wrong").hidden = !reason;
  by("wrong").textContent = reason;
  by("secret").value = "";
  if (!by("login").open) by("login").showModal();
}

by("login").addEventListener("close", () => {
  const answer = by("login").returnValue;
  const given = by("secret").value.trim();
  by("secret").value = "";
  if (answer === "keep" && given) keepToken(given);
  else if (answer === "forget") keepToken("");
  else return;
  begin();
});
by("login").addEventListener("cancel", () => { by("login").returnValue = "cancel"; });

by("token").addEventListener("click", () => login(""));
by("run").addEventListener("click", run);
by("stop").addEventListener("click", stop);
by("new").addEventListener("click", () => act(async () => {
  const before = by("state").textContent;
  if (!running) say("starting a session", true); // perhaps for a minute, with packages to install
  try {
    return await json("POST", "v1/sessions", sandbox());
  } finally {
    if (!running) say(before);
  }
}));
by("refresh").addEventListener("click", () => act(async () => null));
by("where").addEventListener("change", () => choose(by("where").value));
by("upload").addEventListener("change", () => act(upload));
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || by("login").open) return;
  if (event.key === "Enter") run();
  else if (event.key === ".") stop();
  else return;
  event.preventDefault();
});
addModes(by("theme"));
code.value = EXAMPLE;
number();
begin();
