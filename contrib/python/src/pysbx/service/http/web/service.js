// The service, as the page sees it: the token, requests, streams of events, light and dark mode.

const KEY = "pysbx-token";
const MODES = ["system", "light", "dark"];

// The origin is the service's own, so its storage may be closed to this page: then the token lasts as long as the page.
let kept = "";

export function token() {
  try {
    return sessionStorage.getItem(KEY) || kept;
  } catch {
    return kept;
  }
}

export function keepToken(value) {
  kept = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    return;
  }
}

// An answer that is no success, with the members of RFC 9457 if it has them.
export class Problem extends Error {
  constructor(status, found) {
    const said = [found.title, found.detail].filter(Boolean).join(": ");
    super(found.remedy ? `${said}. What to do: ${found.remedy}` : said);
    this.status = status;
  }
}

export async function call(method, route, body, more = {}) {
  // A request that is known to fail is an error in the browser's console.
  if (!token() && !("known" in document.documentElement.dataset)) throw new Problem(401, { title: "A token is needed" });
  const headers = { ...more.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const file = body instanceof Blob;
  if (body !== undefined && !file) headers["Content-Type"] = "application/json";
  const given = { method, headers, signal: more.signal, cache: "no-store", credentials: "omit" };
  if (body !== undefined) given.body = file ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(route, given);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "The service does not answer", detail: error.message });
  }
  if (answer.ok) return answer;
  let found;
  try {
    found = await answer.json();
  } catch {
    found = { title: `Status ${answer.status}` };
  }
  throw new Problem(answer.status, found);
}

export async function json(method, route, body) {
  const answer = await call(method, route, body);
  return answer.status === 204 ? null : answer.json();
}

// Hand each event of a stream to a function: its name and its data. See "Interpreting an event stream" of HTML.
export async function events(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const of = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
      if (of("event").length) each(of("event")[0], JSON.parse(of("data").join("\n")));
    }
  }
}

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

export function addModes(button) {
  const show = (mode) => {
    document.documentElement.dataset.mode = mode;
    button.textContent = `Theme: ${mode}`;
  };
  const stored = () => {
    try {
      return localStorage.getItem("pysbx-mode");
    } catch {
      return null;
    }
  };
  let mode = MODES.includes(stored()) ? stored() : MODES[0];
  show(mode);
  button.addEventListener("click", () => {
    mode = MODES[(MODES.indexOf(mode) + 1) % MODES.length];
    show(mode);
    try {
      localStorage.setItem("pysbx-mode", mode);
    } catch {
      return;
    }
  });
}
