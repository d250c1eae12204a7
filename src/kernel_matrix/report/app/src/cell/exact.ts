/** How exact a cell is, and compared with whom. */

import type { Context } from "../context";
import type { Cell, Noise } from "../data";
import { h, inSteps, table } from "../dom";
import { percent, short, times } from "../numbers";
import { agreement } from "./agreement";
import { caseLink } from "./cases";
import { largest, nearestToLimit, seed, type Result } from "./result";
import { ulpChart } from "./ulp";

const WORST = 8;

export function exactPart(context: Context, cell: Cell, all: readonly Result[]): HTMLElement {
  const { baseline } = context.model.overview.run;
  const ran = all.filter((one) => one.outputs.size > 0);
  if (ran.length === 0)
    return h(
      "section",
      { "data-test": "exact" },
      h("h3", null, "How exact"),
      h("p", { class: "dim" }, "Nothing ran here, so no error is known."),
    );
  return h(
    "section",
    { "data-test": "exact" },
    h("h3", null, `How exact, compared with ${baseline}`),
    h(
      "p",
      { class: "dim" },
      `The noise ratio is the error over that of ${baseline} in the same dtype, both against the float64 golden: 1 is as exact, 2 has twice its error.`,
    ),
    noiseTable(cell, baseline),
    cell.accuracy &&
      h(
        "p",
        null,
        `Nearest to its budget: ${cell.accuracy.output} with ${cell.accuracy.figure} ${short(cell.accuracy.error)} of ${short(cell.accuracy.limit)}, ${percent(cell.accuracy.share)} of the budget.`,
      ),
    ulpChart(ran),
    worstCases(context, cell, ran),
    agreement(context, cell),
  );
}

function noiseTable(cell: Cell, baseline: string): HTMLElement {
  const rows = Object.entries(cell.noise).flatMap(([dtype, outputs]) =>
    Object.entries(outputs).map(([output, noise]) => ({ dtype, output, noise })),
  );
  type Row = { dtype: string; output: string; noise: Noise };
  return table<Row>(
    "noise ratios",
    [
      { title: "dtype", header: true, cell: (row) => row.dtype },
      { title: "output", cell: (row) => h("code", null, row.output) },
      {
        title: "noise ratio",
        number: true,
        cell: (row) => (row.noise.ratio === null ? `exact in ${baseline}` : times(row.noise.ratio)),
      },
      { title: "misrounded", number: true, cell: (row) => percent(row.noise.misrounded) },
      { title: "misrounded by the baseline", number: true, cell: (row) => percent(row.noise.floor_misrounded) },
      { title: "cases", number: true, cell: (row) => row.noise.cases },
      { title: "evidence", cell: (row) => row.noise.evidence },
    ],
    rows,
    "noise",
  );
}

function worstCases(context: Context, cell: Cell, all: readonly Result[]): HTMLElement {
  const rows = all
    .map((one) => ({
      one,
      near: nearestToLimit(one),
      ulp: largest(one, "ulp_max"),
      noise: largest(one, "noise_ratio"),
    }))
    .sort((a, b) => (b.near?.share ?? -1) - (a.near?.share ?? -1));
  return h(
    "div",
    null,
    h("h4", null, "Worst cases"),
    inSteps(
      rows,
      WORST,
      (part) =>
        table(
          "worst cases",
          [
            { title: "case", header: true, wide: true, cell: (row) => caseLink(context, cell.id, row.one.name) },
            { title: "seed", number: true, cell: (row) => seed(row.one.name) },
            { title: "of its budget", number: true, cell: (row) => (row.near ? percent(row.near.share) : "") },
            { title: "in", cell: (row) => (row.near ? `${row.near.output} ${row.near.figure}` : "") },
            {
              title: "largest ULP",
              number: true,
              cell: (row) => (row.ulp ? `${short(row.ulp.value)} in ${row.ulp.output}` : ""),
            },
            { title: "noise ratio", number: true, cell: (row) => (row.noise ? times(row.noise.value) : "") },
          ],
          part,
          "worst-cases",
        ),
      "cases",
    ),
  );
}
