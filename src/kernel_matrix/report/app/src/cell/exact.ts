/** How exact a cell is, and compared with whom. */

import { chart, dot, PALETTE, steps, width } from "../charts";
import type { Context } from "../context";
import type { AgreementPair, AgreementReport, AgreementTable, Cell, Noise } from "../data";
import { h, inSteps, table } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { badness, outOf, percent, short, times } from "../numbers";
import { caseLink } from "./cases";
import { largest, nearestToLimit, seed, type Result } from "./result";

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

interface Ulp {
  output: string;
  figure: string;
  ulp: number;
  name: string;
}

const FIGURES = ["median", "p99", "largest"] as const;

/** Return a chart of the ULP errors of all cases: of each the median, the 99th percentile and the largest. */
function ulpChart(all: readonly Result[]): HTMLElement | null {
  const points: Ulp[] = [];
  let unbounded = 0;
  for (const one of all) {
    for (const [output, figures] of one.outputs) {
      for (const [figure, key] of [
        ["median", "ulp_median"],
        ["p99", "ulp_p99"],
        ["largest", "ulp_max"],
      ] as const) {
        const ulp = badness(figures.get(key));
        if (Number.isFinite(ulp)) points.push({ output, figure, ulp, name: one.name });
        else if (!Number.isNaN(ulp)) unbounded++;
      }
    }
  }
  if (points.length === 0) return null;
  const outputs = [...new Set(points.map((point) => point.output))];
  const most = Math.max(...points.map((point) => point.ulp), 1);
  const drawing = chart(
    `errors in ULP of ${all.length} cases, by output`,
    {
      width: width(860),
      height: 54 + outputs.length * 40,
      marginLeft: Math.min(160, 24 + 7 * Math.max(...outputs.map((name) => name.length))),
      marginBottom: 36,
      x: {
        type: "symlog",
        constant: 0.5,
        label: "error in ULP of the output's dtype →",
        domain: [0, most * 1.1],
        ticks: steps(most),
        tickFormat: (tick: number) => short(tick),
        grid: true,
      },
      y: { domain: outputs, label: null },
      color: { domain: [...FIGURES], range: PALETTE },
      symbol: { domain: [...FIGURES], range: ["circle", "triangle", "square"], legend: true },
      marks: [
        ...FIGURES.map((figure, place) =>
          dot(
            points.filter((point) => point.figure === figure),
            {
              x: "ulp",
              y: "output",
              stroke: "figure",
              symbol: "figure",
              r: 3.5,
              strokeOpacity: 0.75,
              strokeWidth: 1.5,
              dy: (place - 1) * 9,
            },
          ),
        ),
      ],
    },
    "Each case has three marks: the median of its elements' errors, the 99th percentile and the largest.",
  );
  return h(
    "div",
    null,
    h("h4", null, "Distribution of the errors"),
    drawing,
    unbounded > 0 &&
      h("p", { class: "problem" }, `${unbounded} more errors are infinite or NaN, and have no place in the chart.`),
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

function agreement(context: Context, cell: Cell): HTMLElement | null {
  if (!context.model.overview.has.includes("agreement")) return null;
  return h(
    "div",
    { "data-test": "agreement" },
    h("h4", null, "Who agrees with it"),
    later(
      () => load("agreement"),
      (report) => agreementOf(report, cell),
      "who agrees with whom",
    ),
  );
}

interface Other {
  dtype: string;
  id: string;
  pair: AgreementPair;
  says: string;
}

/** Return the other members that have the same cases, the ones that differ most first. */
function agreementOf(report: AgreementReport, cell: Cell): HTMLElement {
  const rows: Other[] = [];
  const odd: string[] = [];
  for (const table of report.tables) {
    if (table.op !== cell.op || table.direction !== cell.direction) continue;
    rows.push(...others(table, cell));
    for (const member of table.members) {
      if (isCell(member, cell) && member.odd) {
        odd.push(
          `Odd one out in ${table.dtype || "this operator"}: in ${outOf(member.odd.cases, member.cases)} cases (${member.odd.outputs.join(", ")}), ${short(member.odd.ulp)} ULP from the consensus in ${member.odd.output} of ${member.odd.case}.`,
        );
      }
    }
  }
  if (rows.length === 0) return h("p", { class: "dim" }, "Nobody else has a sample of the same cases.");
  rows.sort((a, b) => worst(b.pair).p99 - worst(a.pair).p99);
  return h(
    "div",
    null,
    odd.map((sentence) => h("p", { class: "problem" }, sentence)),
    inSteps(
      rows,
      12,
      (part) =>
        table(
          "who agrees with it",
          [
            { title: "dtype", header: true, cell: (row) => row.dtype },
            { title: "compared with", cell: (row) => h("code", null, row.id) },
            {
              title: "the same bits",
              number: true,
              cell: (row) => `${outOf(row.pair.identical, row.pair.cases)} cases`,
            },
            {
              title: "p99 in ULP",
              number: true,
              cell: (row) => (row.pair.identical === row.pair.cases ? "=" : short(worst(row.pair).p99)),
            },
            {
              title: "largest in ULP",
              number: true,
              cell: (row) => (row.pair.identical === row.pair.cases ? "=" : short(worst(row.pair).largest)),
            },
            { title: "in", cell: (row) => worst(row.pair).output },
          ],
          part,
          "agreement-of-cell",
        ),
      "pairs",
    ),
  );
}

function isCell(member: { platform: string; target: string; toolchain: string }, cell: Cell): boolean {
  return member.platform === cell.platform && member.target === cell.target && member.toolchain === cell.toolchain;
}

function others(table: AgreementTable, cell: Cell): Other[] {
  const place = table.members.findIndex((member) => isCell(member, cell) && member.variant === "");
  const own = place >= 0 ? place : table.members.findIndex((member) => isCell(member, cell));
  return table.pairs
    .filter((pair) => pair.one === own || pair.other === own)
    .map((pair) => ({
      dtype: table.dtype,
      id: table.members[pair.one === own ? pair.other : pair.one]!.id,
      pair,
      says: "",
    }));
}

/** Return the output of a pair with the largest 99th percentile. */
export function worst(pair: AgreementPair): { output: string; p99: number; largest: number } {
  let most = { output: "", p99: 0, largest: 0 };
  for (const [output, figures] of Object.entries(pair.outputs)) {
    const one = { output, p99: badness(figures.p99), largest: badness(figures.largest) };
    if (most.output === "" || one.p99 > most.p99 || (one.p99 === most.p99 && one.largest > most.largest)) most = one;
  }
  return most;
}
