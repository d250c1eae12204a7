/** A case as the page shows it: with its texts and figures in place of numbers that refer to them. */

import type { CellChunk, CellDetail, Diagnosis, PageCase, Times } from "../data";
import { badness, number, type Written } from "../numbers";

export interface Result {
  name: string;
  state: PageCase["state"];
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

export function results(detail: CellDetail, chunk: CellChunk): Result[] {
  return detail.results.map((one) => result(one, detail.cell.id, chunk));
}

function result(one: PageCase, cell: string, chunk: CellChunk): Result {
  const text = (place: number | undefined): string => chunk.texts[place ?? 0] ?? "";
  const figures = (values: readonly (number | string | null)[]): ReadonlyMap<string, Written> =>
    new Map(
      values.flatMap((value, place): [string, Written][] => (value === null ? [] : [[chunk.figures[place]!, value]])),
    );
  return {
    name: one.name,
    state: one.state,
    evidence: one.evidence,
    reason: text(one.reason),
    stale: text(one.stale),
    stage: one.stage ?? "",
    action: one.action ?? "",
    message: text(one.message),
    detail: text(one.detail),
    diagnosis: chunk.diagnoses[one.diagnosis ?? -1] ?? null,
    seconds: number(one.seconds ?? 0),
    attempts: one.attempts ?? [],
    outputs: new Map(Object.entries(one.outputs ?? {}).map(([name, values]) => [name, figures(values)])),
    artifact: one.artifact ?? {},
    times: one.times ?? null,
    facts: one.facts ?? {},
    job: (one.job === null || one.job === undefined ? undefined : chunk.jobs[String(one.job)]) ?? {},
    repeat: text(one.repeat).replaceAll("{case}", `${cell}/${one.name}`),
  };
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
