/** A case as the page shows it: with its texts and figures in place of numbers that refer to them. */

import type { CellChunk, CellDetail, Diagnosis, Overview, Times } from "../data";
import type { StateName } from "../model";
import { badness, number, type Written } from "../numbers";
import { at, Outputs, reader } from "./columns";

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

/** Return the cases of a cell. Letters of states and digits of evidence are those of the overview. */
export function results(detail: CellDetail, chunk: CellChunk, overview: Overview): Result[] {
  const states = new Map(overview.states.map((state) => [state.letter, state.name]));
  const columns = { outputs: new Outputs(chunk.cases.outputs), seconds: reader(chunk.cases.seconds) };
  return Array.from({ length: detail.cell.planned }, (_, after) => {
    const place = detail.first + after;
    return {
      ...texts(place, detail.cell.id, chunk),
      state: states.get(chunk.cases.state[place]!)!,
      evidence: overview.evidence[Number(chunk.cases.evidence[place])]!,
      seconds: number(columns.seconds(place)),
      outputs: columns.outputs.of(place),
    };
  });
}

/** Return what a case has beside its state and its figures. */
function texts(
  place: number,
  cell: string,
  chunk: CellChunk,
): Omit<Result, "state" | "evidence" | "seconds" | "outputs"> {
  const cases = chunk.cases;
  const text = (column: readonly number[]): string => chunk.texts[at(column, place)] ?? "";
  const name = cases.names[at(cases.name, place)]!;
  return {
    name,
    reason: text(cases.reason),
    stale: text(cases.stale),
    stage: text(cases.stage),
    action: text(cases.action),
    message: text(cases.message),
    detail: text(cases.detail),
    diagnosis: chunk.diagnoses[at(cases.diagnosis, place)] ?? null,
    attempts: cases.attempts[place] ?? [],
    artifact: cases.artifact[place] ?? {},
    times: cases.times[place] ?? null,
    facts: cases.facts[place] ?? {},
    job: chunk.jobs[at(cases.job, place)] ?? {},
    repeat: text(cases.repeat).replaceAll("{case}", `${cell}/${name}`),
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
