/** Texts from results: they can be long, and can hold anything. */

import { h } from "./dom";
import { visible } from "./visible";

const LONGEST = 6_000;

/** Return the beginning of a text on one line. */
export function beginning(text: string, length = 200): string {
  const line = visible(text.slice(0, length * 4))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Return the name of a commit in short, with the mark of changes that were not committed. */
export function commitOf(commit: string | undefined): string {
  const [hash, ...changes] = (commit ?? "").split("+");
  return hash ? beginning([hash.slice(0, 12), ...changes].join("+"), 40) : "unknown";
}

function size(length: number): string {
  if (length >= 1e6) return `${(length / 1e6).toFixed(1)} million characters`;
  return `${length.toLocaleString("en")} characters`;
}

/** Return a block with a text. A long one is cut, and a button shows all of it. */
export function block(text: string, name: string, longest = LONGEST): HTMLElement {
  const cut = text.length > longest;
  const pre = h(
    "pre",
    { tabindex: "0", role: "group", "aria-label": name },
    visible(cut ? text.slice(0, longest) : text),
  );
  if (!cut) return pre;
  const more = h("button", { type: "button", "data-test": "show-all" }, `Show all (${size(text.length)})`);
  const note = h("p", { class: "more" }, `Cut after ${longest.toLocaleString("en")} characters. `, more);
  more.addEventListener("click", () => {
    pre.textContent = visible(text);
    note.remove();
    pre.focus();
  });
  return h("div", { class: "long" }, pre, note);
}

/** Return a command in a block, with a button that copies it. */
export function command(text: string): HTMLElement {
  const said = h("span", { class: "copied", role: "status" });
  const pre = h("pre", { class: "command", tabindex: "0", role: "group", "aria-label": "command" }, visible(text));
  const button = h("button", { type: "button", class: "copy", "data-test": "copy" }, "Copy the command");
  button.addEventListener("click", () => {
    copy(text).then(
      () => (said.textContent = "Copied."),
      () => {
        getSelection()?.selectAllChildren(pre);
        said.textContent = "The browser does not allow it. The command is selected: press Ctrl+C.";
      },
    );
  });
  return h("div", { class: "repeat" }, pre, h("p", null, button, " ", said));
}

/** Copy a text. From a file, browsers have no clipboard for scripts: the old way then still works. */
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { "aria-hidden": "true", style: "position: fixed; opacity: 0" });
    area.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser does not copy");
  }
}
