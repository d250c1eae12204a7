/** A case as the page shows it: with its texts and figures in place of numbers that refer to them. */

import type { CellChunk, CellDetail, Diagnosis, Overview, Times } from "../data";
import type { StateName } from "../model";
import { badness, number, type Written } from "../numbers";
import { rounded, tables } from "./tables";

export interface Result {
  name: string;
  state: StateName;
  evidence: string;
  reason: string;
  stale: string;
  stage: string;
  action: string;
  message: string;
  detail: string;
  diagnosis: Diagnosis | null;
  seconds: number;
  attempts: readonly string[];
  outputs: ReadonlyMap<string, ReadonlyMap<string, Written>>;
  artifact: Readonly<Record<string, Written>>;
  times: Times | null;
  facts: Readonly<Record<string, string>>;
  job: Readonly<Record<string, string>>;
  repeat: string;
}

/** Return the cases of a cell. Places of states and evidence refer to the overview. */
export function results(detail: CellDetail, chunk: CellChunk, overview: Overview): Result[] {
  const rows = tables(chunk);
  return Array.from({ length: detail.cell.planned }, (_, after) => {
    const place = detail.first + after;
    const row = rows.at(place);
    return {
      ...row,
      state: overview.states[row.state]!.name,
      evidence: overview.evidence[row.evidence]!,
      diagnosis: row.diagnosis ? (JSON.parse(row.diagnosis) as Diagnosis) : null,
      seconds: rounded(row.seconds),
      attempts: row.attempts ?? [],
      outputs: rows.outputsOf(place),
      artifact: Object.fromEntries((row.artifact ?? []).map(([name, value]) => [name, rounded(value)])),
      times: row.times ?? null,
      facts: Object.fromEntries(row.facts ?? []),
      job: row.job ? (JSON.parse(row.job) as Record<string, string>) : {},
      repeat: row.repeat.replaceAll("{case}", `${detail.cell.id}/${row.name}`),
    };
  });
}

export interface Nearest {
  output: string;
  figure: string;
  share: number;
}

/** Return the error that came nearest to its limit; null where no output has a limit. */
export function nearestToLimit(one: Result): Nearest | null {
  let worst: Nearest | null = null;
  for (const [output, figures] of one.outputs) {
    for (const figure of ["max_abs", "rel_fro"]) {
      const limit = figures.get(`limit_${figure}`);
      if (limit === undefined || figures.get(figure) === undefined) continue;
      const [error, most] = [badness(figures.get(figure)), number(limit)];
      const share = error === 0 ? 0 : error / most;
      if (!Number.isNaN(share) && (worst === null || share > worst.share)) worst = { output, figure, share };
    }
  }
  return worst;
}

/** Return the largest of a figure over the outputs, and the output; null where none has it. */
export function largest(one: Result, figure: string): { output: string; value: number } | null {
  let worst: { output: string; value: number } | null = null;
  for (const [output, figures] of one.outputs) {
    const value = badness(figures.get(figure));
    if (!Number.isNaN(value) && (worst === null || value > worst.value)) worst = { output, value };
  }
  return worst;
}

/** Return the seed of a case: its inputs are drawn from it. */
export function seed(name: string): string {
  return /(?:^|-)seed([^-]+)/.exec(name)?.[1] ?? "";
}
