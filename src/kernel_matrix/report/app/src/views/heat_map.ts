/** The heat map of the noise ratio. */

import type { Context } from "../context";
import { h } from "../dom";
import { layout, NOT_FOUND, type LineRow } from "../layout";
import type { Model } from "../model";
import { badness, percent, times, type Written } from "../numbers";
import { Squares } from "../squares";
import { shape } from "../states";
import { heatStep, HEAT_STEPS } from "./scales";

/** The place of all dtypes: of each cell the one with the least exact output. */
export const ALL = "*";

/** What was measured of a cell in a dtype: the least exact output, its ratio, and the evidence. */
interface Measured {
  output: string;
  ratio: Written;
  evidence: number;
}

/** Return what was measured of a cell in a dtype, or in the worst of all; null where nothing was. */
function measured(model: Model, dtype: string, cell: number): Measured | null {
  const { noise_by_dtype, noise_output, noise_evidence } = model.overview.cells;
  const of = (dtype === ALL ? Object.keys(noise_by_dtype) : [dtype]).map((name) => ({
    output:
      model.text(noise_output[name]![cell]) &&
      (dtype === ALL && name
        ? `${name} ${model.text(noise_output[name]![cell])}`
        : model.text(noise_output[name]![cell])),
    ratio: noise_by_dtype[name]![cell] ?? null,
    evidence: noise_evidence[name]![cell]!,
  }));
  const known = of.filter((one) => one.output !== "");
  const size = (one: Measured): number => (one.ratio === null ? -1 : badness(one.ratio));
  return known.sort((a, b) => size(b) - size(a))[0] ?? null;
}

/** Return the number of found cells that have a noise ratio, or an exact baseline, in a dtype. */
export function known(model: Model, dtype: string, mask: Uint8Array): number {
  return mask.reduce((sum, asked, cell) => sum + (asked === 1 && measured(model, dtype, cell) ? 1 : 0), 0);
}

/** Return what the colours stand for. */
export function scale(): HTMLElement {
  return h(
    "ul",
    { class: "legend", "aria-label": "scale of the noise ratio" },
    HEAT_STEPS.map((step, index) =>
      h("li", null, h("span", { class: `swatch h-${index}`, "aria-hidden": "true" }), step),
    ),
    h("li", null, h("span", { class: "swatch h-none", "aria-hidden": "true" }), "not known"),
    h("li", null, h("span", { class: "swatch h-2 h-emulated", "aria-hidden": "true" }), "dashed: in an emulator"),
    h("li", null, h("span", { class: "swatch h-2 stale", "aria-hidden": "true" }), "hatched: stale"),
  );
}

/** Return the squares of a dtype, with a row for each lane that has a ratio in it; and the lanes that have none. */
export function heatMap(context: Context, dtype: string): { squares: Squares; without: string[] } | null {
  const { model, found } = context;
  const grid = layout(model, found.mask, "platform", () => false);
  const lines = grid.rows.filter((row): row is LineRow => row.kind === "line");
  const isMeasured = (row: LineRow): boolean => row.cells.some((cell) => cell >= 0 && measured(model, dtype, cell));
  const rows = lines.filter(isMeasured);
  if (rows.length === 0) return null;
  const columns = grid.columns
    .map((column, index) => ({ column, index }))
    .filter(({ index }) => rows.some((row) => (row.cells[index] ?? -1) >= 0));
  const squares = new Squares({
    name: `noise ratio in ${dtype === ALL ? "all dtypes" : dtype}, by lane and operator`,
    corner: dtype === ALL ? "all dtypes" : dtype,
    columns: columns.map(({ column }) => ({
      head: h("span", null, column.title, h("br"), h("small", null, column.below)),
      width: 112,
    })),
    rows: rows.length,
    row: (index) => {
      const row = rows[index]!;
      const lane = model.overview.lanes[row.lane]!;
      return {
        key: row.key,
        className: "line",
        head: h(
          "span",
          { title: row.key },
          h("b", null, lane.toolchain),
          h("small", null, `${lane.target} · ${lane.platform}`),
        ),
        cell: (column) => {
          const cell = row.cells[columns[column]!.index]!;
          if (cell === NOT_FOUND)
            return h("span", { class: "not-found", title: "planned, and not in the search" }, "○");
          return cell < 0 ? null : heatSquare(context, cell, dtype);
        },
      };
    },
    rowHeight: 60,
    headWidth: innerWidth < 600 ? 128 : 190,
  });
  return { squares, without: lines.filter((row) => !isMeasured(row)).map((row) => row.key) };
}

function heatSquare(context: Context, cell: number, dtype: string): HTMLElement {
  const { model, go } = context;
  const { cells, run } = model.overview;
  const what = dtype === ALL ? "all dtypes" : dtype;
  const known = measured(model, dtype, cell);
  const id = model.id(cell);
  const state = model.stateName(cell);
  const open = { click: () => go({ cell: id, case: "" }) };
  const words = `State ${state}.${model.stale(cell) > 0 ? " Stale." : ""}`;
  if (!known) {
    return h(
      "button",
      {
        type: "button",
        class: "heat h-none",
        "data-cell": id,
        title: `${id}, ${what}: not known. ${words}`,
        on: open,
      },
      h("b", null, "?"),
      h("small", null, state),
    );
  }
  const { output, ratio } = known;
  const evidence = model.overview.evidence[known.evidence] ?? "";
  const share = cells.share[cell] == null ? "" : `${percent(cells.share[cell])} of budget`;
  const red = model.red[model.state(cell)] ? `${shape(state)} ` : "";
  const classes = [
    "heat",
    ratio === null ? "h-none" : `h-${heatStep(ratio)}`,
    evidence === "emulated" ? "h-emulated" : "",
    model.stale(cell) > 0 ? "stale" : "",
  ];
  return h(
    "button",
    {
      type: "button",
      class: classes.join(" ").trim(),
      "data-cell": id,
      "data-noise": ratio ?? "exact",
      on: open,
      title: `${id}, ${what}: ${output} has ${ratio === null ? `the exact result in ${run.baseline}, so there is no ratio` : `${times(ratio)} the error of ${run.baseline}`}. Evidence ${evidence}. ${words}`,
    },
    h("b", null, red, ratio === null ? "exact" : times(ratio)),
    h("small", null, output, model.stale(cell) > 0 && " · stale"),
    share !== "" && h("small", null, share),
  );
}
