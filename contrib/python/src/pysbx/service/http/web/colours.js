// Text for a terminal: colours and weights of SGR become classes of the page's style, and other sequences are left out.
// See ECMA-48.

const SEQUENCE = /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;
// The beginning of a sequence, whose rest comes with the next part.
const BEGUN = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?$/;
const LONGEST = 1000;
const KINDS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline" };

// The nearest of eight colours, all of which can be read on the page: red, green and blue are the bits of its number.
const nearest = (red, green, blue) => (red > 127) + 2 * (green > 127) + 4 * (blue > 127);

function indexed(number) {
  if (number < 16) return number % 8;
  if (number > 231) return null; // grey
  const levels = [36, 6, 1].map((unit) => (Math.floor((number - 16) / unit) % 6) * 51);
  return nearest(...levels);
}

export class Colours {
  #rest = "";
  #colour = null;
  #kinds = new Set();

  // Return the parts of a text that came through a stream: classes and text of each.
  parts(text) {
    const found = [];
    const whole = this.#rest + text;
    const [begun] = whole.match(BEGUN) || [""];
    this.#rest = begun.length > LONGEST ? "" : begun;
    let at = 0;
    const add = (end) => {
      if (end > at) found.push([this.#classes(), whole.slice(at, end)]);
    };
    for (const sequence of whole.matchAll(SEQUENCE)) {
      add(sequence.index);
      at = sequence.index + sequence[0].length;
      if (sequence[1] !== undefined) this.#apply(sequence[1].split(/[;:]/).map(Number));
    }
    add(whole.length - begun.length);
    return found;
  }

  #classes() {
    return [...this.#kinds, ...(this.#colour === null ? [] : [`colour${this.#colour}`])].join(" ");
  }

  #apply(codes) {
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 38 || code === 48) {
        const colour = codes[at + 1] === 5 ? indexed(codes[at + 2]) : nearest(...codes.slice(at + 2, at + 5));
        if (code === 38) this.#colour = colour;
        at += codes[at + 1] === 5 ? 2 : 4;
      } else if (code === 0) {
        this.#colour = null;
        this.#kinds.clear();
      } else if (code in KINDS) this.#kinds.add(KINDS[code]);
      else if (code === 22) ["bold", "dim"].forEach((kind) => this.#kinds.delete(kind));
      else if (code === 23 || code === 24) this.#kinds.delete(KINDS[code - 20]);
      else if (code === 39) this.#colour = null;
      else if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) this.#colour = code % 10;
    }
  }
}
