/** Who agrees with a cell. */

import type { Context } from "../context";
import type { AgreementPair, AgreementReport, AgreementTable, Cell } from "../data";
import { h, inSteps, table } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { badness, outOf, short } from "../numbers";

/** Return with whom a cell agrees, when the data have come. */
export function agreement(context: Context, cell: Cell): HTMLElement | null {
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
    odd.map((sentence) => h("p", { class: "note" }, sentence)),
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
