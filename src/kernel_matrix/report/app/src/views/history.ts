/** The history: only what changed, and figures over the runs. */

import type { Context, View } from "../context";
import type { HistoryData, Transition } from "../data";
import { h, inSteps, table } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { moment, outOf } from "../numbers";
import { pill } from "../states";
import { beginning, commitOf } from "../text";
import { trendCharts } from "./trends";

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
        wide: true,
        cell: (one) => [
          h("code", null, commitOf(one.commit)),
          one.commit_before !== one.commit && [
            h("br"),
            h("small", { class: "dim" }, "before: ", h("code", null, commitOf(one.commit_before))),
          ],
          one.between !== "" && [h("br"), h("small", { "data-test": "between" }, beginning(one.between, 200))],
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
