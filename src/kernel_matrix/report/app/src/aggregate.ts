/** Cells -> totals: the worst state, the least evidence, and counts that add up. */

import type { Model } from "./model";
import type { Found } from "./search/compile";

export interface Summary {
  cells: number;
  /** The number of cells by state and by evidence. */
  byState: Uint32Array;
  byEvidence: Uint32Array;
  /** The worst state and the least evidence; -1 where there is no cell. */
  worst: number;
  least: number;
  /** The cells with a stale case. */
  stale: number;
}

/** Return the summary of some cells. States and evidence are ordered, from the worst and from the least. */
export function summary(model: Model, cells: Iterable<number>): Summary {
  const states = new Uint32Array(model.stateNames.length);
  const evidence = new Uint32Array(model.overview.evidence.length);
  let count = 0;
  let stale = 0;
  for (const cell of cells) {
    if (cell < 0) continue;
    count++;
    states[model.state(cell)]!++;
    evidence[model.evidence(cell)]!++;
    if (model.stale(cell) > 0) stale++;
  }
  const first = (counts: Uint32Array): number => counts.findIndex((one) => one > 0);
  return { cells: count, byState: states, byEvidence: evidence, worst: first(states), least: first(evidence), stale };
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
