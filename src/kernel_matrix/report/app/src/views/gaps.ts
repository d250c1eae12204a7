/** What runs and passes on one vendor and not on another, by operator; and each vendor's share, also over time. */

import type { Context, View } from "../context";
import type { Coverage } from "../data";
import { h, table, type Child, type ColumnOf } from "../dom";
import { summary } from "../aggregate";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { opId, type Model } from "../model";
import { moment, outOf, percent } from "../numbers";
import { written } from "../search/parse";
import { pill } from "../states";

const WORKS = ["pass", "held", "told", "flaky", "fixed"];
const NOTHING = ["unavailable", "excluded", "missing", ""];

/** An operator with its cells by vendor. */
interface Row {
  op: number;
  cells: ReadonlyMap<string, readonly number[]>;
}

/** Return the state that shows of some cells: what is red on some of them hides nothing that works. */
export function support(model: Model, cells: readonly number[]): string {
  const { best } = summary(model, cells);
  return best < 0 ? "" : model.stateNames[best]!;
}

function rowsOf({ model, found }: Context): { rows: Row[]; vendors: string[] } {
  const rows = new Map<number, Map<string, number[]>>();
  const vendors = new Set<string>();
  for (const cell of found.cells) {
    const vendor = model.vendorOf(model.lane(cell));
    const row = rows.get(model.op(cell)) ?? new Map<string, number[]>();
    row.set(vendor, [...(row.get(vendor) ?? []), cell]);
    rows.set(model.op(cell), row);
    vendors.add(vendor);
  }
  return { rows: [...rows].map(([op, cells]) => ({ op, cells })), vendors: [...vendors] };
}

export function gapsView(context: Context): View {
  const { model } = context;
  const { rows, vendors } = rowsOf(context);
  const stateOf = (row: Row, vendor: string): string => support(model, row.cells.get(vendor) ?? []);
  const works = (row: Row, vendor: string): boolean => WORKS.includes(stateOf(row, vendor));
  const gaps = (row: Row): number =>
    vendors.some((one) => works(row, one)) ? vendors.filter((one) => !works(row, one)).length : 0;
  const share = (vendor: string): [number, number] => {
    const of = rows.filter((row) => !["", "excluded"].includes(stateOf(row, vendor)));
    return [of.filter((row) => works(row, vendor)).length, of.length];
  };
  const withGap = rows.filter((row) => gaps(row) > 0);
  const ordered = [...rows].sort((a, b) => gaps(b) - gaps(a));
  const columns: ColumnOf<Row>[] = [
    { title: "operator", header: true, cell: ({ op }) => name(model, op) },
    ...vendors.map((vendor) => ({
      title: model.titleOfVendor(vendor),
      cell: (row: Row): Child => square(context, row, vendor, stateOf(row, vendor)),
    })),
  ];
  return {
    element: h(
      "div",
      { "data-test": "gaps" },
      h("h2", null, "Gaps between vendors"),
      h(
        "p",
        null,
        `${outOf(withGap.length, rows.length)} operators work on one vendor and not on another. A square has the best that is known there; what compiles and does not run, what fails and what is missing are told apart.`,
      ),
      h("h3", null, "Share of operators that work"),
      table(
        "share by vendor",
        [
          { title: "vendor", header: true, cell: (vendor: string) => model.titleOfVendor(vendor) },
          { title: "works", number: true, cell: (vendor: string) => outOf(...share(vendor)) },
          {
            title: "share",
            number: true,
            cell: (vendor: string) => (share(vendor)[1] > 0 ? percent(share(vendor)[0] / share(vendor)[1]) : ""),
          },
        ],
        [...vendors].sort((a, b) => share(b)[0] / (share(b)[1] || 1) - share(a)[0] / (share(a)[1] || 1)),
        "share",
      ),
      model.overview.has.includes("history") &&
        later(
          () => load("history"),
          (history) => overTime(context, history.coverage),
          "the history",
        ),
      h("h3", null, "By operator, the most gaps first"),
      table("operators by vendor", columns, ordered, "gap-table"),
    ),
  };
}

function name(model: Model, op: number): string {
  const { op: title, direction } = model.overview.ops[op]!;
  return `${title} ${direction}`;
}

function square(context: Context, row: Row, vendor: string, state: string): Child {
  const { model, place } = context;
  const cells = row.cells.get(vendor) ?? [];
  if (cells.length === 0) return h("span", { class: "dim" }, "not planned");
  const { byState } = summary(model, cells);
  const red = cells.filter((cell) => model.red[model.state(cell)] === true).length;
  const { op, direction } = model.overview.ops[row.op]!;
  const q = `vendor:${written(vendor)} op:${written(op)} direction:${written(direction)}`;
  const emulated =
    WORKS.includes(state) && cells.every((cell) => model.stateName(cell) !== state || model.emulated(cell) > 0);
  const words = NOTHING.includes(state)
    ? "missing"
    : state === "compiled" || state === "lowered"
      ? `${state}, not run`
      : state;
  return h(
    "a",
    {
      href: toHash({ ...place, view: "grid", q, cell: "", case: "" }),
      "data-gap": `${opId(model.overview.ops[row.op]!)}/${vendor}`,
    },
    pill(state, false, words),
    ` ${outOf(byState[model.stateNames.indexOf(state as never)]!, cells.length)}`,
    emulated && ", emulated",
    red > 0 && !model.red[model.stateNames.indexOf(state as never)] && h("span", { class: "bad" }, `, ${red} red`),
  );
}

/** Return the share of each vendor in each run that the history has. */
function overTime({ model }: Context, coverage: readonly Coverage[]): HTMLElement | null {
  const vendorOf = new Map(model.overview.platforms.map((one) => [one.name, one.vendor || one.name]));
  const runs = new Map<string, Map<string, { works: number; operators: number }>>();
  for (const one of coverage) {
    const key = `${moment(one.started).slice(0, 10)} ${one.commit.slice(0, 12)}`;
    const run = runs.get(key) ?? new Map<string, { works: number; operators: number }>();
    const vendor = vendorOf.get(one.platform) ?? one.platform;
    const sum = run.get(vendor) ?? { works: 0, operators: 0 };
    run.set(vendor, { works: sum.works + one.works, operators: sum.operators + one.operators });
    runs.set(key, run);
  }
  if (runs.size < 2) return null;
  const vendors = [...new Set([...runs.values()].flatMap((run) => [...run.keys()]))];
  return h(
    "div",
    null,
    h("h3", null, "Over the runs"),
    table<[string, Map<string, { works: number; operators: number }>]>(
      "share by vendor over the runs",
      [
        { title: "day and commit", header: true, cell: ([key]) => key },
        ...vendors.map((vendor) => ({
          title: model.titleOfVendor(vendor),
          number: true,
          cell: ([, run]: [string, Map<string, { works: number; operators: number }>]): Child => {
            const of = run.get(vendor);
            return of ? `${percent(of.works / of.operators)} (${of.works} of ${of.operators})` : "";
          },
        })),
      ],
      [...runs],
      "share-over-time",
    ),
  );
}
