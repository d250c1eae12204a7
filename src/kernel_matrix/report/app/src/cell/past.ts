/** Since when a cell is as it is, and its figures over the runs. */

import type { Context } from "../context";
import type { Cell, HistoryData } from "../data";
import { h } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { moment } from "../numbers";
import { transitionsTable } from "../views/history";
import { trendCharts } from "../views/trends";

export function pastPart(context: Context, cell: Cell): HTMLElement {
  const heading = h("h3", null, "Since when");
  if (!context.model.overview.has.includes("history")) {
    return h(
      "section",
      { "data-test": "past" },
      heading,
      h("p", { class: "dim" }, "These data have no history of earlier runs."),
    );
  }
  return h(
    "section",
    { "data-test": "past" },
    heading,
    later(
      () => load("history"),
      (history) => pastOf(history, cell),
      "the history",
    ),
  );
}

/** Return how many runs there are and since when, where they are known. */
function since(trends: HistoryData["trends"]): string {
  const started = [...new Set(trends.flatMap((trend) => trend.started))].sort();
  return started.length > 0 ? `: ${started.length} runs since ${moment(started[0])} UTC` : "";
}

function pastOf(history: HistoryData, cell: Cell): HTMLElement {
  const transitions = history.transitions.filter((one) => one.cell === cell.id);
  const trends = history.trends.filter((one) => one.cell === cell.id);
  return h(
    "div",
    null,
    transitions.length > 0
      ? transitionsTable(transitions, false)
      : h("p", null, `Its state has not changed in the runs that the history has${since(trends)}.`),
    trends.map((trend) => trendCharts(trend)),
  );
}
