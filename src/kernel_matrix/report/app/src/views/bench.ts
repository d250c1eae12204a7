/** The results of the benchmark: times with their spread, against the rivals of the same process and the memory floor. */

import { dot, tickX } from "../charts";
import type { Context } from "../context";
import type { BenchResult, BenchTime, HistoryData } from "../data";
import { facts, h, inSteps, table, type Child, type ColumnOf } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { duration, moment, number, outOf, percent, plural, short, times } from "../numbers";
import { commitOf } from "../text";
import { rowChart } from "./row_chart";
import { trendCharts } from "./trends";

const AT_ONCE = 60;
const MOST_IN_CHART = 60; // rows
const TRENDS_AT_ONCE = 3;

/** Return the benchmark's part of the view; null where nothing of it is in the search. */
export function benchPart(context: Context, results: readonly BenchResult[]): HTMLElement | null {
  const asked = results.filter((one) => inSearch(context, one));
  if (asked.length === 0) return null;
  const devices = new Map<string, BenchResult[]>();
  for (const one of asked) {
    // What another device has measured is never in the same table or chart.
    const key = JSON.stringify([one.device, one.platform, one.target, one.quick]);
    devices.set(key, [...(devices.get(key) ?? []), one]);
  }
  return h(
    "section",
    { "data-test": "bench" },
    h("h2", null, "Benchmark"),
    h(
      "p",
      { class: "dim" },
      "The median of many runs and its 5th and 95th percentile. A kernel is timed only where it ran, and only after its outputs were inside their budgets. Every ratio is to a rival that was timed in the same process on the same device. The floor is the time in which the same device copies as many bytes as nothing can do without.",
    ),
    [...devices.values()].map((part) => ofDevice(part)),
    context.model.overview.has.includes("history") &&
      later(
        () => load("history"),
        (history) => trends(history, asked),
        "the history",
      ),
  );
}

/** Return whether a result is in the search. What is no operator of the plan, such as a whole layer, has no square. */
function inSearch({ model, found, place }: Context, one: BenchResult): boolean {
  const cell = model.find(`${one.platform}/${one.target}/${one.toolchain}/${one.op}.${one.direction}`);
  if (cell >= 0) return found.mask[cell] === 1;
  if (place.q === "") return true;
  const words = `${one.platform}/${one.target}/${one.toolchain}/${one.op}.${one.direction}/${one.case}`.toLowerCase();
  return place.q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => words.includes(word.replace(/^[a-z]+:/, "")));
}

function ofDevice(results: readonly BenchResult[]): HTMLElement {
  const first = results[0]!;
  const order = [...new Set(results.map(label))];
  results = [...results].sort((a, b) => order.indexOf(label(a)) - order.indexOf(label(b)));
  const timed = results.filter((one) => one.time);
  const rivals = [...new Set(results.flatMap((one) => [...Object.keys(one.rivals), ...Object.keys(one.absent)]))];
  const copy = timed.map((one) => number(one.figures["copy_gbs"])).filter((rate) => rate > 0);
  const disturbed = timed.filter((one) => one.disturbed !== "").length;
  return h(
    "section",
    { "data-device": first.device },
    h(
      "h3",
      null,
      first.device || "an unknown device",
      h("span", { class: "dim" }, ` ${first.target} (${first.platform})`),
    ),
    first.quick &&
      h(
        "p",
        { class: "note" },
        "This was the quick form: small shapes and few samples show that it works, and no more.",
      ),
    facts([
      ["copy", copy.length > 0 ? `${rates(copy)} GB/s read and written, in the same runs` : ""],
      ["how", first.facts["method"] ?? ""],
      ["threads", first.facts["threads"] ?? ""],
      ["OMP_WAIT_POLICY", first.facts["OMP_WAIT_POLICY"] ?? ""],
      ["clock", clockOf(first)],
      ["commit", [...new Set(results.map((one) => commitOf(one.commit)))].join(", ")],
      ["started", `${moment(first.started)} UTC`],
    ]),
    h("p", null, `${outOf(timed.length, results.length)} results have a time.`),
    disturbed > 0 &&
      h(
        "p",
        { class: "note", "data-test": "disturbed" },
        `${outOf(disturbed, timed.length)} were disturbed: ${timed.find((one) => one.disturbed !== "")!.disturbed.slice(0, 200)}. Their times say less.`,
      ),
    drawing(timed, rivals),
    inSteps(
      results,
      AT_ONCE,
      (part) => table("times of the benchmark", columns(rivals), part, "bench-table"),
      "results",
    ),
  );
}

function rates(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return Math.round(least) === Math.round(most)
    ? short(Math.round(least))
    : `${Math.round(least)} to ${Math.round(most)}`;
}

function clockOf(one: BenchResult): string {
  const now = one.facts["sm_mhz"];
  return now ? `${now} of ${one.facts["max_sm_mhz"] ?? "?"} MHz after the first case` : "";
}

/** Return a time with its spread. */
function spread(time: BenchTime): Child {
  return [
    duration(time.median_us / 1e6),
    h("br"),
    h("small", null, `${duration(time.p5_us / 1e6)} to ${duration(time.p95_us / 1e6)}`),
  ];
}

