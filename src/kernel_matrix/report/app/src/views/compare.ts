/** One toolchain against another on the same operators and targets: state, error and speed. The address names both. */

import type { Context, View } from "../context";
import { goodness } from "../aggregate";
import { h, table, type Child, type ColumnOf } from "../dom";
import { exactness } from "../known";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import type { Model } from "../model";
import { outOf, times } from "../numbers";
import { pill } from "../states";
import { benchPart } from "./bench";

/** A place that both have planned. */
interface Pair {
  mine: number;
  rival: number;
}

const CLOSE = 1.1; // ratios nearer than this are equal

export function compareView(context: Context): View {
  const { model, place, found } = context;
  const toolchains = [...new Set([...found.cells].map((cell) => model.laneOf(cell).toolchain))];
  const all = toolchains.length > 1 ? toolchains : [...new Set(model.overview.lanes.map((lane) => lane.toolchain))];
  const mine = all.includes(place.mine) ? place.mine : (all[0] ?? "");
  const rival =
    all.includes(place.rival) && place.rival !== mine ? place.rival : (all.find((one) => one !== mine) ?? "");
  const pairs = pairsOf(context, mine, rival);
  const choose = (key: "mine" | "rival", value: string): HTMLElement =>
    h(
      "label",
      null,
      `${key === "mine" ? "Compare" : "with"} `,
      h(
        "select",
        {
          "data-test": key,
          on: { change: (event) => context.go({ mine, rival, [key]: (event.target as HTMLSelectElement).value }) },
        },
        all.map((name) => h("option", { value: name, selected: name === value }, name)),
      ),
    );
  return {
    element: h(
      "div",
      { "data-test": "compare" },
      h("h2", null, `${mine} against ${rival}`),
      h(
        "div",
        { class: "controls", role: "group", "aria-label": "toolchains" },
        choose("mine", mine),
        choose("rival", rival),
      ),
      h("p", null, verdict(model, pairs, mine, rival)),
      h(
        "p",
        null,
        h(
          "a",
          { href: toHash({ ...place, mine, rival, cell: "", case: "" }), "data-test": "permalink" },
          "Link to this comparison",
        ),
      ),
      pairs.length > 0 && table("two toolchains", columns(context, mine, rival), pairs, "compared"),
      model.overview.has.includes("speed") &&
        later(
          () => load("speed"),
          ({ bench }) =>
            benchPart(
              context,
              bench.filter((one) => one.toolchain === mine),
            ), // with the rivals of other libraries
          "the times",
        ),
    ),
  };
}

function pairsOf({ model, found }: Context, mine: string, rival: string): Pair[] {
  const rivals = new Map<string, number>();
  const key = (cell: number): string => {
    const { platform, target } = model.laneOf(cell);
    return `${platform}/${target}/${model.op(cell)}`;
  };
  for (let cell = 0; cell < model.size; cell++) if (model.laneOf(cell).toolchain === rival) rivals.set(key(cell), cell);
  return [...found.cells]
    .filter((cell) => model.laneOf(cell).toolchain === mine && rivals.has(key(cell)))
    .map((cell) => ({ mine: cell, rival: rivals.get(key(cell))! }));
}

/** Return the sum in a sentence: where each is better in state, more exact, faster. */
function verdict(model: Model, pairs: readonly Pair[], mine: string, rival: string): string {
  if (pairs.length === 0) return `No operator of this search is planned for both ${mine} and ${rival} on one target.`;
  const { noise, speed } = model;
  const count = (better: (one: number, other: number) => boolean): [number, number] => [
    pairs.filter((pair) => better(pair.mine, pair.rival)).length,
    pairs.filter((pair) => better(pair.rival, pair.mine)).length,
  ];
  const states = count((one, other) => goodness(model.stateName(one)) > goodness(model.stateName(other)));
  const exact = count((one, other) => noise[one]! * CLOSE < noise[other]!);
  const fast = count((one, other) => speed[one]! > CLOSE * speed[other]!);
  const words = ([one, other]: [number, number], what: string): string => `${what} in ${one}, ${rival} in ${other}`;
  return `Of ${pairs.length} operators on targets that both have, ${mine} ${words(states, "is in the better state")}; ${words(exact, "is more exact")}; ${words(fast, "is faster")} (by a tenth or more).`;
}

function columns(context: Context, mine: string, rival: string): ColumnOf<Pair>[] {
  const { model, place } = context;
  const of = (name: string, cell: (pair: Pair) => number): ColumnOf<Pair>[] => [
    {
      title: name,
      cell: (pair) =>
        h(
          "a",
          { href: toHash({ ...place, mine, rival, cell: model.id(cell(pair)), case: "" }) },
          state(model, cell(pair)),
        ),
    },
    { title: "error", cell: (pair) => exactness(model, cell(pair)) },
    { title: "speed", number: true, cell: (pair) => times(model.overview.cells.speed[cell(pair)]) },
  ];
  return [
    { title: "operator", header: true, cell: ({ mine }) => `${model.opOf(mine).op} ${model.opOf(mine).direction}` },
    { title: "target", cell: ({ mine }) => model.laneOf(mine).target },
    ...of(mine, (pair) => pair.mine),
    ...of(rival, (pair) => pair.rival),
  ];
}

function state(model: Model, cell: number): Child {
  const name = model.stateName(cell);
  return [pill(name, model.stale(cell) > 0), ` ${outOf(model.count(cell, model.state(cell)), model.planned[cell]!)}`];
}
