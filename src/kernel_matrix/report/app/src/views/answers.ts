/** What a reader asks first: what is red, what changed, is it exact, who is silent. */

import { goodness } from "../aggregate";
import type { Context } from "../context";
import type { HistoryData } from "../data";
import { h, replace, type Child } from "../dom";
import { toHash, type Place } from "../link";
import { load } from "../load";
import { laneId, type Model } from "../model";
import { daysSince, moment, outOf, plural } from "../numbers";

const MOST_NAMED = globalThis.innerWidth < 600 ? 1 : 3;
const NO_RESULT = ["missing", "unavailable", "excluded"];
const WEEK = 7; // days
const FAR = 4; // times the error of the baseline

/** Return the answers, each with a link to the details. */
export function answers(context: Context): HTMLElement {
  return h(
    "section",
    { class: "answers", "aria-label": "at a glance", "data-test": "answers" },
    red(context),
    changed(context),
    exact(context),
    silent(context),
  );
}

function answer(test: string, asks: string, says: string, bad: boolean, ...details: Child[]): HTMLElement {
  return h(
    "div",
    { "data-answer": test },
    h("h2", null, asks),
    h("p", { class: bad ? "says-it bad" : "says-it" }, says),
    h("p", { class: "dim" }, details),
  );
}

function link(context: Context, change: Partial<Place>, ...text: Child[]): HTMLElement {
  return h("a", { href: toHash({ ...context.place, fold: null, cell: "", case: "", ...change }) }, text);
}

/** Return some names, and how many more there are. */
function named(names: readonly string[]): string {
  const more = names.length - MOST_NAMED;
  return names.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Return cells of the model in words: each vendor with what `of` says of its cells. */
function byVendor(
  model: Model,
  test: (cell: number) => boolean,
  of: (cell: number) => string,
): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (let cell = 0; cell < model.size; cell++) {
    if (!test(cell)) continue;
    const vendor = model.titleOfVendor(model.vendorOf(model.lane(cell)));
    found.set(vendor, (found.get(vendor) ?? new Set()).add(of(cell)));
  }
  return found;
}

function lines(found: ReadonlyMap<string, ReadonlySet<string>>): string {
  return named([...found].map(([vendor, names]) => `${vendor}: ${named([...names])}`));
}

function red(context: Context): HTMLElement {
  const { model } = context;
  const isRed = (cell: number): boolean => model.red[model.state(cell)] === true;
  const found = byVendor(model, isRed, (cell) => `${model.laneOf(cell).toolchain} ${model.opOf(cell).op}`);
  const tested = Object.keys(model.overview.run.cases_by_state).some((state) => !NO_RESULT.includes(state));
  if (found.size === 0 && !tested)
    return answer(
      "red",
      "What is red?",
      "Nothing was tested",
      true,
      `no case of ${plural(model.size, "cell")} has a result`,
    );
  if (found.size === 0) return answer("red", "What is red?", "Nothing", false, `of ${plural(model.size, "cell")}`);
  const count = Array.from({ length: model.size }, (_, cell) => cell).filter(isRed).length;
  return answer("red", "What is red?", plural(count, "cell"), true, link(context, { q: "red:yes" }, lines(found)));
}

/** Return what changed in the week before the report, when the history has come. */
function changed(context: Context): HTMLElement {
  const { model } = context;
  const asks = "What changed?";
  if (!model.overview.has.includes("history"))
    return answer("changed", asks, "Not known", false, "no earlier report to compare with");
  const box = h("div", { "data-answer": "changed", "aria-busy": "true" }, h("h2", null, asks));
  load("history")
    .then((history) => replace(box, ...ofHistory(context, history).childNodes))
    .catch((error: unknown) => replace(box, h("h2", null, asks), h("p", { class: "problem" }, String(error))))
    .finally(() => box.removeAttribute("aria-busy"));
  return box;
}

function ofHistory(context: Context, history: HistoryData): HTMLElement {
  const { model } = context;
  const end = Date.parse(model.overview.run.created);
  const recent = history.transitions.filter((one) => daysSince(one.since, end) <= WEEK);
  const worse = recent.filter((one) => goodness(one.after) < goodness(one.before));
  const says = [
    worse.length > 0 && `${worse.length} worse`,
    recent.length > worse.length && `${recent.length - worse.length} better`,
  ];
  const cells = (worse.length > 0 ? worse : recent).map((one) => one.cell.split("/").slice(2).join(" "));
  return answer(
    "changed",
    "What changed?",
    says.filter(Boolean).join(", ") || "Nothing",
    worse.length > 0,
    `in the week before ${moment(model.overview.run.created).slice(0, 10)}`,
    cells.length > 0 && [": ", link(context, { view: "history" }, named(cells))],
  );
}

/** Return how many measured cells are inside their budgets, how far the others' errors are from the baseline's, and who is odd. */
function exact(context: Context): HTMLElement {
  const { model } = context;
  const asks = "Is it exact?";
  const all = Array.from({ length: model.size }, (_, cell) => cell);
  const measured = all.filter((cell) => !Number.isNaN(model.share[cell]!));
  if (measured.length === 0) return answer("exact", asks, "Not measured", false, "no number was compared");
  const inside = measured.filter((cell) => model.share[cell]! <= 1).length;
  const far = measured.filter((cell) => model.noise[cell]! > FAR).length;
  const odd = byVendor(
    model,
    (cell) => model.overview.cells.odd[cell] === true,
    (cell) => model.laneOf(cell).toolchain,
  );
  return answer(
    "exact",
    asks,
    `${outOf(inside, measured.length)}`,
    inside < measured.length,
    link(context, { view: "accuracy" }, "inside the error budget"),
    far > 0 && [
      "; ",
      link(context, { q: `noise:>${FAR}` }, `${far} with over ${FAR} × the error of ${model.overview.run.baseline}`),
    ],
    odd.size > 0 && ["; odd one out: ", link(context, { q: "odd:yes" }, lines(odd))],
  );
}

/** Return which lanes have no result, or only old ones: one that never had a result is silent too. */
function silent(context: Context): HTMLElement {
  const { model } = context;
  const { silent, lanes } = model.overview;
  const before = silent.filter((one) => one.last_result !== null);
  const never = silent.filter((one) => one.last_result === null);
  const places = new Map(lanes.map((lane, place) => [laneId(lane), place]));
  const vendors = (of: typeof silent): string =>
    named([...new Set(of.map((one) => model.titleOfVendor(model.vendorOf(places.get(one.lane)!))))]);
  const days = Math.floor(Math.max(0, ...before.map((one) => one.days)));
  return answer(
    "silent",
    "Who is silent?",
    silent.length > 0 ? `${outOf(silent.length, lanes.length)} lanes` : "Nobody",
    before.some((one) => one.gone),
    before.length > 0 &&
      `${plural(before.length, "lane")}, the longest for ${plural(days, "day")}: ${vendors(before)}. `,
    link(context, { view: "machines" }, `${never.length} of ${plural(lanes.length, "lane")} never had a result`),
    never.length > 0 && `: ${vendors(never)}`,
  );
}
