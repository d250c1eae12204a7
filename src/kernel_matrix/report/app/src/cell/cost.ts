/** How fast a cell is, and what its code needs, compared with the same operator elsewhere. */

import type { Context } from "../context";
import type { BenchResult, BenchTime, Cell } from "../data";
import { h, table, type Child } from "../dom";
import { later, onDemand } from "../later";
import { load, loadCell } from "../load";
import { duration, number, outOf, percent, short, times } from "../numbers";
import { pill } from "../states";
import { beginning } from "../text";
import type { Result } from "./result";

const FILES_AT_ONCE = 16;

/** The resources in the order in which people look for them, with the names that vendors give them. */
const RESOURCES: readonly (readonly [title: string, keys: readonly string[]])[] = [
  ["registers", ["registers"]],
  ["scalar registers", ["scalar_registers"]],
  ["spilled", ["spilled_registers", "spill_bytes", "spills"]],
  ["scalar spilled", ["spilled_scalar_registers"]],
  ["shared memory", ["shared_bytes"]],
  ["stack", ["stack_bytes", "local_bytes"]],
  ["code size", ["bytes", "code_bytes"]],
  ["threads", ["threads"]],
  ["occupancy", ["occupancy"]],
];

export function costPart(context: Context, place: number, cell: Cell, all: readonly Result[]): HTMLElement {
  return h(
    "section",
    { "data-test": "cost" },
    h("h3", null, "How fast"),
    timesTable(context, cell, all),
    benchOf(context, cell),
    resources(context, place, cell),
  );
}

function timesTable(context: Context, cell: Cell, all: readonly Result[]): HTMLElement {
  const { baseline } = context.model.overview.run;
  const timed = all.flatMap((one) => (one.times ? [{ name: one.name, state: one.state, ...one.times }] : []));
  const spent = all.reduce((sum, one) => sum + (Number.isFinite(one.seconds) ? one.seconds : 0), 0);
  const whole = h("p", { class: "dim" }, `All its cases together took ${duration(spent)}.`);
  if (timed.length === 0) return h("div", null, h("p", { class: "dim" }, "No case of this cell was timed."), whole);
  const ratios = timed
    .filter((one) => one.state === "pass")
    .map((one) => one.ratio)
    .sort((a, b) => a - b);
  return h(
    "div",
    null,
    ratios.length > 0 &&
      h(
        "p",
        null,
        "Against ",
        baseline,
        ": ",
        h("b", null, ratios.length === 1 ? times(ratios[0]) : `${times(ratios[0])} to ${times(ratios.at(-1))}`),
        ` as fast, over ${ratios.length} timed ${ratios.length === 1 ? "case" : "cases"} that passed. Both were timed in turns in one process, at a small shape and by the host; the times are the least of all rounds.`,
      ),
    table(
      "times",
      [
        { title: "case", header: true, wide: true, cell: (one) => h("code", null, one.name) },
        { title: "state", cell: (one) => pill(one.state) },
        { title: "time", number: true, cell: (one) => duration(one.run) },
        { title: baseline, number: true, cell: (one) => duration(one.baseline) },
        { title: "times as fast", number: true, cell: (one) => times(one.ratio) },
        { title: "rounds", number: true, cell: (one) => one.rounds },
      ],
      timed,
      "times",
    ),
    cell.timed.length < timed.length && h("p", { class: "dim" }, "Only cases that passed count in the other views."),
    whole,
  );
}

/** Return the times of the benchmark with their spread, when they have come; null where these data have none. */
function benchOf(context: Context, cell: Cell): HTMLElement | null {
  if (!context.model.overview.has.includes("speed")) return null;
  return later(
    () => load("speed"),
    ({ bench }) => {
      const own = bench.filter(
        (one) =>
          one.platform === cell.platform &&
          one.target === cell.target &&
          one.toolchain === cell.toolchain &&
          one.op === cell.op &&
          one.direction === cell.direction,
      );
      return own.length === 0 ? null : h("div", { "data-test": "bench-of-cell" }, own.map(benchTable));
    },
    "the benchmark",
  );
}

