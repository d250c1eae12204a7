/** The cases of a file of cells and their outputs: Arrow tables, which flechette reads. */

import { tableFromIPC } from "@uwdata/flechette";
import type { CellChunk, Times } from "../data";
import type { Written } from "../numbers";

/** A row of the table of cases. A column in which no case has a value is absent. */
export interface CaseRow {
  name: string;
  state: number;
  evidence: number;
  reason: string;
  stale: string;
  stage: string;
  action: string;
  message: string;
  detail: string;
  repeat: string;
  seconds: number;
  diagnosis?: string | null;
  job?: string | null;
  facts?: [string, string][] | null;
  artifact?: [string, number][] | null;
  times?: Times | null;
  attempts?: string[] | null;
}

type OutputRow = { case: number; output: string } & Record<string, Written>;

/** The rows of a file, made when they are asked for. */
export class Tables {
  private readonly cases;
  private readonly outputs;
  private readonly first: number[] = [0]; // of the outputs of each case, and behind the last one

  constructor(chunk: CellChunk) {
    [this.cases, this.outputs] = [chunk.cases, chunk.outputs].map((text) => tableFromIPC(bytes(text))) as [Rows, Rows];
    const of = this.outputs.getChild("case");
    for (let row = 0; row < this.outputs.numRows; row++) {
      while (this.first.length <= (of.at(row) as number)) this.first.push(row);
    }
  }

  /** Return the row of the case at a place. */
  at(place: number): CaseRow {
    return this.cases.at(place) as unknown as CaseRow;
  }

  /** Return the outputs of the case at a place, each with the figures that were measured. */
  outputsOf(place: number): Map<string, ReadonlyMap<string, Written>> {
    const end = this.outputs.numRows;
    const [first, behind] = [this.first[place] ?? end, this.first[place + 1] ?? end];
    const rows = Array.from({ length: behind - first }, (_, row) => this.outputs.at(first + row) as OutputRow);
    return new Map(rows.map(({ case: _, output, ...figures }) => [output, measured(figures)]));
  }
}

type Rows = ReturnType<typeof tableFromIPC>;

const known = new WeakMap<CellChunk, Tables>();

/** Return the tables of a file, which are decoded once. */
export function tables(chunk: CellChunk): Tables {
  let found = known.get(chunk);
  if (!found) known.set(chunk, (found = new Tables(chunk)));
  return found;
}

function bytes(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function measured(figures: Record<string, Written>): Map<string, Written> {
  const values = Object.entries(figures).filter(([, value]) => value !== null);
  return new Map(values.map(([figure, value]) => [figure, rounded(value as number)]));
}

/** Return a number with five digits. Whole numbers keep all. */
export function rounded(value: number): number {
  if (!Number.isFinite(value) || (Number.isInteger(value) && Math.abs(value) < 1e15)) return value;
  return Number(value.toPrecision(5));
}
