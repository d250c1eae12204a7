/** Cells -> totals: what is known best, and counts that add up. */

import type { Model, StateName } from "./model";
import type { Found } from "./search/compile";

/** The states from the one that says most: a state that says nothing of a kernel hides neither a pass nor a fault. */
const BEST: readonly StateName[] = [
  "pass",
  "held",
  "flaky",
  "told",
  "compiled",
  "lowered",
  "fixed",
  "fail",
  "error",
  "missing",
  "known",
  "unavailable",
  "excluded",
];

const RED: readonly StateName[] = ["fail", "error", "missing", "fixed"];

/** Return how good a state is, such as `pass (ran)`: what is red is worst, then what says nothing of a kernel. */
export function goodness(state: string): number {
  const name = state.split(" ")[0] as StateName;
  return RED.includes(name) ? -BEST.length : -BEST.indexOf(name);
}

export interface Summary {
  cells: number;
  /** The number of cells by state. */
  byState: Uint32Array;
  /** The state that says most, and the most evidence of a cell in it; -1 where there is no cell. */
  best: number;
  evidence: number;
  /** Whether all cells in that state are emulated, and whether all are stale. */
  emulated: boolean;
  faded: boolean;
  /** The cells that are red, and the cells with a stale case. */
  red: number;
  stale: number;
}

/** Return the summary of some cells. */
export function summary(model: Model, cells: readonly number[] | Int32Array): Summary {
  const byState = new Uint32Array(model.stateNames.length);
  for (const cell of cells) if (cell >= 0) byState[model.state(cell)]!++;
  const best = BEST.map((name) => model.stateNames.indexOf(name)).find((state) => state >= 0 && byState[state]! > 0);
  const of = { cells: 0, byState, best: best ?? -1, evidence: -1, emulated: true, faded: true, red: 0, stale: 0 };
  for (const cell of cells) {
    if (cell < 0) continue;
    const stale = model.stale(cell) > 0;
    of.cells++;
    if (stale) of.stale++;
    if (model.red[model.state(cell)]) of.red++;
    if (model.state(cell) !== best) continue;
    of.evidence = Math.max(of.evidence, model.evidence(cell));
    of.emulated &&= model.emulated(cell) > 0;
    of.faded &&= stale;
  }
  return of;
}

/** Return the counts of a summary in words: `8 pass · 11 compiled · 4 unavailable`. */
export function inWords(model: Model, of: Summary): string {
  const counts = BEST.map((name) => [name, of.byState[model.stateNames.indexOf(name)] ?? 0] as const);
  const known = counts.filter(([, count]) => count > 0);
  const words = known.map(([name, count]) => `${count} ${name}`);
  return [...words, ...(of.stale > 0 ? [`${of.stale} stale`] : [])].join(" · ");
}

export interface Totals extends Summary {
  cases: number;
  caseStates: Uint32Array;
}

/** Return the totals of what a search finds: cells, and of them the cases that it asks for. */
export function totals(model: Model, found: Found): Totals {
  const caseStates = new Uint32Array(model.stateNames.length);
  const { places, states } = found;
  for (const cell of found.cells) {
    if (!places) {
      for (let state = 0; state < caseStates.length; state++) caseStates[state]! += model.count(cell, state);
      continue;
    }
    for (const place of places[model.op(cell)]!) {
      const state = model.caseState(cell, place);
      if (state < caseStates.length && (!states || states[state] === 1)) caseStates[state]!++;
    }
  }
  const cases = caseStates.reduce((sum, count) => sum + count, 0);
  return { ...summary(model, found.cells), cases, caseStates };
}
