/** How exact the kernels are: the noise ratio of every cell, and who agrees with whom. */

import { worst } from "../cell/exact";
import type { Context, View } from "../context";
import type { AgreementPair, AgreementReport, AgreementTable } from "../data";
import { h, inSteps, type Child } from "../dom";
import { later } from "../later";
import { layout, NOT_FOUND, type LineRow } from "../layout";
import { load } from "../load";
import type { Model } from "../model";
import { outOf, plural, short, times } from "../numbers";
import { search } from "../search/compile";
import { Squares } from "../squares";
import { shape } from "../states";
import { beginning } from "../text";
import { agreementStep, heatStep, HEAT_STEPS } from "./scales";

const MOST_MEMBERS = 40; // of a table that is drawn without a question
const TABLES_AT_ONCE = 6;

export function accuracyView(context: Context): View {
  const { model, place, found } = context;
  const counts = [...model.noiseByDtype.keys()].map((dtype) => ({ dtype, known: known(model, dtype, found.mask) }));
  counts.sort((a, b) => b.known - a.known || a.dtype.localeCompare(b.dtype));
  const dtype = [place.dtype, found.dtype].find((name) => model.noiseByDtype.has(name)) ?? counts[0]?.dtype ?? "";
  const heat = dtype === "" ? null : heatMap(context, dtype);
  const element = h(
    "div",
    { "data-test": "accuracy" },
    h("h2", null, "Noise ratio"),
    h(
      "p",
      { class: "dim" },
      `The error of a kernel over the error of ${model.overview.run.baseline} in the same dtype, both against the float64 golden: 1 is as exact, 2 has twice its error. A square is the least exact output of one operator, over all of its cases. Where an output is narrower than fp32, its last rounding decides the ratio; the cell then says which share of its elements is misrounded.`,
    ),
    counts.length > 0 &&
      h(
        "div",
        { class: "controls", role: "group", "aria-label": "dtype" },
        h("span", null, "dtype"),
        counts.map((one) =>
          h(
            "button",
            {
              type: "button",
              "aria-pressed": one.dtype === dtype,
              "data-dtype": one.dtype,
              on: { click: () => context.go({ dtype: one.dtype }) },
            },
            one.dtype || "without a dtype",
            ` ${one.known}`,
          ),
        ),
      ),
    scale(),
    heat
      ? heat.squares.element
      : h("p", null, "No cell of this search has a noise ratio: nothing ran there, or nothing was compared."),
    heat &&
      heat.without.length > 0 &&
      h(
        "details",
        { class: "dim" },
        h(
          "summary",
          null,
          `${plural(heat.without.length, "lane")} of this search have no noise ratio in ${dtype}, because nothing ran there in it`,
        ),
        h("p", null, heat.without.join(", ")),
      ),
    model.overview.has.includes("agreement") && agreementPart(context, place.dtype || found.dtype),
  );
  return {
    element,
    print: (on) => heat?.squares.print(on),
    scrolled: () => heat?.squares.scrolled ?? { top: 0, left: 0 },
    scrollBack: (to) => heat?.squares.scrollBack(to),
  };
}

/** Return the number of found cells that have a noise ratio, or an exact baseline, in a dtype. */
function known(model: Model, dtype: string, mask: Uint8Array): number {
  const outputs = model.overview.cells.noise_output[dtype]!;
  return outputs.reduce((sum, output, cell) => sum + (mask[cell] === 1 && model.text(output) !== "" ? 1 : 0), 0);
}

function scale(): HTMLElement {
  return h(
    "ul",
    { class: "legend", "aria-label": "scale of the noise ratio" },
    HEAT_STEPS.map((step, index) =>
      h("li", null, h("span", { class: `swatch h-${index}`, "aria-hidden": "true" }), step),
    ),
    h("li", null, h("span", { class: "swatch h-none", "aria-hidden": "true" }), "not known"),
    h("li", null, h("span", { class: "swatch h-2 h-emulated", "aria-hidden": "true" }), "dashed: in an emulator"),
    h("li", null, h("span", { class: "swatch h-2 stale", "aria-hidden": "true" }), "hatched: stale"),
  );
}

