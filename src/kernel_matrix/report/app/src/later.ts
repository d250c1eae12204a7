/** Parts of the page that wait for a file of data. */

import { h, replace } from "./dom";

/** Return a box that is filled when the data come, or says why they do not. */
export function later<T>(load: () => Promise<T>, show: (value: T) => Node | null, what: string): HTMLElement {
  const box = h("div", { class: "later", "aria-busy": "true" });
  const start = (): void => {
    replace(box, h("p", { class: "dim" }, `Loading ${what}.`));
    load()
      .then((value) => {
        const content = show(value);
        replace(box, content);
        box.removeAttribute("aria-busy");
      })
      .catch((error: unknown) => {
        box.removeAttribute("aria-busy");
        replace(
          box,
          h(
            "p",
            { class: "problem", role: "alert" },
            error instanceof Error ? error.message : String(error),
            " ",
            h("button", { type: "button", on: { click: start } }, "Try again"),
          ),
        );
      });
  };
  start();
  return box;
}

/** Return a part that is folded, and made when somebody unfolds it. */
export function onDemand(title: string, make: () => Node, test: string): HTMLElement {
  const details = h("details", { class: "part", "data-test": test }, h("summary", null, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}
