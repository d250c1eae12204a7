/** The grid: a square for each cell, in groups that fold. */

import { summary, type Summary } from "../aggregate";
import type { Context, View } from "../context";
import { h } from "../dom";
import { GROUPINGS, layout, NOT_FOUND, type Column, type GroupRow, type Grouping, type LineRow } from "../layout";
import { isFolded, turned, type Folding } from "../link";
import type { Model } from "../model";
import { plural, times } from "../numbers";
import { written } from "../search/parse";
import { Squares, type SquareRow } from "../squares";
import { shape } from "../states";
import { beginning } from "../text";

const FOLDED_ABOVE = 4_000; // cells: a first look at more of them is the look at the groups
const NAMES: Record<Grouping, string> = { platform: "platform", toolchain: "toolchain", op: "operator" };

export function gridView(context: Context): View {
  const { model, place, found } = context;
  const fold: Folding = place.fold ?? { all: model.size > FOLDED_ABOVE, except: [] };
  const grid = layout(model, found.mask, place.group, (group) => isFolded(fold, group));
  if (grid.rows.length === 0) return { element: h("div", null, controls(context)) };
  const squares = new Squares({
    name: `cells by ${NAMES[place.group]}`,
    corner: grid.corner,
    columns: [
      {
        head: h("span", null, "all", h("br"), h("small", null, place.group === "op" ? "targets" : "operators")),
        width: 134,
      },
      ...grid.columns.map((column) => ({ head: columnHead(column), width: 122 })),
    ],
    rows: grid.rows.length,
    row: (index) => {
      const row = grid.rows[index]!;
      return row.kind === "group" ? groupRow(context, fold, row, grid.columns) : lineRow(context, row);
    },
    rowHeight: 66,
    headWidth: innerWidth < 600 ? 128 : 190,
  });
  return {
    element: h("div", null, controls(context), squares.element),
    print: (on) => squares.print(on),
    scrolled: () => squares.scrolled,
    scrollBack: (to) => squares.scrollBack(to),
  };
}

function columnHead(column: Column): Node {
  return h("span", { title: `${column.title} ${column.below}` }, column.title, h("br"), h("small", null, column.below));
}

function controls(context: Context): HTMLElement {
  const { place, go } = context;
  return h(
    "div",
    { class: "controls", role: "group", "aria-label": "groups" },
    h("span", null, "Group by"),
    GROUPINGS.map((grouping) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": place.group === grouping,
          "data-group": grouping,
          on: { click: () => go({ group: grouping, fold: null }) },
        },
        NAMES[grouping],
      ),
    ),
    h("span", { class: "gap" }),
    h(
      "button",
      { type: "button", "data-test": "fold-all", on: { click: () => go({ fold: { all: true, except: [] } }) } },
      "Fold all",
    ),
    h(
      "button",
      { type: "button", "data-test": "unfold-all", on: { click: () => go({ fold: { all: false, except: [] } }) } },
      "Unfold all",
    ),
    h("span", { class: "dim" }, "A square of several cells is as bad as the worst of them; its bar has them all."),
  );
}

function groupRow(context: Context, fold: Folding, row: GroupRow, columns: readonly Column[]): SquareRow {
  const { model, go, place } = context;
  return {
    key: row.key,
    className: "group",
    head: h(
      "button",
      {
        type: "button",
        class: "fold",
        "aria-expanded": String(!row.folded),
        "data-fold": row.key,
        title: `${row.folded ? "Unfold" : "Fold"} ${row.key}`,
        on: { click: () => go({ fold: turned(fold, row.key) }) },
      },
      h("span", { "aria-hidden": "true" }, row.folded ? "▸ " : "▾ "),
      h("b", null, row.title),
      h("small", null, row.note && `${row.note} · `, plural(row.lines, "row")),
    ),
    cell: (column) => {
      const cells = column === 0 ? row.columns.flat() : row.columns[column - 1]!;
      if (cells.length === 0) return null;
      const terms =
        column === 0
          ? groupTerm(place.group, row.key)
          : [groupTerm(place.group, row.key), columnTerm(place.group, columns[column - 1]!)].flat();
      return summarySquare(context, summary(model, cells), "", terms);
    },
  };
}

function lineRow(context: Context, row: LineRow): SquareRow {
  const { model } = context;
  const lane = row.lane >= 0 ? model.overview.lanes[row.lane]! : null;
  const terms = lane
    ? [`platform:${written(lane.platform)}`, `target:${written(lane.target)}`, `toolchain:${written(lane.toolchain)}`]
    : [`toolchain:${written(row.key)}`];
  const canaries = lane?.canaries ? `canaries ${lane.canaries.caught} of ${lane.canaries.injected}` : "";
  return {
    key: row.key,
    className: "line",
    head: h("span", { title: row.key }, h("b", null, row.title), h("small", null, row.note)),
    cell: (column) => {
      if (column === 0) return summarySquare(context, summary(model, row.cells), canaries, terms);
      const cell = row.cells[column - 1]!;
      if (cell === NOT_FOUND) return h("span", { class: "not-found", title: "planned, and not in the search" }, "○");
      return cell < 0 ? null : square(context, cell);
    },
  };
}

