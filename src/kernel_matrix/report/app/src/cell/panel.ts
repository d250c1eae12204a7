/** The panel of a cell, over the page. */

import type { Context } from "../context";
import { h, replace } from "../dom";
import { later } from "../later";
import { loadCell } from "../load";
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
  show(context: Context, id: string, name: string): void {
    if (id === this.id) return;
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

  private returnFocus(): void {
    if (this.opener instanceof HTMLElement && this.opener.isConnected) this.opener.focus({ preventScroll: true });
    this.opener = null;
  }
}
