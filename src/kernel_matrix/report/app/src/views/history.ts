/** The history: only what changed, and figures over the runs. */

import { chart, dot, lineY, PALETTE, ruleY, SYMBOLS, width } from "../charts";
import type { Context, View } from "../context";
import type { HistoryData, Transition, Trend } from "../data";
import { h, inSteps, table } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { moment, outOf } from "../numbers";
import { pill } from "../states";
import { beginning } from "../text";

export function historyView(context: Context): View {
  const { model } = context;
  if (!model.overview.has.includes("history")) {
    return { element: h("p", null, "These data have no history: it begins with the second run.") };
  }
  return {
    element: later(
      () => load("history"),
      (history) => shown(context, history),
      "the history",
    ),
  };
}

function shown(context: Context, history: HistoryData): HTMLElement {
  const { model, found, place } = context;
  const asked = (id: string): boolean => {
    const cell = model.find(id);
    return cell >= 0 ? found.mask[cell] === 1 : place.q === "";
  };
  const transitions = history.transitions.filter((one) => asked(one.cell));
  const trends = history.trends.filter((one) => asked(one.cell));
  return h(
    "div",
    { "data-test": "history" },
    h("h2", null, "Transitions"),
    h(
      "p",
      { class: "dim" },
      `${outOf(transitions.length, history.transitions.length)} changes of a cell's state from one run to the next, the newest first, with what else had changed.`,
    ),
    transitions.length > 0 && inSteps(transitions, 100, (part) => transitionsTable(part, true, context), "transitions"),
    h("h2", null, "Trends"),
    h(
      "p",
      { class: "dim" },
      `${outOf(trends.length, history.trends.length)} cells with figures of several runs on one device. Search for an operator or a lane to see fewer of them.`,
    ),
    inSteps(
      trends,
      4,
      (part) =>
        h(
          "div",
          null,
          part.map((trend) =>
            h(
              "section",
              null,
              h(
                "h3",
                null,
                h("a", { href: toHash({ ...place, cell: trend.cell, case: "" }) }, h("code", null, trend.cell)),
                h("span", { class: "dim" }, ` on ${trend.device || "an unknown device"}`),
              ),
              trendCharts(trend),
            ),
          ),
        ),
      "trends",
    ),
  );
}

export function transitionsTable(
  transitions: readonly Transition[],
  withCell: boolean,
  context?: Context,
): HTMLElement {
  return table<Transition>(
    "transitions",
    [
      { title: "since", header: true, cell: (one) => `${moment(one.since)} UTC` },
      ...(withCell && context
        ? [
            {
              title: "cell",
              wide: true,
              cell: (one: Transition) =>
                h("a", { href: toHash({ ...context.place, cell: one.cell, case: "" }) }, h("code", null, one.cell)),
            },
          ]
        : []),
      { title: "change", cell: (one) => [pill(one.before), " → ", pill(one.after)] },
      {
        title: "at commit",
        cell: (one) => [
          h("code", null, one.commit.slice(0, 12)),
          one.commit_before !== "" &&
            one.commit_before !== one.commit && [
              h("br"),
              h("small", { class: "dim" }, "before: ", h("code", null, one.commit_before.slice(0, 12))),
            ],
        ],
      },
      {
        title: "with",
        wide: true,
        cell: (one) =>
          Object.entries(one.versions)
            .map(([name, [before, after]]) => `${name} ${before || "none"} → ${after || "none"}`)
            .join(", ") || "the same versions",
      },
      { title: "reason", wide: true, cell: (one) => beginning(one.reason, 300) },
    ],
    transitions,
    "transitions",
  );
}

interface Point {
  run: number;
  value: number;
  name: string;
  title: string;
}

/** Return the charts of a trend: error, and time against the baseline. */
export function trendCharts(trend: Trend): HTMLElement {
  if (trend.started.length < 2)
    return h(
      "p",
      { class: "dim" },
      `One run on ${trend.device || "this device"} has figures, at ${moment(trend.started[0])} UTC: no trend yet.`,
    );
  return h(
    "div",
    { class: "charts" },
    series(trend, trend.noise, "noise ratio", "error over the baseline's"),
    series(trend, trend.speed, "times as fast as the baseline", "speed"),
    series(trend, trend.seconds, "seconds", "time", true),
  );
}

function series(
  trend: Trend,
  figures: Readonly<Record<string, readonly (number | null)[]>>,
  label: string,
  what: string,
  log = false,
): HTMLElement | null {
  const points: Point[] = Object.entries(figures).flatMap(([name, values]) =>
    values.flatMap((value, run): Point[] =>
      typeof value === "number"
        ? [
            {
              run,
              value,
              name,
              title: `${name}: ${value}\n${moment(trend.started[run])} UTC, commit ${(trend.commits[run] ?? "").slice(0, 40)}`,
            },
          ]
        : [],
    ),
  );
  if (points.length === 0) return null;
  const names = [...new Set(points.map((point) => point.name))].slice(0, 24);
  const drawn = points.filter((point) => names.includes(point.name));
  const colours = names.map((_, index) => PALETTE[index % PALETTE.length]!);
  const symbols = names.map((_, index) => SYMBOLS[index % SYMBOLS.length]!);
  return h(
    "div",
    null,
    chart(`${what} of ${trend.cell} over ${trend.started.length} runs`, {
      width: width(430),
      height: 210,
      marginLeft: 54,
      marginRight: 16,
      marginBottom: 44,
      x: {
        label: "run →",
        ticks: trend.started.map((_, run) => run).filter((run) => run % Math.ceil(trend.started.length / 5) === 0),
        tickFormat: (run: number) => (trend.started[run] ?? "").slice(5, 10),
        domain: [-0.3, trend.started.length - 0.7],
      },
      y: {
        label: `↑ ${label}`,
        grid: true,
        ...(log ? { type: "log", nice: true } : { zero: true }),
        ticks: 5,
        tickFormat: log ? "~g" : "~r",
      },
      color: { domain: names, range: colours },
      symbol: { domain: names, range: symbols },
      marks: [
        ...(label === "seconds" ? [] : [ruleY([1], { strokeDasharray: "4 3", strokeOpacity: 0.6 })]),
        lineY(drawn, { x: "run", y: "value", z: "name", stroke: "name", strokeWidth: 1.6 }),
        dot(drawn, { x: "run", y: "value", stroke: "name", symbol: "name", r: 3.2, title: "title" }),
      ],
    }),
    legend(names),
  );
}

/** Return what each colour and shape of a chart stands for. */
export function legend(names: readonly string[]): HTMLElement {
  return h(
    "ul",
    { class: "chart-legend" },
    names.map((name, index) => h("li", null, mark(index), ` ${name}`)),
  );
}

function mark(index: number): Node {
  const shapes = ["●", "▲", "■", "◆", "★", "✚", "Y", "✖"];
  return h(
    "span",
    { style: `color: ${PALETTE[index % PALETTE.length]}`, "aria-hidden": "true" },
    shapes[index % shapes.length],
  );
}
