/** The distribution of the errors of a cell, in ULP. */

import { chart, dot, PALETTE, steps, width } from "../charts";
import { h } from "../dom";
import { badness, short } from "../numbers";
import type { Result } from "./result";

interface Ulp {
  output: string;
  figure: string;
  ulp: number;
  name: string;
}

const FIGURES = ["median", "p99", "largest"] as const;

/** Return a chart of the ULP errors of all cases: of each the median, the 99th percentile and the largest. */
export function ulpChart(all: readonly Result[]): HTMLElement | null {
  const points: Ulp[] = [];
  let unbounded = 0;
  for (const one of all) {
    for (const [output, figures] of one.outputs) {
      for (const [figure, key] of [
        ["median", "ulp_median"],
        ["p99", "ulp_p99"],
        ["largest", "ulp_max"],
      ] as const) {
        const ulp = badness(figures.get(key));
        if (Number.isFinite(ulp)) points.push({ output, figure, ulp, name: one.name });
        else if (!Number.isNaN(ulp)) unbounded++;
      }
    }
  }
  if (points.length === 0) return null;
  const outputs = [...new Set(points.map((point) => point.output))];
  const most = Math.max(...points.map((point) => point.ulp), 1);
  const drawing = chart(
    `errors in ULP of ${all.length} cases, by output`,
    {
      width: width(860),
      height: 54 + outputs.length * 40,
      marginLeft: Math.min(160, 24 + 7 * Math.max(...outputs.map((name) => name.length))),
      marginBottom: 36,
      x: {
        type: "symlog",
        constant: 0.5,
        label: "error in ULP of the output's dtype →",
        domain: [0, most * 1.1],
        ticks: steps(most),
        tickFormat: (tick: number) => short(tick),
        grid: true,
      },
      y: { domain: outputs, label: null },
      color: { domain: [...FIGURES], range: PALETTE },
      symbol: { domain: [...FIGURES], range: ["circle", "triangle", "square"], legend: true },
      marks: [
        ...FIGURES.map((figure, place) =>
          dot(
            points.filter((point) => point.figure === figure),
            {
              x: "ulp",
              y: "output",
              stroke: "figure",
              symbol: "figure",
              r: 3.5,
              strokeOpacity: 0.75,
              strokeWidth: 1.5,
              dy: (place - 1) * 9,
            },
          ),
        ),
      ],
    },
    "Each case has three marks: the median of its elements' errors, the 99th percentile and the largest.",
  );
  return h(
    "div",
    null,
    h("h4", null, "Distribution of the errors"),
    drawing,
    unbounded > 0 &&
      h("p", { class: "problem" }, `${unbounded} more errors are infinite or NaN, and have no place in the chart.`),
  );
}
