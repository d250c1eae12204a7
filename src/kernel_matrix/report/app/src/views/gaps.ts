/** What runs and passes on one vendor and not on another, by operator; and each vendor's share, also over time. */

import type { Context, View } from "../context";
import type { Coverage } from "../data";
import { facts, h, table, type Child } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import type { Model } from "../model";
import { moment, outOf, percent } from "../numbers";
import { written } from "../search/parse";
import { commitOf } from "../text";

const WORKS = ["pass", "held", "told", "flaky", "fixed"];
const CODE = ["compiled", "lowered"];

/** What is known of an operator on a vendor, from the best. */
const KINDS = ["works", "fails", "compiled, not run", "fails as expected", "missing"] as const;
type Kind = (typeof KINDS)[number];

/** An operator with its cells by vendor. */
interface Row {
  op: number;
  cells: ReadonlyMap<string, readonly number[]>;
}

/** Return what is known of some cells: what works on some of them works; else what is red hides what only compiled. */
export function kindOf(model: Model, cells: readonly number[]): Kind {
  const has = (states: readonly string[]): boolean => cells.some((cell) => states.includes(model.stateName(cell)));
  if (has(WORKS)) return "works";
  if (has(["fail", "error"])) return "fails";
  if (has(CODE)) return "compiled, not run";
  return has(["known"]) ? "fails as expected" : "missing";
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
  const kind = (row: Row, vendor: string): Kind => kindOf(model, row.cells.get(vendor) ?? []);
  const planned = (row: Row): string[] =>
    vendors.filter((vendor) => row.cells.get(vendor)?.some((cell) => model.stateName(cell) !== "excluded"));
  const lacking = (row: Row): number => planned(row).filter((vendor) => kind(row, vendor) !== "works").length;
  const gaps = (row: Row): number => (planned(row).length > lacking(row) ? lacking(row) : 0);
  const share = (vendor: string): [number, number] => {
    const of = rows.filter((row) => planned(row).includes(vendor));
    return [of.filter((row) => kind(row, vendor) === "works").length, of.length];
  };
  const withGap = rows.filter((row) => gaps(row) > 0);
  const ordered = [...rows].sort((a, b) => gaps(b) - gaps(a));
  const of = (row: Row, asked: Kind): Child => {
    const there = planned(row).filter((vendor) => kind(row, vendor) === asked);
    return there.length > 0 && there.map((vendor, index) => [index > 0 && ", ", entry(context, row, vendor, asked)]);
  };
  return {
    element: h(
      "div",
      { "data-test": "gaps" },
      h("h2", null, "Gaps between vendors"),
      h(
        "p",
        null,
        `${outOf(withGap.length, rows.length)} operators work on one vendor and not on another. Each vendor stands with what is known of it, and with how many of its cells that is.`,
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
      ordered.map((row) => [h("h4", null, name(model, row.op)), facts(KINDS.map((asked) => [asked, of(row, asked)]))]),
    ),
  };
}

function name(model: Model, op: number): string {
  const { op: title, direction } = model.overview.ops[op]!;
  return `${title} ${direction}`;
}

/** Return a vendor with the number of its cells of a kind, as a link to them all. */
function entry(context: Context, row: Row, vendor: string, kind: Kind): Child {
  const { model, place } = context;
  const cells = row.cells.get(vendor) ?? [];
  const same = cells.filter((cell) => kindOf(model, [cell]) === kind);
  const red = kind === "works" ? cells.filter((cell) => model.red[model.state(cell)] === true).length : 0;
  const { op, direction } = model.overview.ops[row.op]!;
  const q = `vendor:${written(vendor)} op:${written(op)} direction:${written(direction)}`;
  const emulated = kind === "works" && same.every((cell) => model.emulated(cell) > 0);
  return h(
    "span",
    null,
    h(
      "a",
      {
        href: toHash({ ...place, view: "grid", q, cell: "", case: "" }),
        "data-gap": `${op}.${direction}/${vendor}`,
        "data-kind": kind,
      },
      model.titleOfVendor(vendor),
    ),
    ` ${same.length}/${cells.length}`,
    emulated && " emulated",
    red > 0 && h("span", { class: "bad" }, `, ${red} red`),
  );
}

/** Return the share of each vendor in each run that the history has. */
function overTime({ model }: Context, coverage: readonly Coverage[]): HTMLElement | null {
  const vendorOf = new Map(model.overview.platforms.map((one) => [one.name, one.vendor || one.name]));
  const runs = new Map<string, Map<string, { works: number; operators: number }>>();
  for (const one of coverage) {
    const key = `${moment(one.started).slice(0, 10)} ${commitOf(one.commit)}`;
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
