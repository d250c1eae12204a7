/** The columns of a file of cells: numbers that are packed, and lists that have one value where all are equal. */

import type { CaseColumns, OutputColumns } from "../data";
import type { Written } from "../numbers";

type NumberColumn = CaseColumns["seconds"];

/** Return the value of a place; of a list of one it is that. */
export function at(column: readonly number[], place: number): number {
  return column[column.length === 1 ? 0 : place]!;
}

/** Return the function that gives the number of a place, with five digits; null where it was not measured. */
export function reader(column: NumberColumn): (place: number) => number | string | null {
  if (Array.isArray(column)) return (place) => rounded(column[place] ?? null);
  if (typeof column !== "object" || column === null) return () => rounded(column);
  const [text, size] = column.uint8 ? [column.uint8, 1] : column.float32 ? [column.float32, 4] : [column.float64!, 8];
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return (place) => {
    if (size === 1) return bytes[place]!;
    const value = size === 4 ? view.getFloat32(4 * place, true) : view.getFloat64(8 * place, true);
    return Number.isNaN(value) ? null : rounded(value);
  };
}

/** Return a number with five digits. Whole numbers keep all. */
function rounded(value: number | string | null): number | string | null {
  if (typeof value !== "number" || !Number.isFinite(value)) return value;
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? value : Number(value.toPrecision(5));
}

/** The outputs of the cases of a file. */
export class Outputs {
  private readonly figures: readonly [string, (row: number) => Written][];
  private readonly first: readonly number[]; // of each case, and behind the last one; empty if all have as many

  constructor(private readonly columns: OutputColumns) {
    this.figures = Object.entries(columns.figures).map(([name, column]) => [name, reader(column)]);
    const first = [0];
    for (const count of columns.counts) first.push(first.at(-1)! + count);
    this.first = columns.counts.length === 1 ? [] : first;
  }

  /** Return the outputs of the case at a place, each with the figures that were measured. */
  of(place: number): Map<string, ReadonlyMap<string, Written>> {
    const { counts, names, name } = this.columns;
    const count = at(counts, place);
    const first = this.first.length > 0 ? this.first[place]! : count * place;
    const rows = Array.from({ length: count }, (_, row) => first + row);
    return new Map(rows.map((row) => [names[at(name, row)]!, this.measured(row)]));
  }

  private measured(row: number): Map<string, Written> {
    const values = this.figures.map(([figure, value]) => [figure, value(row)] as const);
    return new Map(values.filter(([, value]) => value !== null));
  }
}
