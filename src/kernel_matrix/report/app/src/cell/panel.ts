/** The panel of a cell, over the page. */

import type { Context } from "../context";
import { h, replace } from "../dom";
import { later } from "../later";
import { load, loadCell, type Files } from "../load";
import { beginning } from "../text";
import { content } from "./content";

export class CellPanel {
  readonly element: HTMLDialogElement = h("dialog", { id: "cell", "aria-labelledby": "cell-title" });
  private id = "";
  private opener: Element | null = null;

  constructor(private readonly closed: () => void) {
    // Closing the dialog changes the address, and the address closes the dialog.
    this.element.addEventListener("close", () => {
      if (this.id === "") return;
      this.id = "";
      this.closed();
      this.returnFocus();
    });
    this.element.addEventListener("click", (event) => {
      if (event.target === this.element) this.element.close();
    });
  }

  close(): void {
    if (this.element.open) this.element.close();
  }

  /** Show a cell with one of its cases open; no cell closes the panel. */
  show(context: Context, id: string, name: string, anew = false): void {
    if (id === this.id) {
      if (anew && id !== "") this.redraw(context);
      return;
    }
    this.id = id;
    if (id === "") {
      this.close();
      this.returnFocus();
      return;
    }
    this.opener = document.activeElement;
    const cell = context.model.find(id);
    const close = h(
      "button",
      { type: "button", class: "close", "data-test": "close", on: { click: () => this.close() } },
      "Close",
    );
    const head = (title: Node | string) =>
      h("div", { class: "cell-head" }, h("h2", { id: "cell-title", tabindex: "-1" }, title), close);
    if (cell < 0) {
      replace(
        this.element,
        head("Not in these data"),
        h("p", { class: "problem" }, `These data have no cell ${beginning(id, 300)}. It may be of another report.`),
      );
    } else {
      const { op, direction } = context.model.opOf(cell);
      const lane = context.model.laneOf(cell);
      replace(
        this.element,
        head(
          h(
            "span",
            null,
            `${op} ${direction}`,
            h(
              "span",
              { class: "dim" },
              ` ${lane.toolchain} on ${lane.target}, ${context.model.titleOfLane(context.model.lane(cell))}`,
            ),
          ),
        ),
        later(
          () => loadCell(context.model.overview.cells.chunk[cell]!, id),
          ({ detail, chunk }) => content(context, cell, detail, chunk, name),
          "the cell",
        ),
      );
    }
    if (!this.element.open) this.element.showModal();
    this.element.scrollTop = 0;
    this.element.querySelector<HTMLElement>("#cell-title")!.focus();
  }

  /** Show the open cell with newer data. What was open, where it was scrolled and what had the focus stay. */
  private redraw(context: Context): void {
    const cell = context.model.find(this.id);
    const id = this.id;
    if (cell < 0) return;
    // What the content loads is loaded before: then all of it is drawn at once, and the scrolling stays.
    const others = (["speed", "history", "agreement"] as const).filter((name) =>
      context.model.overview.has.includes(name),
    );
    this.element.setAttribute("aria-busy", "true");
    Promise.all([
      loadCell(context.model.overview.cells.chunk[cell]!, id),
      Promise.allSettled(others.map((name) => load<keyof Files>(name))),
    ])
      .then(([{ detail, chunk }]) => {
        const before = this.element.querySelector<HTMLElement>("[data-open-cell]");
        if (this.id !== id || !before || !this.element.open) return;
        const kept = new Kept(this.element);
        before.replaceWith(content(context, cell, detail, chunk, ""));
        kept.restore();
        setTimeout(() => kept.scrollBack());
      })
      .catch(() => undefined) // the next file is being written: the content on show stays
      .finally(() => this.element.removeAttribute("aria-busy"));
  }

  private returnFocus(): void {
    if (this.opener instanceof HTMLElement && this.opener.isConnected) this.opener.focus({ preventScroll: true });
    this.opener = null;
  }
}

/** What somebody has done in the panel: parts that are open, the filter of the cases, the focus and the scrolling. */
class Kept {
  private readonly scroll: number;
  private readonly open: readonly string[];
  private readonly filter: string;
  private readonly focus: string;
  private readonly caret: number;

  constructor(private readonly panel: HTMLDialogElement) {
    this.scroll = panel.scrollTop;
    this.open = [...panel.querySelectorAll("details[open]")].map(keyOf);
    const filter = panel.querySelector<HTMLInputElement>("#case-filter");
    this.filter = filter?.value ?? "";
    this.caret = filter?.selectionStart ?? 0;
    const active = document.activeElement;
    this.focus = active instanceof HTMLElement && panel.contains(active) ? placeOf(panel, active) : "";
  }

  restore(): void {
    const filter = this.panel.querySelector<HTMLInputElement>("#case-filter");
    if (filter && this.filter !== "") {
      filter.value = this.filter;
      filter.dispatchEvent(new Event("input"));
    }
    for (const part of this.panel.querySelectorAll("details")) if (this.open.includes(keyOf(part))) part.open = true;
    const active = this.focus === "" ? null : elementAt(this.panel, this.focus);
    active?.focus({ preventScroll: true });
    if (active === filter) filter?.setSelectionRange(this.caret, this.caret);
    this.scrollBack();
  }

  /** Scroll to where it was; the parts that are loaded later come a moment after the rest. */
  scrollBack(): void {
    this.panel.scrollTop = this.scroll;
  }
}

function keyOf(part: Element): string {
  return (part as HTMLElement).dataset["case"] ?? part.querySelector("summary")?.textContent ?? "";
}

/** Return what an element is and the how manieth of its kind, to find it in the next drawing. */
function placeOf(panel: Element, element: HTMLElement): string {
  if (element.id !== "") return `#${CSS.escape(element.id)}`;
  const kind = element.dataset["test"] ? `[data-test="${CSS.escape(element.dataset["test"])}"]` : element.localName;
  return `${kind} ${[...panel.querySelectorAll(kind)].indexOf(element)}`;
}

function elementAt(panel: Element, place: string): HTMLElement | null {
  const [kind, index] = place.split(" ");
  return panel.querySelectorAll<HTMLElement>(kind!)[Number(index ?? 0)] ?? null;
}
