/** Make elements. Every text goes in as a text node, so no data can become markup; control characters can be seen. */

import { visible } from "./visible";

export type Child = Node | string | number | null | undefined | false | readonly Child[];
type Handlers = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
export type Properties = { on?: Handlers } & { [name: string]: unknown };

/**
 * Return an element with these attributes, handlers (`on`) and children. An attribute that is null or false stays away;
 * one of ARIA says `false`, because there it is a word.
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties?: Properties | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "on") {
      for (const [event, handler] of Object.entries(value as Handlers)) {
        element.addEventListener(event, handler as EventListener);
      }
    } else if (typeof value === "boolean" && name.startsWith("aria-")) {
      element.setAttribute(name, String(value));
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, name === "title" ? visible(String(value)) : String(value));
    }
  }
  append(element, children);
  return element;
}

export function append(element: Element | DocumentFragment, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : visible(String(child)));
  }
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Return a link to another site; plain text where the address is no web address, as of a script. */
export function outside(address: string, text: string): Node {
  if (!/^https?:\/\//i.test(address)) return document.createTextNode(address);
  return h("a", { href: address, rel: "noopener noreferrer" }, text);
}

/** Return names with values, without those that have no value. */
export function facts(pairs: readonly (readonly [string, Child])[]): HTMLElement | null {
  const known = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  if (known.length === 0) return null;
  return h(
    "dl",
    { class: "facts" },
    known.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

export interface ColumnOf<T> {
  title: Child;
  cell: (row: T) => Child;
  number?: boolean;
  header?: boolean;
  wide?: boolean;
}

/** Return a table in a box that scrolls sideways. `name` is what a screen reader calls it. */
export function table<T>(
  name: string,
  columns: readonly ColumnOf<T>[],
  rows: readonly T[],
  test?: string,
): HTMLElement {
  const kind = (column: ColumnOf<T>) =>
    [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim() || null;
  return scroller(
    name,
    h(
      "table",
      { class: "plain", "aria-label": name, "data-test": test },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((column) => h("th", { scope: "col", class: kind(column) }, column.title)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            null,
            columns.map((column) =>
              column.header
                ? h("th", { scope: "row", class: kind(column) }, column.cell(row))
                : h("td", { class: kind(column) }, column.cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Return a box that scrolls sideways and that the keyboard reaches. */
function scroller(name: string, ...children: Child[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, children);
}

/** Show the first rows of a long list, and more on demand. */
export function inSteps<T>(
  rows: readonly T[],
  step: number,
  show: (part: readonly T[]) => Node,
  noun: string,
): HTMLElement {
  const box = h("div");
  let shown = step;
  const draw = (): void => {
    replace(box, show(rows.slice(0, shown)));
    if (rows.length > shown) {
      box.append(
        h(
          "p",
          { class: "more" },
          `${shown} of ${rows.length} ${noun} `,
          h(
            "button",
            {
              type: "button",
              on: {
                click: () => {
                  shown += step * 4;
                  draw();
                },
              },
            },
            "Show more",
          ),
        ),
      );
    }
  };
  draw();
  return box;
}
