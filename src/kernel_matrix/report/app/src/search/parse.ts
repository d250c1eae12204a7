/** A search as text -> its terms. */

import { KEYS, keyNamed } from "./keys";
import { nearest } from "./nearest";

export interface Term {
  /** The key before the colon; empty for a word. */
  key: string;
  /** What stands after the colon, split at commas: one of them must match. */
  values: readonly string[];
  negative: boolean;
  /** The term as it was written. */
  text: string;
}

export interface Parsed {
  terms: readonly Term[];
  problems: readonly string[];
}

interface Piece {
  text: string;
  /** Where a character stands in quotes: a colon, a comma or a star there has no meaning of its own. */
  quoted: readonly boolean[];
  source: string;
}

/** Split a search at white space that is not in quotes. */
function split(query: string): { pieces: Piece[]; open: boolean } {
  const pieces: Piece[] = [];
  let text = "";
  let source = "";
  let quoted: boolean[] = [];
  let open = false;
  const end = (): void => {
    if (source !== "") pieces.push({ text, quoted, source });
    text = source = "";
    quoted = [];
  };
  for (let place = 0; place < query.length; place++) {
    const character = query[place]!;
    if (!open && /\s/.test(character)) {
      end();
      continue;
    }
    source += character;
    if (character === '"') {
      open = !open;
    } else if (open && character === "\\" && /["\\]/.test(query[place + 1] ?? "")) {
      place++;
      source += query[place];
      text += query[place];
      quoted.push(true);
    } else {
      text += character;
      quoted.push(open);
    }
  }
  end();
  return { pieces, open };
}

/** Split a value at commas that are not in quotes, and mark quoted stars and question marks as ordinary ones. */
function alternatives(text: string, quoted: readonly boolean[]): string[] {
  const values: string[] = [];
  let value = "";
  for (let place = 0; place < text.length; place++) {
    const character = text[place]!;
    if (character === "," && !quoted[place]) {
      values.push(value);
      value = "";
    } else {
      value += quoted[place] && /[*?\\]/.test(character) ? `\\${character}` : character;
    }
  }
  values.push(value);
  return values.filter((one) => one !== "");
}

/** Return the terms of a search, and a sentence for each thing in it that is wrong. */
export function parse(query: string): Parsed {
  const { pieces, open } = split(query);
  const terms: Term[] = [];
  const problems: string[] = [];
  if (open) problems.push('A quote (") has no end. Write one at the end of the text that it begins.');
  for (const piece of pieces) {
    const negative = piece.text.startsWith("-") && !piece.quoted[0] && piece.source.length > 1;
    const text = negative ? piece.text.slice(1) : piece.text;
    const quoted = negative ? piece.quoted.slice(1) : piece.quoted;
    const colon = [...text].findIndex((character, place) => character === ":" && !quoted[place]);
    const name = colon > 0 ? text.slice(0, colon).toLowerCase() : "";
    if (/^[a-z_]+$/.test(name)) {
      const key = keyNamed(name);
      if (!key) {
        const near = nearest(
          name,
          KEYS.map((one) => one.name),
        );
        const hint = near ? ` Did you mean '${near}'?` : ` The keys are ${KEYS.map((one) => one.name).join(", ")}.`;
        problems.push(`Unknown key '${name}'.${hint} Put a word with a colon in quotes to search for it.`);
        continue;
      }
      const values = alternatives(text.slice(colon + 1), quoted.slice(colon + 1));
      if (values.length === 0) {
        problems.push(`'${name}:' has no value. Write one after the colon, such as ${key.example}.`);
        continue;
      }
      terms.push({ key: key.name, values, negative, text: piece.source });
    } else if (text !== "") {
      const word = [...text].map((character, place) =>
        quoted[place] && /[*?\\]/.test(character) ? `\\${character}` : character,
      );
      terms.push({ key: "", values: [word.join("")], negative, text: piece.source });
    }
  }
  return { terms, problems };
}

/** Return a value as it must be written in a search. */
export function written(value: string): string {
  return /[\s",*?:\\]|^-/.test(value) || value === "" ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
}

/** Return a search with one term more, in place of terms with the same key. */
export function withTerm(query: string, key: string, value: string): string {
  const kept = split(query).pieces.filter((piece) => !piece.source.toLowerCase().startsWith(`${key}:`));
  return [...kept.map((piece) => piece.source), `${key}:${written(value)}`].join(" ");
}
