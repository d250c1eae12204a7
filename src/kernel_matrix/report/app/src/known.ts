/** What is known best of some cells, in one line for people. */

import { h, type Child } from "./dom";
import type { Model } from "./model";
import { daysSince, moment, outOf, percent, plural, times } from "./numbers";

const MOST_DEVICES = 2;

/** Return the line: what ran on which device and how much of it passed, what only compiled, and what is unavailable. */
export function known(model: Model, cells: readonly number[]): Child[] {
  const count = (test: (cell: number) => boolean): number => cells.filter(test).length;
  const inState = (name: string): number => count((cell) => model.stateName(cell) === name);
  const red = count((cell) => model.red[model.state(cell)] === true);
  const parts: Child[] = [];
  if (red > 0) parts.push(h("span", { class: "bad" }, `${red} red`));
  const reached = new Set<string>();
  for (const [level, words] of [
    ["ran", "ran"],
    ["held", "held"],
    ["emulated", "emulated"],
    ["held, emulated", "held where it was emulated"],
    ["told", "told by other people"],
  ] as const) {
    const there = cells.filter((cell) => reachedBy(model, cell) === level);
    if (there.length === 0) continue;
    for (const cell of there) reached.add(target(model, cell));
    const good = there.filter((cell) => ["pass", "held"].includes(model.stateName(cell))).length;
    const where = level.endsWith("emulated") || level === "told" ? "" : on(model, there);
    parts.push(`${words}${where}: ${level === "told" ? there.length : outOf(good, there.length)}`);
  }
  for (const [state, verb] of [
    ["compiled", "compiled for"],
    ["lowered", "source for"],
  ] as const) {
    const targets = new Set(cells.filter((cell) => model.stateName(cell) === state).map((cell) => target(model, cell)));
    const only = [...targets].filter((one) => !reached.has(one));
    if (only.length > 0)
      parts.push(
        reached.size > 0 ? `${verb} ${only.length} more` : `${verb} ${plural(only.length, "target")}, not run`,
      );
    for (const one of only) reached.add(one);
  }
  const [expected, without, stale] = [inState("known"), inState("unavailable"), count((cell) => model.stale(cell) > 0)];
  if (expected > 0) parts.push(`${plural(expected, "expected failure")}`);
  if (without > 0) parts.push(`${without} unavailable`);
  if (stale > 0) parts.push(`${stale} stale`);
  return parts.flatMap((part, index): Child[] => [index > 0 && " · ", part]);
}

/** Return the evidence of a cell; what only held in an emulator or an interpreter is told apart. */
function reachedBy(model: Model, cell: number): string {
  const level = model.evidenceName(cell);
  return level === "held" && model.emulated(cell) > 0 ? "held, emulated" : level;
}

function target(model: Model, cell: number): string {
  const { platform, target } = model.laneOf(cell);
  return `${platform}/${target}`;
}

/** Return ` on` with the devices that measured cells, without the vendor's name, which stands before them. */
function on(model: Model, cells: readonly number[]): string {
  const lanes = new Set(cells.map((cell) => model.lane(cell)));
  const names = new Set(
    [...lanes].flatMap((lane) => {
      const { vendor_title } = model.overview.platforms[model.platformOfLane[lane]!]!;
      return model.overview.devices[lane]!.map((name) => name.replace(`${vendor_title} `, ""));
    }),
  );
  const shown = [...names].slice(0, MOST_DEVICES).join(" and ");
  const more = names.size > MOST_DEVICES ? ` and ${names.size - MOST_DEVICES} more` : "";
  return names.size > 0 ? ` on ${shown}${more}` : "";
}

/** Return how exact a cell is: its error over the baseline's, and its share of the budget, which alone decides. */
export function exactness(model: Model, cell: number): string {
  const { noise, share } = model.overview.cells;
  const of = [times(noise[cell]), share[cell] == null ? "" : `${percent(share[cell])} budget`];
  return of.filter((part) => part !== "").join(" · ");
}

/** Return when cells ran last; where none did, when they were compiled last, or had any result. */
export function lastResult(model: Model, cells: readonly number[]): string {
  const lanes = new Set(cells.map((cell) => model.lane(cell)));
  const histories = [...lanes].map((lane) => model.overview.lanes[lane]!.history);
  const ran = (cell: number): boolean => ["ran", "held"].includes(reachedBy(model, cell));
  const emulated = !cells.some(ran) && cells.some((cell) => model.emulated(cell) > 0);
  for (const [key, verb] of [
    ["last_ran", emulated ? "emulated " : "ran "],
    ["last_compiled", cells.some((cell) => model.stateName(cell) === "compiled") ? "compiled " : "written "],
    ["last_result", ""],
  ] as const) {
    const last = histories
      .map((one) => one[key] ?? "")
      .sort()
      .at(-1);
    if (!last) continue;
    const days = Math.floor(daysSince(last, Date.now()));
    return verb + (days > 0 ? `${plural(days, "day")} ago` : moment(last).slice(0, 10));
  }
  return "never";
}
