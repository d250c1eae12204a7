/** How exact the kernels are: the noise ratio of every cell, and who agrees with whom. */

import type { Context, View } from "../context";
import { h } from "../dom";
import { plural } from "../numbers";
import { agreementPart } from "./agreement";
import { ALL, heatMap, known, scale } from "./heat_map";

export function accuracyView(context: Context): View {
  const { model, place, found } = context;
  const counts = [...model.noiseByDtype.keys()].map((dtype) => ({ dtype, known: known(model, dtype, found.mask) }));
  counts.sort((a, b) => b.known - a.known || a.dtype.localeCompare(b.dtype));
  const dtype = [place.dtype, found.dtype].find((name) => model.noiseByDtype.has(name)) ?? ALL;
  const heat = counts.length === 0 ? null : heatMap(context, dtype);
  const element = h(
    "div",
    { "data-test": "accuracy" },
    h("h2", null, "Noise ratio"),
    h(
      "p",
      { class: "dim" },
      `The error of a kernel over the error of ${model.overview.run.baseline} in the same dtype, both against the float64 golden: 1 is as exact, 2 has twice its error. A square is the least exact output of one operator, over all of its cases. Its colour says how it compares with the baseline; whether it is good is decided by the budget alone, as in the grid: what is not marked as red is inside it, and the square says how much of it the nearest error takes. Where an output is narrower than fp32, its last rounding decides the ratio; the cell then says which share of its elements is misrounded.`,
    ),
    counts.length > 0 &&
      h(
        "div",
        { class: "controls", role: "group", "aria-label": "dtype" },
        h("span", null, "dtype"),
        [{ dtype: ALL, known: known(model, ALL, found.mask) }, ...counts].map((one) =>
          h(
            "button",
            {
              type: "button",
              "aria-pressed": one.dtype === dtype,
              "data-dtype": one.dtype,
              on: { click: () => context.go({ dtype: one.dtype }) },
            },
            one.dtype === ALL ? "all" : one.dtype || "without a dtype",
            ` ${one.known}`,
          ),
        ),
      ),
    scale(),
    heat
      ? heat.squares.element
      : h("p", null, "No cell of this search has a noise ratio: nothing ran there, or nothing was compared."),
    heat &&
      heat.without.length > 0 &&
      h(
        "details",
        { class: "dim" },
        h(
          "summary",
          null,
          `${plural(heat.without.length, "lane")} of this search have no noise ratio in ${dtype === ALL ? "any dtype" : dtype}, because nothing ran there in it`,
        ),
        h("p", null, heat.without.join(", ")),
      ),
    model.overview.has.includes("agreement") && agreementPart(context, place.dtype || found.dtype),
  );
  return {
    element,
    print: (on) => heat?.squares.print(on),
    scrolled: () => heat?.squares.scrolled ?? { top: 0, left: 0 },
    scrollBack: (to) => heat?.squares.scrollBack(to),
  };
}
