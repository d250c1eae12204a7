/** How fast the kernels are: by the benchmark, and by the single calls of the suite. */

import { dot } from "../charts";
import type { Context, View } from "../context";
import type { HistoryData, SpeedData, TimedCase, Times, Trend } from "../data";
import { h, inSteps, table, type ColumnOf } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { duration, outOf, plural, times } from "../numbers";
import { benchPart } from "./bench";
import { rowChart } from "./row_chart";
import { trendCharts } from "./trends";

const AT_ONCE = 60;
const MOST_IN_CHART = 40; // cases
const TRENDS_AT_ONCE = 3;

interface Timed extends Omit<TimedCase, "toolchains"> {
  toolchains: Map<string, Times>;
}

export function speedView(context: Context): View {
  const { model } = context;
  const head = h("h2", null, "Speed");
  if (!model.overview.has.includes("speed"))
    return { element: h("div", null, head, h("p", null, "No case of these data was timed and passed.")) };
  return {
    element: h(
      "div",
      { "data-test": "speed" },
      head,
      later(
        () => load("speed"),
        (speed) => shown(context, speed),
        "the times",
      ),
    ),
  };
}

function shown(context: Context, speed: SpeedData): HTMLElement {
  const { model } = context;
  return h(
    "div",
    null,
    benchPart(context, speed.bench) ??
      h(
        "p",
        { class: "note", "data-test": "no-bench" },
        speed.bench.length > 0
          ? "No result of the benchmark is in this search."
          : "These results have none of the benchmark. What follows is the time of single calls at one small shape, and says little of large ones.",
      ),
    h("h2", null, `Calls of the suite against ${model.overview.run.baseline}`),
    h(
      "p",
      { class: "dim" },
      `The time on the host of single calls at the small shapes of the suite's timed cases, until the device is done: how many times as fast as ${model.overview.run.baseline} on the same device. Both are timed in turns in one process, alone on the machine, on a CPU each when the other's threads are at rest; the least time of each. Only cases that passed. It is no measure of large shapes: that is the benchmark.`,
    ),
    calls(context, speed),
  );
}

function calls(context: Context, speed: SpeedData): HTMLElement {
  const { model, found, place } = context;
  const idOf = (one: TimedCase, toolchain: string): string =>
    `${one.platform}/${one.target}/${toolchain}/${one.op.replace(" ", ".")}`;
  const cases: Timed[] = [];
  for (const one of speed.cases) {
    const asked = Object.entries(one.toolchains).filter(([toolchain]) => {
      const cell = model.find(idOf(one, toolchain));
      return cell >= 0 ? found.mask[cell] === 1 : place.q === "";
    });
    if (asked.length > 0) cases.push({ ...one, toolchains: new Map(asked) });
  }
  if (cases.length === 0)
    return h("p", null, speed.cases.length > 0 ? "No timed case is in this search." : "No case was timed and passed.");
  const toolchains = [...new Set(model.overview.lanes.map((lane) => lane.toolchain))].filter((name) =>
    cases.some((one) => one.toolchains.has(name)),
  );
  const several = new Set(cases.map((one) => `${one.platform}/${one.target}`)).size > 1;
  const columns: ColumnOf<Timed>[] = [
    { title: "operator", header: true, cell: (one) => one.op },
    { title: "case", wide: true, cell: (one) => h("code", null, one.case) },
    { title: "target", cell: (one) => `${one.target} (${one.platform})` },
    ...toolchains.map((toolchain): ColumnOf<Timed> => ({
      title: toolchain,
      number: true,
      cell: (one) => {
        const known = one.toolchains.get(toolchain);
        if (!known) return h("span", { class: "dim", title: "not timed, or did not pass" }, "·");
        return h(
          "a",
          {
            href: toHash({ ...place, cell: idOf(one as unknown as TimedCase, toolchain), case: "" }),
            title: `${duration(known.run)}, ${model.overview.run.baseline} ${duration(known.baseline)}, ${known.rounds} rounds`,
          },
          times(known.ratio),
          h("br"),
          h("small", null, duration(known.run)),
        );
      },
    })),
  ];
  return h(
    "div",
    null,
    h("p", null, `${outOf(cases.length, speed.cases.length)} timed cases, ${plural(toolchains.length, "toolchain")}.`),
    drawing(cases.slice(0, MOST_IN_CHART), toolchains, several),
    cases.length > MOST_IN_CHART &&
      h(
        "p",
        { class: "dim" },
        `The chart has the first ${MOST_IN_CHART} of ${cases.length} cases. Search for fewer of them.`,
      ),
    inSteps(cases, AT_ONCE, (part) => table("times as fast as the baseline", columns, part, "speed-table"), "cases"),
    model.overview.has.includes("history") &&
      later(
        () => load("history"),
        (history) => trends(context, history),
        "the history",
      ),
  );
}

/** Return how the times changed over the runs. */
function trends(context: Context, history: HistoryData): HTMLElement | null {
  const { model, found } = context;
  const timed = history.trends.filter((trend) => {
    const cell = model.find(trend.cell);
    return cell >= 0 && found.mask[cell] === 1 && trend.started.length > 1 && Object.keys(trend.speed).length > 0;
  });
  if (timed.length === 0) return null;
  const one = (trend: Trend): HTMLElement =>
    h(
      "section",
      null,
      h(
        "h3",
        null,
        h("code", null, trend.cell),
        h("span", { class: "dim" }, ` on ${trend.device || "an unknown device"}`),
      ),
      trendCharts(trend, true),
    );
  return h(
    "div",
    { "data-test": "speed-trends" },
    h("h2", null, "Over the runs"),
    inSteps(timed, TRENDS_AT_ONCE, (part) => h("div", null, part.map(one)), "cells"),
  );
}

/** Return the name of a case without what all the others have too. */
function labels(cases: readonly Timed[], several: boolean): string[] {
  const parts = cases.map((one) => one.case.split("-"));
  const common = new Set((parts[0] ?? []).filter((part) => parts.every((other) => other.includes(part))));
  return cases.map((one, index) =>
    [one.op, several ? one.target : "", parts[index]!.filter((part) => !common.has(part)).join("-")]
      .filter((part) => part !== "")
      .join(" · "),
  );
}

function drawing(cases: readonly Timed[], toolchains: readonly string[], several: boolean): HTMLElement {
  const names = labels(cases, several);
  const points = cases.flatMap((one, index) =>
    [...one.toolchains]
      .filter(([, known]) => known.ratio > 0 && Number.isFinite(known.ratio))
      .map(([toolchain, known]) => ({
        toolchain,
        ratio: known.ratio,
        name: names[index]!,
        title: `${toolchain}: ${times(known.ratio)}, ${duration(known.run)}\n${one.op} ${one.case} on ${one.target}`,
      })),
  );
  return rowChart({
    name: "times as fast as the baseline, by case and toolchain",
    rows: [...new Set(names)],
    rowHeight: 24,
    contenders: toolchains,
    label: "times as fast as the baseline →",
    line: 1,
    marks: [
      dot(points, {
        x: "ratio",
        y: "name",
        stroke: "toolchain",
        symbol: "toolchain",
        r: 5,
        strokeWidth: 2,
        title: "title",
      }),
    ],
  });
}
