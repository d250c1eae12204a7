/** What a search asks, besides which cells it means: which version to pin, what changed, what is silent, why no more is known. */

import { goodness } from "../aggregate";
import type { Context } from "../context";
import type { Toolchains } from "../data";
import { h, type Child } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { laneId, type Model } from "../model";
import { outOf, plural } from "../numbers";
import type { Question } from "../search/questions";
import { transitionsTable } from "./history";
import { pinPart } from "./pin";

const MOST = 12; // of a list
const NO_TOOLCHAINS: Toolchains = { headline: "", changed: [], warnings: [], families: [], sweeps: [] };

/** Return the answers to what the search asks; null if it asks nothing. */
export function asked(context: Context): HTMLElement | null {
  const { asks } = context.found;
  const answers: Record<Question, (context: Context) => Child> = { pin, changed, silent, why };
  if (asks.size === 0) return null;
  return h(
    "section",
    { class: "asked", "data-test": "asked", "aria-label": "answers to the search" },
    [...asks].map((question) => h("div", { "data-asked": question }, answers[question](context))),
  );
}

/** Return the part of the toolchains' data, or what the cells alone say of versions. */
export function withToolchains(context: Context, show: (view: Toolchains) => HTMLElement): HTMLElement {
  if (!context.model.overview.has.includes("toolchains")) return show(NO_TOOLCHAINS);
  return later(() => load("toolchains"), show, "the toolchains");
}

function pin(context: Context): Child {
  return withToolchains(context, (view) => pinPart(context, view));
}

function changed(context: Context): Child {
  const { model, found, place } = context;
  if (!model.overview.has.includes("history"))
    return h("p", null, "What changed is not known: there is one run alone.");
  return later(
    () => load("history"),
    (history) => {
      const transitions = history.transitions.filter((one) => found.mask[model.find(one.cell)] === 1);
      const steps = transitions.map((one) => ({ one, step: Math.sign(goodness(one.after) - goodness(one.before)) }));
      const count = (step: number): number => steps.filter((each) => each.step === step).length;
      steps.sort((a, b) => a.step - b.step); // what got worse comes first
      return h(
        "div",
        null,
        h("h2", null, "What changed"),
        h("p", null, `In this search ${plural(count(-1), "cell")} got worse, and ${plural(count(1), "cell")} better.`),
        steps.length > 0 &&
          transitionsTable(
            steps.slice(0, MOST).map(({ one }) => one),
            true,
            context,
          ),
        h("p", null, h("a", { href: toHash({ ...place, view: "history" }) }, "Errors and times over the runs")),
      );
    },
    "the history",
  );
}

function silent(context: Context): Child {
  const { model, found, place } = context;
  const lanes = new Set([...found.cells].map((cell) => laneId(model.laneOf(cell))));
  const of = model.overview.silent.filter((one) => lanes.has(one.lane));
  const days = (one: (typeof of)[number]): string =>
    one.last_result === null ? "never had a result" : `silent for ${Math.floor(one.days)} days`;
  return [
    h("h2", null, "Silent lanes"),
    h("p", null, `${outOf(of.length, lanes.size)} lanes of this search are silent.`),
    h(
      "ul",
      null,
      of.slice(0, MOST).map((one) => h("li", null, h("code", null, one.lane), `: ${days(one)}`)),
    ),
    h("p", null, h("a", { href: toHash({ ...place, view: "machines" }) }, "All lanes and their last results")),
  ];
}

function why(context: Context): Child {
  const { model, found } = context;
  return [h("h2", null, "Why no more is known"), reasons(model, found.cells, MOST) ?? h("p", null, "All of it ran.")];
}

/** Return what the lanes of some cells need to be known better, each once with its targets; null if they need nothing. */
export function reasons(model: Model, cells: Iterable<number>, most = 2): HTMLElement | null {
  const targets = new Map<string, Set<string>>();
  for (const cell of cells) {
    const text = model.lacking(model.lane(cell));
    if (text !== "") targets.set(text, (targets.get(text) ?? new Set()).add(model.laneOf(cell).target));
  }
  if (targets.size === 0) return null;
  const shown = [...targets].slice(0, most);
  return h(
    "ul",
    { class: "dim", "data-test": "lacking" },
    shown.map(([text, of]) => h("li", null, `${[...of].join(", ")}: ${text}`)),
    targets.size > shown.length &&
      h("li", null, `and ${targets.size - shown.length} more reasons; "why" in the search lists them`),
  );
}
