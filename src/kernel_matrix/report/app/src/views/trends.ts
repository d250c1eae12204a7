/** Figures over the runs, as charts. */

import { chart, dot, lineY, markOf, PALETTE, ruleY, scales, width } from "../charts";
import type { Trend } from "../data";
import { h } from "../dom";
import { moment } from "../numbers";
import { commitOf } from "../text";

interface Point {
  run: number;
  value: number;
  name: string;
  title: string;
}

/** Return the charts of a trend: the error, unless only times are asked for, and the times. */
export function trendCharts(trend: Trend, onlyTimes = false): HTMLElement {
  if (trend.started.length < 2)
    return h(
      "p",
      { class: "dim" },
      `One run on ${trend.device || "this device"} has figures, at ${moment(trend.started[0])} UTC: no trend yet.`,
    );
  return h(
    "div",
    { class: "charts" },
    !onlyTimes && series(trend, trend.noise, "noise ratio", "error over the baseline's"),
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
              title: `${name}: ${value}\n${moment(trend.started[run])} UTC, commit ${commitOf(trend.commits[run])}`,
            },
          ]
        : [],
    ),
  );
  if (points.length === 0) return null;
  const names = [...new Set(points.map((point) => point.name))].slice(0, 24);
  const drawn = points.filter((point) => names.includes(point.name));
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
      ...scales(names),
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
    { style: `color: ${PALETTE[markOf(index).color]}`, "aria-hidden": "true" },
    shapes[markOf(index).symbol],
  );
}
