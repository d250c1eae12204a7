/** A table of squares that stays fast: of a large one, all rows are in the document, and the squares that can be seen. */

import { append, h } from "./dom";

interface SquareColumn {
  head: Node;
  width: number;
}

export interface SquareRow {
  key: string;
  head: Node;
  /** The content of each column. A button in it gets the keyboard. */
  cell: (column: number) => Node | null;
  className: string;
}

export interface Source {
  name: string;
  corner: string;
  columns: readonly SquareColumn[];
  rows: number;
  row: (index: number) => SquareRow;
  rowHeight: number;
  headWidth: number;
  className?: string;
}

const AT_ONCE = 400; // squares that are drawn without a window
const OVERSCAN = 3; // rows above and below what can be seen
const MOST_PRINTED = 8_000;

/** A part of the table, from `first` up to and without `last`. */
interface Part {
  first: number;
  last: number;
  left: number;
  right: number;
}

const NOTHING: Part = { first: 0, last: 0, left: 0, right: -1 };

export class Squares {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly table: HTMLTableElement;
  private part: Part = NOTHING;
  private focus = { row: 0, column: 0 };
  private printing = false;
  private readonly rows: { row: SquareRow; element: HTMLElement }[];

  constructor(private readonly source: Source) {
    const { columns, headWidth } = source;
    const width = headWidth + columns.reduce((sum, column) => sum + column.width, 0);
    this.table = h(
      "table",
      {
        class: `squares ${source.className ?? ""}`.trim(),
        role: "grid",
        "aria-label": source.name,
        "aria-rowcount": source.rows + 1,
        "aria-colcount": columns.length + 1,
        style: `width: ${width}px`,
      },
      h(
        "colgroup",
        null,
        h("col", { style: `width: ${headWidth}px` }),
        columns.map((column) => h("col", { style: `width: ${column.width}px` })),
      ),
      h(
        "thead",
        null,
        h(
          "tr",
          { role: "row", "aria-rowindex": 1 },
          h("th", { scope: "col", role: "columnheader", "aria-colindex": 1, class: "corner" }, source.corner),
          columns.map((column, index) =>
            h("th", { scope: "col", role: "columnheader", "aria-colindex": index + 2 }, column.head),
          ),
        ),
      ),
      this.body,
    );
    this.rows = Array.from({ length: source.rows }, (_, index) => this.row(index));
    this.body.append(...this.rows.map(({ element }) => element));
    this.element = h("div", { class: "grid-box" }, this.table);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.table.addEventListener("keydown", (event) => this.key(event));
    this.table.addEventListener("focusin", (event) => this.noteFocus(event));
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Draw all rows, for print; or a window of them again. */
  print(on: boolean): void {
    this.printing = on && this.source.rows * this.source.columns.length <= MOST_PRINTED;
    this.draw();
  }

  /** Return the rows and the columns that can be seen. */
  private seen(): Part {
    const { rows, columns, rowHeight, headWidth } = this.source;
    if (this.printing || rows * columns.length <= AT_ONCE)
      return { first: 0, last: rows, left: 0, right: columns.length };
    // A table that is not in the document yet has no size: take the largest that it can have.
    const height = this.element.clientHeight || Math.max(420, innerHeight - 150);
    const width = (this.element.clientWidth || innerWidth) - headWidth;
    const each = columns[columns.length - 1]!.width; // the first column may be wider
    const { scrollTop, scrollLeft } = this.element;
    return {
      first: Math.min(rows, Math.floor(scrollTop / rowHeight)),
      last: Math.min(rows, Math.ceil((scrollTop + height) / rowHeight)),
      left: Math.min(columns.length, Math.max(0, Math.floor(scrollLeft / each) - 1)),
      right: Math.min(columns.length, Math.ceil((scrollLeft + width) / each)),
    };
  }

  /** Draw what can be seen and some more, unless it is there. */
  private draw(): void {
    const { columns } = this.source;
    const seen = this.seen();
    const before = this.part;
    if (
      seen.first >= before.first &&
      seen.last <= before.last &&
      seen.left >= before.left &&
      seen.right <= before.right
    )
      return;
    const first = Math.max(0, seen.first - OVERSCAN);
    const last = Math.min(this.rows.length, seen.last + OVERSCAN);
    this.part = { first, last, left: Math.max(0, seen.left - 1), right: Math.min(columns.length, seen.right + 1) };
    const moved = this.part.left !== before.left || this.part.right !== before.right;
    const had = this.body.contains(document.activeElement);
    for (let index = before.first; index < before.last; index++) if (index < first || index >= last) this.empty(index);
    for (let index = first; index < last; index++)
      if (moved || index < before.first || index >= before.last) this.fill(index);
    const target = this.at(this.focus.row, this.focus.column) ?? this.body.querySelector<HTMLElement>("button");
    if (target) target.tabIndex = 0;
    if (had) this.at(this.focus.row, this.focus.column)?.focus({ preventScroll: true });
  }

  /** Return a row with its head alone: a search of the browser finds it wherever it is. */
  private row(index: number): { row: SquareRow; element: HTMLElement } {
    const row = this.source.row(index);
    const element = h(
      "tr",
      {
        role: "row",
        "aria-rowindex": index + 2,
        class: row.className,
        "data-row": row.key,
        style: `height: ${this.source.rowHeight}px`,
      },
      h("th", { scope: "row", role: "rowheader", "aria-colindex": 1 }, row.head),
    );
    element.querySelectorAll<HTMLElement>("button").forEach((button) => (button.tabIndex = -1));
    return { row, element };
  }

  private empty(index: number): void {
    const head = this.rows[index]!.element.firstElementChild!;
    this.rows[index]!.element.replaceChildren(head);
  }

  private fill(index: number): void {
    const { row, element } = this.rows[index]!;
    const { left, right } = this.part;
    const { length } = this.source.columns;
    this.empty(index);
    append(element, [
      left > 0 && h("td", { colspan: left, "aria-hidden": "true" }),
      Array.from({ length: right - left }, (_, place) => {
        const content = row.cell(left + place);
        return h(
          "td",
          { role: "gridcell", "aria-colindex": left + place + 2, class: content ? null : "none" },
          content ?? h("span", { title: "not planned" }, "·"),
        );
      }),
      right < length && h("td", { colspan: length - right, "aria-hidden": "true" }),
    ]);
    // One square of the grid is in the order of the Tab key; the arrows lead to the others.
    element.querySelectorAll<HTMLElement>("button").forEach((button) => (button.tabIndex = -1));
  }

  /** The button at a place; column 0 is the head of the row. */
  private at(row: number, column: number): HTMLElement | null {
    return this.body.querySelector(`tr[aria-rowindex="${row + 2}"] > [aria-colindex="${column + 1}"] button`);
  }

  private noteFocus(event: FocusEvent): void {
    const button = (event.target as HTMLElement).closest("button");
    const cell = button?.closest<HTMLElement>("[aria-colindex]");
    const row = cell?.closest<HTMLElement>("[aria-rowindex]");
    if (!button || !cell || !row || !this.body.contains(row)) return;
    this.body.querySelectorAll<HTMLElement>('button[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    button.tabIndex = 0;
    this.focus = {
      row: Number(row.getAttribute("aria-rowindex")) - 2,
      column: Number(cell.getAttribute("aria-colindex")) - 1,
    };
  }

  private key(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey || event.shiftKey) return;
    const { rows, columns } = this.source;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.source.rowHeight) - 2);
    const whole = event.ctrlKey;
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-page, 0],
      PageDown: [page, 0],
      Home: [whole ? -rows : 0, -columns.length - 1],
      End: [whole ? rows : 0, columns.length + 1],
    };
    const step = steps[event.key];
    if (!step || (whole && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    this.move(...step);
  }

  /** Move by some rows or columns, over squares that are not there, until a button. */
  private move(down: number, right: number): void {
    const { rows, columns } = this.source;
    const far = Math.abs(down) > 1 || Math.abs(right) > 1;
    let row = Math.min(rows - 1, Math.max(0, this.focus.row + down));
    let column = Math.min(columns.length, Math.max(0, this.focus.column + right));
    const back: [number, number] = far ? [-Math.sign(down), -Math.sign(right)] : [Math.sign(down), Math.sign(right)];
    for (let tries = rows + columns.length; tries > 0; tries--) {
      this.reveal(row, column);
      // Only groups have a button in their head: from there, down leads to the first square of the next row.
      const button = this.at(row, column) ?? (column === 0 && down !== 0 ? this.at(row, 1) : null);
      if (button) {
        button.focus({ preventScroll: true });
        button.scrollIntoView({ block: "nearest", inline: "nearest" });
        return;
      }
      row += back[0];
      column += back[1];
      if (row < 0 || row >= rows || column < 0 || column > columns.length) return;
    }
  }

  /** Scroll until a place is in the document; column 0 is the head of the row. */
  private reveal(row: number, column: number): void {
    const { columns, rowHeight } = this.source;
    if (row < this.part.first || row >= this.part.last) this.element.scrollTop = Math.max(0, (row - 2) * rowHeight);
    if (column > 0 && (column - 1 < this.part.left || column - 1 >= this.part.right)) {
      this.element.scrollLeft = columns.slice(0, Math.max(0, column - 2)).reduce((sum, one) => sum + one.width, 0);
    }
    this.draw();
  }

  /** Return how far the table is scrolled, to come back to. */
  get scrolled(): { top: number; left: number } {
    return { top: this.element.scrollTop, left: this.element.scrollLeft };
  }

  scrollBack(to: { top: number; left: number }): void {
    this.element.scrollTop = to.top;
    this.element.scrollLeft = to.left;
    this.draw();
  }
}
