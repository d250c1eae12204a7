/** Characters that nobody sees, or that change how the text after them looks. */

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;

/** Return a text in which they can be seen: NUL as ␀, and marks that turn the direction of writing by code. */
export function visible(text: string): string {
  if (!CONTROL.test(text)) return text;
  return text
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(
      /[\u0080-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
      (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
    );
}