/** Return the squares of a dtype, with a row for each lane that has a ratio in it; and the lanes that have none. */
function heatMap(context: Context, dtype: string): { squares: Squares; without: string[] } | null {
  const { model, found } = context;
  const outputs = model.overview.cells.noise_output[dtype]!;
  const grid = layout(model, found.mask, "platform", () => false);
  const lines = grid.rows.filter((row): row is LineRow => row.kind === "line");
  const measured = (row: LineRow): boolean => row.cells.some((cell) => cell >= 0 && model.text(outputs[cell]) !== "");
  const rows = lines.filter(measured);
  if (rows.length === 0) return null;
  const columns = grid.columns
    .map((column, index) => ({ column, index }))
    .filter(({ index }) => rows.some((row) => (row.cells[index] ?? -1) >= 0));
  const squares = new Squares({
    name: `noise ratio in ${dtype}, by lane and operator`,
    corner: dtype,
    columns: columns.map(({ column }) => ({
      head: h("span", null, column.title, h("br"), h("small", null, column.below)),
      width: 112,
    })),
    rows: rows.length,
    row: (index) => {
      const row = rows[index]!;
      const lane = model.overview.lanes[row.lane]!;
      return {
        key: row.key,
        className: "line",
        head: h(
          "span",
          { title: row.key },
          h("b", null, lane.toolchain),
          h("small", null, `${lane.target} · ${lane.platform}`),
        ),
        cell: (column) => {
          const cell = row.cells[columns[column]!.index]!;
          if (cell === NOT_FOUND)
            return h("span", { class: "not-found", title: "planned, and not in the search" }, "○");
          return cell < 0 ? null : heatSquare(context, cell, dtype);
        },
      };
    },
    rowHeight: 48,
    headWidth: innerWidth < 600 ? 128 : 190,
  });
  return { squares, without: lines.filter((row) => !measured(row)).map((row) => row.key) };
}

function heatSquare(context: Context, cell: number, dtype: string): HTMLElement {
  const { model, go } = context;
  const { cells, run } = model.overview;
  const output = model.text(cells.noise_output[dtype]![cell]);
  const ratio = cells.noise_by_dtype[dtype]![cell] ?? null;
  const id = model.id(cell);
  const state = model.stateName(cell);
  const open = { click: () => go({ cell: id, case: "" }) };
  const words = `State ${state}.${model.stale(cell) > 0 ? " Stale." : ""}`;
  if (output === "") {
    return h(
      "button",
      {
        type: "button",
        class: "heat h-none",
        "data-cell": id,
        title: `${id}, ${dtype}: not known. ${words}`,
        on: open,
      },
      h("b", null, "?"),
      h("small", null, state),
    );
  }
  const evidence = model.overview.evidence[cells.noise_evidence[dtype]![cell]!] ?? "";
  const red = model.red[model.state(cell)] ? `${shape(state)} ` : "";
  const classes = [
    "heat",
    ratio === null ? "h-none" : `h-${heatStep(ratio)}`,
    evidence === "emulated" ? "h-emulated" : "",
    model.stale(cell) > 0 ? "stale" : "",
  ];
  return h(
    "button",
    {
      type: "button",
      class: classes.join(" ").trim(),
      "data-cell": id,
      "data-noise": ratio ?? "exact",
      on: open,
      title: `${id}, ${dtype}: ${output} has ${ratio === null ? `the exact result in ${run.baseline}, so there is no ratio` : `${times(ratio)} the error of ${run.baseline}`}. Evidence ${evidence}. ${words}`,
    },
    h("b", null, red, ratio === null ? "exact" : times(ratio)),
    h("small", null, output, model.stale(cell) > 0 && " · stale"),
  );
}

function agreementPart(context: Context, dtype: string): HTMLElement {
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