/** Return the times of a kernel and of its rivals in one process, the fastest first. */
function benchTable(one: BenchResult): HTMLElement {
  const title = h(
    "h4",
    null,
    "Benchmark: ",
    h("code", null, one.case),
    h("span", { class: "dim" }, ` on ${one.device}`),
  );
  if (!one.time) return h("div", null, title, h("p", null, `Not timed: ${one.outcome}. ${one.message}`));
  const rows: [string, BenchTime][] = [[one.toolchain, one.time], ...Object.entries(one.rivals)];
  rows.sort((a, b) => a[1].median_us - b[1].median_us);
  const floor = number(one.figures["floor_us"]);
  return h(
    "div",
    null,
    title,
    one.disturbed !== "" && h("p", { class: "note" }, `Disturbed: ${one.disturbed}.`),
    one.stale !== "" && h("p", { class: "note" }, h("b", null, "Stale: "), beginning(one.stale, 300)),
    table(
      "times of the benchmark",
      [
        {
          title: "kernel",
          header: true,
          cell: ([name, time]) => [time === one.time && "▸ ", name, time === one.time && " (this cell)"],
        },
        { title: "median", number: true, cell: ([, time]) => duration(time.median_us / 1e6) },
        {
          title: "5th to 95th percentile",
          number: true,
          cell: ([, time]) => `${duration(time.p5_us / 1e6)} to ${duration(time.p95_us / 1e6)}`,
        },
        { title: "samples", number: true, cell: ([, time]) => time.samples },
        {
          title: "of the memory floor",
          number: true,
          cell: ([, time]) => (floor > 0 ? percent(floor / time.median_us) : ""),
        },
        { title: "error", number: true, cell: ([, time]) => short(time.rel_fro) },
      ],
      rows,
      "bench-times",
    ),
  );
}

function resources(context: Context, place: number, cell: Cell): HTMLElement {
  const { model } = context;
  const others: number[] = [];
  for (let lane = 0; lane < model.overview.lanes.length; lane++) {
    const other = model.at(lane, model.op(place));
    // Only what was compiled has code.
    if (other >= 0 && other !== place && model.evidence(other) > model.overview.evidence.indexOf("planned"))
      others.push(other);
  }
  const title = `Registers, spills, shared memory and code size of this cell and of ${others.length} others of ${cell.op} ${cell.direction}`;
  return onDemand(title, () => sideBySide(context, cell, others), "resources");
}

function sideBySide(context: Context, cell: Cell, others: readonly number[]): HTMLElement {
  const { cells } = context.model.overview;
  const files = [...new Set(others.map((other) => cells.chunk[other]!))];
  const box = h("div");
  const show = (count: number): void => {
    const asked = new Set(files.slice(0, count));
    const part = others.filter((other) => asked.has(cells.chunk[other]!));
    box.replaceChildren(
      later(
        () => Promise.all(part.map((other) => loadCell(cells.chunk[other]!, context.model.id(other)))),
        (loaded) => resourcesTable([cell, ...loaded.map((one) => one.detail.cell)]),
        `${part.length} cells`,
      ),
    );
    if (files.length > count) {
      box.append(
        h(
          "p",
          { class: "more" },
          `${outOf(part.length, others.length)} other cells. `,
          h("button", { type: "button", on: { click: () => show(count * 4) } }, "Load more"),
        ),
      );
    }
  };
  show(FILES_AT_ONCE);
  return box;
}

function resourcesTable(cells: readonly Cell[]): HTMLElement {
  const known = cells.filter((cell) => cell.artifact && Object.keys(cell.artifact.largest).length > 0);
  if (known.length === 0) return h("p", { class: "dim" }, "No compiler said what the code needs.");
  const largest = (cell: Cell, keys: readonly string[]): readonly [string, number | string] | undefined => {
    const key = keys.find((name) => cell.artifact?.largest[name] !== undefined);
    return key === undefined ? undefined : [key, cell.artifact!.largest[key]!];
  };
  const usual = new Set(RESOURCES.flatMap(([, keys]) => keys));
  const rest = [...new Set(known.flatMap((cell) => Object.keys(cell.artifact!.largest)))].filter(
    (key) => !usual.has(key),
  );
  const columns = [...RESOURCES, ...rest.map((key) => [key.replaceAll("_", " "), [key]] as const)].filter(([, keys]) =>
    known.some((cell) => largest(cell, keys) !== undefined),
  );
  return h(
    "div",
    null,
    h(
      "p",
      { class: "dim" },
      "The largest over the cases, and the least occupancy. Registers are those of one thread; scalar registers those of a wave. The occupancy is theoretical: the share of the waves of a multiprocessor or compute unit that registers, threads and shared memory leave room for.",
    ),
    table<Cell>(
      "resources",
      [
        {
          title: "toolchain",
          header: true,
          cell: (cell) => [cell === cells[0] && "▸ ", cell.toolchain, cell === cells[0] && " (this cell)"],
        },
        { title: "target", cell: (cell) => `${cell.target} (${cell.platform})` },
        { title: "state", cell: (cell) => pill(cell.state) },
        ...columns.map(([title, keys]) => ({
          title,
          number: true,
          cell: (cell: Cell): Child => {
            const value = largest(cell, keys);
            if (value === undefined) return "";
            if (value[0] === "occupancy") return percent(number(value[1]));
            return `${short(value[1])}${/bytes/.test(value[0]) ? " B" : ""}`;
          },
        })),
        { title: "kind", cell: (cell) => cell.artifact!.kinds.join(", ") },
      ],
      known,
      "resources-table",
    ),
  );
}