function groupTerm(grouping: Grouping, key: string): string[] {
  if (grouping !== "op") return [`${grouping}:${written(key)}`];
  const dot = key.lastIndexOf(".");
  return [`op:${written(key.slice(0, dot))}`, `direction:${written(key.slice(dot + 1))}`];
}

function columnTerm(grouping: Grouping, column: Column): string[] {
  return grouping === "op"
    ? [`platform:${written(column.below)}`, `target:${written(column.title)}`]
    : [`op:${written(column.title)}`, `direction:${written(column.below)}`];
}

/** Return a square of several cells: their worst state, and how many of them have it. It leads to a search for them. */
function summarySquare(context: Context, of: Summary, more: string, terms: readonly string[]): HTMLElement {
  const { model, go, place } = context;
  const state = model.stateNames[of.worst]!;
  const q = [place.q, ...terms.filter((term) => !place.q.includes(term))].join(" ").trim();
  return h(
    "button",
    {
      type: "button",
      class: look(state, model.overview.evidence[of.least]!, of.stale > 0),
      "data-state": state,
      "data-summary": terms.join(" "),
      title: `${of.byState[of.worst]} of ${plural(of.cells, "cell")} ${state}: the worst state. ${countsInWords(model, of)} The least evidence: ${model.overview.evidence[of.least]}.${more ? ` ${more}.` : ""}`,
      on: { click: () => go({ q, fold: { all: false, except: [] } }) },
    },
    stateWords(state),
    h("small", null, `${of.byState[of.worst]} of ${plural(of.cells, "cell")}`),
    h(
      "small",
      null,
      of.stale > 0
        ? h("span", { class: "stale-word" }, `${of.stale} stale`)
        : more || `least: ${model.overview.evidence[of.least]}`,
    ),
    of.byState[of.worst]! < of.cells &&
      h(
        "span",
        { class: "shares", "aria-hidden": "true" },
        model.stateNames.map(
          (name, index) =>
            of.byState[index]! > 0 && h("span", { class: `s-${name}`, style: `flex: ${of.byState[index]}` }),
        ),
      ),
  );
}

function countsInWords(model: Model, of: Summary): string {
  const parts = model.stateNames
    .map((name, index) => [name, of.byState[index]!] as const)
    .filter(([, count]) => count > 0);
  return `${parts.map(([name, count]) => `${count} ${name}`).join(", ")}.${of.stale > 0 ? ` ${of.stale} stale.` : ""}`;
}

function look(state: string, evidence: string, stale: boolean): string {
  return `square s-${state} e-${evidence}${stale ? " stale" : ""}`;
}

function stateWords(state: string): HTMLElement {
  return h("b", null, h("span", { "aria-hidden": "true" }, shape(state), " "), state);
}

/** Return the square of a cell. It opens the cell. */
function square(context: Context, cell: number): HTMLElement {
  const { model, go } = context;
  const state = model.stateName(cell);
  const evidence = model.evidenceName(cell);
  const stale = model.stale(cell);
  const stage = state === "error" || state === "known" ? model.text(model.overview.cells.stage[cell]) : "";
  const noise = model.overview.cells.noise[cell];
  const reason = beginning(model.text(model.overview.cells.reason[cell]), 200);
  const journal = model.inJournal(cell);
  const id = model.id(cell);
  return h(
    "button",
    {
      type: "button",
      class: look(state, evidence, stale > 0),
      "data-cell": id,
      "data-state": state,
      "data-evidence": evidence,
      "data-stale": stale > 0 ? "yes" : "no",
      title: `${id}: ${state}, evidence ${evidence}.${reason ? ` ${reason}.` : ""}${stale > 0 ? ` ${stale} of ${plural(model.planned[cell]!, "case")} stale.` : ""}`,
      on: { click: () => go({ cell: id, case: "" }) },
    },
    stateWords(state),
    h(
      "small",
      null,
      stage !== "" && `in ${stage} · `,
      evidence,
      stale > 0 && [" · ", h("span", { class: "stale-word" }, "stale")],
      journal > 0 && ` · runs: ${journal}`,
    ),
    h(
      "small",
      null,
      `${model.count(cell, model.state(cell))} of ${model.planned[cell]}`,
      noise !== null && noise !== undefined && ` · ${times(noise)}`,
    ),
  );
}