function columns(rivals: readonly string[]): ColumnOf<BenchResult>[] {
  const figure = (one: BenchResult, name: string): string =>
    one.figures[name] === undefined ? "" : short(one.figures[name]);
  return [
    { title: "operator", header: true, cell: (one) => `${one.op} ${one.direction}` },
    { title: "case", wide: true, cell: (one) => h("code", null, one.case) },
    { title: "toolchain", cell: (one) => one.toolchain },
    {
      title: "median, spread",
      number: true,
      cell: (one) =>
        one.time
          ? h("span", { title: `${one.time.samples} samples` }, spread(one.time))
          : h("span", { class: "problem", title: one.message }, `not timed: ${one.outcome}`),
    },
    {
      title: "of the floor",
      number: true,
      cell: (one) => (one.time ? percent(one.figures["floor_share"]) : ""),
    },
    ...rivals.map((rival): ColumnOf<BenchResult> => ({
      title: `× ${rival}`,
      number: true,
      cell: (one) => {
        const other = one.rivals[rival];
        if (!one.time || !other)
          return h(
            "span",
            { class: "dim", title: one.absent[rival] ?? "this is the same kernel, or it has no time" },
            "·",
          );
        return h(
          "span",
          { title: `${rival}: ${duration(other.median_us / 1e6)}, error ${short(other.rel_fro)}` },
          times(other.median_us / one.time.median_us),
          h("br"),
          h("small", null, duration(other.median_us / 1e6)),
        );
      },
    })),
    { title: "error", number: true, cell: (one) => (one.time ? short(one.time.rel_fro) : "") },
    {
      title: "host",
      number: true,
      cell: (one) => (one.figures["host_us"] === undefined ? "" : duration(number(one.figures["host_us"]) / 1e6)),
    },
    {
      title: "behind another operation",
      number: true,
      cell: (one) => (one.figures["behind_us"] === undefined ? "" : duration(number(one.figures["behind_us"]) / 1e6)),
    },
    { title: "first call", number: true, cell: (one) => duration(one.figures["first_call_s"]) },
    { title: "peak memory, × x", number: true, cell: (one) => figure(one, "peak_x") },
    {
      title: "notes",
      cell: (one) =>
        [one.time ? one.disturbed : one.message, one.stale && `stale: ${one.stale}`]
          .filter(Boolean)
          .join("; ")
          .slice(0, 300),
    },
  ];
}

/** Return the share of the memory floor of every kernel and rival, with the spread as a bar. */
function drawing(timed: readonly BenchResult[], rivals: readonly string[]): HTMLElement | null {
  const rows = [...new Set(timed.map((one) => label(one)))].slice(0, MOST_IN_CHART);
  const toolchains = [...new Set(timed.map((one) => one.toolchain))];
  const names = [...new Set([...toolchains, ...rivals.filter((rival) => timed.some((one) => one.rivals[rival]))])];
  const points = timed.flatMap((one) => {
    const floor = number(one.figures["floor_us"]);
    const all: [string, BenchTime][] = [[one.toolchain, one.time!], ...Object.entries(one.rivals)];
    return all
      .filter(() => floor > 0 && rows.includes(label(one)))
      .map(([name, time]) => ({
        name,
        row: label(one),
        share: (100 * floor) / time.median_us,
        low: (100 * floor) / time.p95_us,
        high: (100 * floor) / time.p5_us,
        title: `${name}: ${duration(time.median_us / 1e6)} (${duration(time.p5_us / 1e6)} to ${duration(time.p95_us / 1e6)})\n${label(one)}`,
      }));
  });
  if (points.length === 0) return null;
  return rowChart({
    name: "share of the memory floor, by case and contender",
    rows,
    rowHeight: 22,
    contenders: names,
    label: "per cent of the memory floor, log scale →",
    line: 100,
    marks: [
      ...["low", "high"].map((end) => tickX(points, { x: end, y: "row", stroke: "name", strokeOpacity: 0.5 })),
      dot(points, { x: "share", y: "row", stroke: "name", symbol: "name", r: 4.5, strokeWidth: 2, title: "title" }),
    ],
  });
}

function label(one: BenchResult): string {
  const shape = one.case.split("-").filter((part) => /^(tokens|hidden|streams)\d|^(fp32|fp16|bf16)$/.test(part));
  const axes = shape.map((part) =>
    part
      .replace(/^tokens/, "")
      .replace(/^hidden/, "× ")
      .replace(/^streams/, "n "),
  );
  return `${one.op} ${one.direction} · ${axes.join(" ")}`;
}

/** Return how the times changed over the runs of one device. */
function trends(history: HistoryData, asked: readonly BenchResult[]): HTMLElement | null {
  const cells = new Set(
    asked.map((one) => `bench:${one.platform}/${one.target}/${one.toolchain}/${one.op}.${one.direction}`),
  );
  const known = history.trends.filter((trend) => cells.has(trend.cell) && trend.started.length > 1);
  if (known.length === 0) return null;
  return h(
    "div",
    { "data-test": "bench-trends" },
    h("h3", null, `The benchmark over the runs, ${plural(known.length, "cell")}`),
    inSteps(
      known,
      TRENDS_AT_ONCE,
      (part) =>
        h(
          "div",
          null,
          part.map((trend) =>
            h(
              "section",
              null,
              h("h4", null, h("code", null, trend.cell.slice(6)), ` on ${trend.device}`),
              trendCharts(trend, true),
            ),
          ),
        ),
      "cells",
    ),
  );
}
