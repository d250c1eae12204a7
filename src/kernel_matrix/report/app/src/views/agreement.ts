/** Who agrees with whom: a table for each operator, direction and dtype. */

import { worst } from "../cell/agreement";
import type { Context } from "../context";
import type { AgreementPair, AgreementReport, AgreementTable } from "../data";
import { h, inSteps, type Child } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { outOf, short } from "../numbers";
import { search } from "../search/compile";
import { beginning } from "../text";
import { agreementStep } from "./scales";

const MOST_MEMBERS = 40; // of a table that is drawn without a question
const TABLES_AT_ONCE = 6;

/** Return the tables of who agrees with whom, when they have come. */
export function agreementPart(context: Context, dtype: string): HTMLElement {
  return h(
    "section",
    { "data-test": "agreement-tables" },
    h("h2", null, "Who agrees with whom"),
    h(
      "p",
      { class: "dim" },
      h("b", null, "="),
      ": the outputs are the same bits in every case. A number: the distance in ULP of the output's dtype that 99 of 100 sampled elements stay within, in the middle one of the cases, of the output where it is largest. An element below 1/16 of the largest value counts in steps of that size. Letters name the groups that agree bit for bit. ",
      h("b", { class: "odd" }, "odd"),
      ": far beyond the distances of the others from the consensus.",
    ),
    later(
      () => load("agreement"),
      (report) => tables(context, report, dtype),
      "who agrees with whom",
    ),
  );
}

function tables(context: Context, report: AgreementReport, dtype: string): HTMLElement {
  const { model, place } = context;
  // The tables are of operators and dtypes, and their members are lanes: the search is asked about both.
  const ops = new Set<string>();
  const lanes = new Set<string>();
  const found = dtype === "" ? context.found : search(model, place.q);
  for (const cell of found.cells) {
    const { op, direction } = model.opOf(cell);
    const lane = model.laneOf(cell);
    ops.add(`${op}.${direction}`);
    lanes.add(`${lane.platform}/${lane.target}/${lane.toolchain}`);
  }
  const asked = report.tables.filter(
    (table) => ops.has(`${table.op}.${table.direction}`) && (dtype === "" || table.dtype === dtype),
  );
  return h(
    "div",
    null,
    h("p", null, `${outOf(asked.length, report.tables.length)} tables${dtype === "" ? "" : ` in ${dtype}`}.`),
    inSteps(
      asked,
      TABLES_AT_ONCE,
      (part) =>
        h(
          "div",
          { class: "agreement-tables" },
          part.map((table) => agreementTable(table, lanes)),
        ),
      "tables",
    ),
    report.refused.slice(0, 20).map((sentence) => h("p", { class: "problem" }, beginning(sentence, 600))),
    report.refused.length > 20 &&
      h("p", { class: "problem" }, `and ${report.refused.length - 20} more that were not compared`),
    report.without.length > 0 &&
      h(
        "details",
        null,
        h("summary", null, `No samples from ${report.without.length} that ran`),
        h("p", { class: "dim" }, report.without.join(", ")),
      ),
  );
}

function agreementTable(table: AgreementTable, lanes: ReadonlySet<string>): HTMLElement {
  const asked = table.members
    .map((_, place) => place)
    .filter((place) => {
      const member = table.members[place]!;
      return lanes.has(`${member.platform}/${member.target}/${member.toolchain}`);
    });
  const shown = asked.slice(0, MOST_MEMBERS);
  const pairs = new Map(table.pairs.map((pair) => [`${pair.one} ${pair.other}`, pair]));
  const name = [table.op, table.direction, table.dtype].join(" ").trim();
  return h(
    "div",
    { "data-agreement": `${table.op}.${table.direction}.${table.dtype}` },
    h("h3", null, table.op, h("span", { class: "dim" }, ` ${table.direction} ${table.dtype}`)),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": `who agrees with whom: ${name}` },
      h(
        "table",
        { class: "agree", "aria-label": `who agrees with whom: ${name}` },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("td"),
            shown.slice(0, -1).map((_, index) => h("th", { scope: "col" }, index + 1)),
          ),
        ),
        h(
          "tbody",
          null,
          shown.map((row, index) =>
            h(
              "tr",
              null,
              member(table, row, index),
              shown
                .slice(0, index)
                .map((column) => pairCell(table, pairs.get(`${column} ${row}`) ?? pairs.get(`${row} ${column}`))),
            ),
          ),
        ),
      ),
    ),
    asked.length > shown.length &&
      h("p", { class: "more" }, `${shown.length} of ${asked.length} members. Search for fewer of them.`),
    asked.length < table.members.length &&
      h("p", { class: "more" }, `${outOf(asked.length, table.members.length)} members are in the search.`),
    table.says.map((sentence) => h("p", { class: "dim says" }, beginning(sentence, 2000))),
  );
}

function member(table: AgreementTable, place: number, index: number): HTMLElement {
  const one = table.members[place]!;
  const together = table.groups[one.group]!.length > 1;
  const odd =
    one.odd &&
    `odd one out in ${outOf(one.odd.cases, one.cases)} cases: ${one.odd.outputs.join(", ")}; ${short(one.odd.ulp)} ULP in ${one.odd.output} of ${one.odd.case}`;
  return h(
    "th",
    { scope: "row", title: odd || one.id },
    `${index + 1} `,
    together &&
      h("span", { class: "chip", title: "agrees bit for bit with the others of this letter" }, groupName(one.group)),
    together && " ",
    one.toolchain,
    one.variant !== "" && `@${one.variant}`,
    " ",
    h("span", { class: "dim" }, `${one.target} ${one.platform}`),
    odd && h("b", { class: "odd" }, " odd"),
  );
}

function groupName(group: number): string {
  const letter = String.fromCharCode(65 + (group % 26));
  return group < 26 ? letter : `${letter}${Math.floor(group / 26)}`;
}

function pairCell(table: AgreementTable, pair: AgreementPair | undefined): HTMLElement {
  if (!pair) return h("td", { class: "none", title: "no case of both" }, "·");
  const same = pair.identical === pair.cases;
  const far = worst(pair);
  const [one, other] = [table.members[pair.one]!, table.members[pair.other]!];
  const outputs = Object.entries(pair.outputs).map(
    ([output, figures]) =>
      `${output} median ${short(figures.median)}, p99 ${short(figures.p99)}, largest ${short(figures.largest)} ULP`,
  );
  const first =
    pair.first &&
    `${pair.first.output} of ${pair.first.case} differs ${pair.first.index.length > 0 ? `first at [${pair.first.index.join(", ")}]: ${pair.first.one} and ${pair.first.other}` : "outside its sample"}`;
  const text: Child = same ? "=" : far.output === "" ? "0" : inUlp(far.p99);
  return h(
    "td",
    {
      class: `u-${same ? "same" : agreementStep(far.p99)}`,
      title: [
        `${one.id} and ${other.id}: ${outOf(pair.identical, pair.cases)} cases bit-equal`,
        ...outputs,
        first ?? "",
      ]
        .filter((part) => part !== "")
        .join("; "),
    },
    text,
  );
}

function inUlp(far: number): string {
  if (!Number.isFinite(far)) return "∞";
  if (far >= 1e7) return far.toExponential(0).replace("e+", "e");
  if (far >= 1e4) return `${Math.round(far / 1000)}k`;
  return far >= 10 ? String(Math.round(far)) : String(Number(far.toPrecision(2)));
}
