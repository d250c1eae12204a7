/** The lanes: what has a badge, what came last, and since when nothing comes. */

import type { Context, View } from "../context";
import type { Lane, SilentLane } from "../data";
import { h, inSteps, table, type Child } from "../dom";
import { toHash } from "../link";
import { laneId } from "../model";
import { daysSince, moment, outOf, plural, short } from "../numbers";
import { written } from "../search/parse";
import { bar, pill } from "../states";

const AT_ONCE = 120;

export function machinesView(context: Context): View {
  const { model, found } = context;
  const { overview } = model;
  const used = new Set<number>();
  for (const cell of found.cells) used.add(model.lane(cell));
  const lanes = overview.lanes.filter((_, index) => used.has(index));
  const names = new Set(lanes.map(laneId));
  const silent = overview.silent.filter((one) => names.has(one.lane));
  const before = silent.filter((one) => one.last_result !== null);
  const never = silent.filter((one) => one.last_result === null);
  return {
    element: h(
      "div",
      { "data-test": "machines" },
      h("h2", null, "Silent lanes"),
      h(
        "p",
        { class: "dim" },
        `A lane is a toolchain on a target of a platform. Nothing came from these in this run, or only results of jobs that started more than ${short(overview.silent_days)} days ago. After so many days without a result, a lane's badge is grey.`,
      ),
      silent.length === 0 &&
        h("p", null, used.size > 0 ? "None of this search: every lane has a result." : "No lane is in this search."),
      before.length > 0 &&
        table<SilentLane>(
          "silent lanes",
          [
            { title: "lane", header: true, cell: (one) => h("code", null, one.lane) },
            { title: "last result", cell: (one) => `${moment(one.last_result)} UTC` },
            { title: "silent since", cell: (one) => `${moment(one.silent_since)} UTC` },
            { title: "days", number: true, cell: (one) => Math.floor(one.days) },
            { title: "badge", cell: (one) => (one.gone ? "grey" : "as at the last result") },
          ],
          before,
          "silent",
        ),
      never.length > 0 &&
        h(
          "details",
          { open: never.length <= 12 },
          h("summary", null, `${plural(never.length, "lane")} never had a result`),
          h("p", { class: "mono" }, never.map((one) => one.lane).join(", ")),
        ),
      h("h2", null, "Lanes"),
      h(
        "p",
        null,
        `${outOf(lanes.length, overview.lanes.length)} lanes. Ran on: ${overview.run.devices.join("; ") || "nothing"}.`,
      ),
      inSteps(lanes, AT_ONCE, (part) => lanesTable(context, part), "lanes"),
    ),
  };
}

function lanesTable(context: Context, lanes: readonly Lane[]): HTMLElement {
  const { overview } = context.model;
  const stale = (lane: Lane): number =>
    Object.values(lane.stale_by_evidence).reduce((sum: number, count) => sum + (count ?? 0), 0);
  const search = (lane: Lane): string =>
    `platform:${written(lane.platform)} target:${written(lane.target)} toolchain:${written(lane.toolchain)}`;
  return table<Lane>(
    "lanes",
    [
      {
        title: "lane",
        header: true,
        cell: (lane) =>
          h(
            "a",
            { href: toHash({ ...context.place, view: "grid", q: search(lane), cell: "", case: "" }) },
            h("code", null, laneId(lane)),
          ),
      },
      { title: "worst state", cell: (lane) => pill(lane.state, stale(lane) > 0) },
      { title: "least evidence", cell: (lane) => lane.evidence },
      {
        title: "cells by state",
        wide: true,
        cell: (lane) => [
          h(
            "div",
            { class: "lane-bar" },
            bar(
              overview.states.map((state) => ({ state: state.name, count: lane.by_state[state.name] ?? 0 })),
              "cells by state",
            ),
          ),
          Object.entries(lane.by_state)
            .map(([state, count]) => `${outOf(count ?? 0, lane.cells)} ${state}`)
            .join(", "),
        ],
      },
      {
        title: "stale",
        number: true,
        cell: (lane) => (stale(lane) > 0 ? `${outOf(stale(lane), lane.cells)} cells` : ""),
      },
      {
        title: "canaries",
        number: true,
        cell: (lane) => (lane.canaries ? outOf(lane.canaries.caught, lane.canaries.injected) : ""),
      },
      { title: "determinism", cell: (lane) => repeated(context, lane, search(lane)) },
      { title: "last result", cell: (lane) => when(lane.history.last_result) },
      { title: "silent since", cell: (lane) => when(lane.history.silent_since) },
    ],
    lanes,
    "lanes",
  );
}

/** Return how many runs gave other bits than the run before them, with a link to the cells; nothing where none ran twice. */
function repeated(context: Context, lane: Lane, search: string): Child {
  if (!lane.determinism) return "";
  const { differing, repeats } = lane.determinism;
  if (differing === 0) return `same bits in ${plural(repeats, "repeat")}`;
  const q = `${search} determinism:differs`;
  return h(
    "a",
    { class: "odd", href: toHash({ ...context.place, view: "grid", q, cell: "", case: "" }) },
    `other bits in ${outOf(differing, repeats)} repeats`,
  );
}

function when(moments: string | null): string {
  if (!moments) return "";
  const days = Math.floor(daysSince(moments, Date.now()));
  return `${moment(moments)} UTC${days > 0 ? `, ${plural(days, "day")} ago` : ""}`;
}
