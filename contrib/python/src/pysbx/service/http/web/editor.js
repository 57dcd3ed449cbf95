// Colours of the editor: an element behind the text area has the same text with them, and the area's own is transparent.

const WORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from global if " +
    "import in is lambda nonlocal not or pass raise return try while with yield").split(" "),
);
const TOKEN = new RegExp(
  [
    /(?<text>(?<!\w)[bfrtu]{0,2}(?:"""(?:\\[^]|(?!""")[^\\])*(?:"""|$)|'''(?:\\[^]|(?!''')[^\\])*(?:'''|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?))/,
    /(?<remark>#.*)/,
    /(?<word>[\p{L}_][\p{L}\d_]*)/,
    /(?<number>\d[\w.]*)/,
  ].map((part) => part.source).join("|"),
  "giu",
);
// Characters: a longer text would make typing slow.
const LONGEST = 100_000;

// Show a program in an element: a piece of a kind has the class of its name.
export function paint(place, program) {
  const parts = [];
  let at = 0;
  for (const found of program.length > LONGEST ? [] : program.matchAll(TOKEN)) {
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    if (kind === "word" && !WORDS.has(found[0])) continue;
    const piece = document.createElement("span");
    piece.className = kind;
    piece.textContent = found[0];
    parts.push(program.slice(at, found.index), piece);
    at = found.index + found[0].length;
  }
  place.replaceChildren(...parts, `${program.slice(at)}\n`);
}
