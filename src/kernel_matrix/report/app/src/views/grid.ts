/** The grid: a square for each cell, in groups that fold. Folded by vendor, it is the first view. */

import { inWords, summary, type Summary } from "../aggregate";
import type { Context, View } from "../context";
import { h, type Child } from "../dom";
import { exactness, known, lastResult } from "../known";
import { GROUPINGS, layout, NOT_FOUND, type Column, type GroupRow, type Grouping, type LineRow } from "../layout";
import { isFolded, turned, type Folding, type Place } from "../link";
import type { Model } from "../model";
import { plural } from "../numbers";
import { written } from "../search/parse";
import { Squares, type SquareRow } from "../squares";
import { shape } from "../states";
import { beginning } from "../text";
import { answers } from "./answers";
import { asked, reasons } from "./asked";

const FOLDED_ABOVE = 4_000; // cells: a first look at more of them is the look at the groups
const GOOD = ["pass", "held", "flaky", "told"];
const MOST_SAID = 4; // vendors of a search that are answered in words
const NAMES: Record<Grouping, string> = {
  vendor: "vendor",
  platform: "platform",
  toolchain: "toolchain",
  op: "operator",
};

/** Return which groups are folded at a place. Somebody who searches wants to see what is found. */
function folding({ place, found, model }: Context): Folding {
  const first = place.group === "vendor" && place.q === "";
  return place.fold ?? { all: first || Math.min(found.cells.length, model.size) > FOLDED_ABOVE, except: [] };
}

export function gridView(context: Context): View {
  const { model, place, found } = context;
  const fold = folding(context);
  const grid = layout(model, found.mask, place.group, (group) => isFolded(fold, group));
  if (grid.rows.length === 0) return { element: h("div", null, asked(context), controls(context)) };
  const folded = grid.rows.every((row) => row.kind === "group");
  const narrow = innerWidth < 600;
  const headWidth = folded ? 330 : narrow ? 128 : 190;
  const each = folded ? (Math.min(1600, innerWidth) - 50 - headWidth) / grid.columns.length : 138;
  const all: Column = { key: "", title: "all", below: place.group === "op" ? "targets" : "operators" };
  const columns = folded ? grid.columns : [all, ...grid.columns];
  const squares = new Squares({
    name: `cells by ${NAMES[place.group]}`,
    corner: folded ? `${NAMES[place.group]}, and its last result` : grid.corner,
    columns: columns.map((column) => ({ head: columnHead(column), width: column === all ? 134 : Math.max(26, each) })),
    rows: grid.rows.length,
    row: (index) => {
      const row = grid.rows[index]!;
      return row.kind === "group" ? groupRow(context, fold, row, columns, folded) : lineRow(context, row);
    },
    rowHeight: 66,
    headWidth,
    className: folded ? (each < 58 ? "folded tight" : "folded") : "",
  });
  const first = folded && place.group === "vendor" && place.q === "";
  return {
    element: h(
      "div",
      null,
      first
        ? answers(context)
        : [asked(context), place.group === "vendor" && place.q !== "" && said(context, grid.rows)],
      // On a phone the first rows come before the buttons.
      first && narrow ? [squares.element, controls(context)] : [controls(context), squares.element],
    ),
    first,
    print: (on) => squares.print(on),
    scrolled: () => squares.scrolled,
    scrollBack: (to) => squares.scrollBack(to),
  };
}

/** Return what a search finds, in a sentence for each vendor. */
function said({ model, found: { asks } }: Context, rows: readonly (GroupRow | LineRow)[]): Child {
  const groups = rows.filter((row) => row.kind === "group");
  if (groups.length > MOST_SAID) return null;
  return h(
    "div",
    { class: "said", "data-test": "said" },
    groups.map((row) => [
      h("p", null, h("b", null, `${row.title}: `), known(model, row.columns.flat())),
      !asks.has("why") &&
        !row.columns.flat().some((cell) => GOOD.includes(model.stateName(cell))) &&
        reasons(model, row.columns.flat()),
    ]),
  );
}

/** Return two lines; a long name may break after a sign that joins words. */
function columnHead({ title, below }: Column): Node {
  const parts = title.split(/(?<=[_.-])/).flatMap((part): Child[] => [part, h("wbr")]);
  return h("span", { title: `${title} ${below}` }, parts, h("br"), h("small", null, below));
}

function controls(context: Context): HTMLElement {
  const { place, go } = context;
  const button = (text: string, attributes: Record<string, unknown>, change: Partial<Place>): HTMLElement =>
    h("button", { type: "button", ...attributes, on: { click: () => go(change) } }, text);
  return h(
    "div",
    { class: "controls", role: "group", "aria-label": "groups" },
    h("span", null, "Group by"),
    GROUPINGS.map((grouping) =>
      button(
        NAMES[grouping],
        { "aria-pressed": place.group === grouping, "data-group": grouping },
        { group: grouping, fold: null },
      ),
    ),
    h("span", { class: "gap" }),
    button("Fold all", { "data-test": "fold-all" }, { fold: { all: true, except: [] } }),
    button("Every cell", { "data-test": "unfold-all" }, { fold: { all: false, except: [] } }),
    h(
      "span",
      { class: "dim" },
      "✓ 9/47: 9 of 47 cells pass. The colour is the best that is known, the bar below it has all.",
    ),
  );
}

function groupRow(
  context: Context,
  fold: Folding,
  row: GroupRow,
  columns: readonly Column[],
  folded: boolean,
): SquareRow {
  const { model, go, place } = context;
  const cells = row.columns.flat();
  const lines = plural(row.lines, "row");
  const before = columns.length - row.columns.length; // the column of all
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
        title: `${row.folded ? "Unfold" : "Fold"} ${row.key}: ${lines}`,
        on: { click: () => go({ fold: turned(fold, row.key), group: place.group }) },
      },
      h("span", { "aria-hidden": "true" }, row.folded ? "▸ " : "▾ "),
      h("b", null, row.title),
      folded && h("small", { class: "when", title: "the last result" }, lastResult(model, cells)),
      folded
        ? [
            h("small", { class: "known" }, known(model, cells)),
            // The browser's search finds it, and then shows it.
            h("small", { class: "lanes", hidden: "until-found" }, names(model, cells)),
          ]
        : h("small", null, row.note && `${row.note} · `, lines),
    ),
    cell: (column) => {
      const { title, below } = columns[column]!;
      const there = column < before ? cells : row.columns[column - before]!;
      if (there.length === 0) return null;
      const terms = [
        ...groupTerm(place.group, row.key),
        ...(column < before ? [] : columnTerm(place.group, columns[column]!)),
      ];
      return summarySquare(context, summary(model, there), terms, `${row.title}, ${title} ${below}`);
    },
  };
}

/** Return the targets and the toolchains of some cells. */
function names(model: Model, cells: readonly number[]): string {
  const lanes = cells.map((cell) => model.laneOf(cell));
  return [...new Set([...lanes.map((lane) => lane.target), ...lanes.map((lane) => lane.toolchain)])].join(", ");
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
      if (column === 0) return summarySquare(context, summary(model, row.cells), terms, row.key, canaries);
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

/** Return a square of several cells: what is known best, and marks for what is red or known. It leads to a search for them. */
function summarySquare(context: Context, of: Summary, terms: readonly string[], name: string, more = ""): HTMLElement {
  const { model, go, place } = context;
  const state = model.stateNames[of.best]!;
  const q = [place.q, ...terms.filter((term) => !place.q.includes(term))].join(" ").trim();
  const count = of.byState[of.best]!;
  const expected = state === "known" ? 0 : of.byState[model.stateNames.indexOf("known")]!;
  const words = `${count}${count < of.cells ? `/${of.cells}` : ""}${of.emulated ? " emulated" : ""}. ${name}: ${inWords(model, of)}${more && `. ${more}`}`;
  return h(
    "button",
    {
      type: "button",
      class: look(state, of.emulated, of.faded),
      "data-state": state,
      "data-summary": terms.join(" "),
      "aria-label": words,
      title: words,
      on: { click: () => go({ q, fold: { all: false, except: [] }, group: place.group }) },
    },
    h(
      "b",
      null,
      h("span", { "aria-hidden": "true" }, shape(state), " "),
      String(count),
      count < of.cells && h("i", null, `/${of.cells}`),
    ),
    of.red > 0 || expected > 0
      ? h(
          "small",
          { class: "marks" },
          of.red > 0 && !model.red[of.best] && h("span", { class: "mark s-fail" }, `${of.red} red`),
          expected > 0 && h("span", { class: "mark s-known" }, `${shape("known")} ${expected}`),
        )
      : more && h("small", null, more),
    count < of.cells &&
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

function look(state: string, emulated: boolean, stale: boolean): string {
  return `square s-${state}${emulated ? " emulated" : ""}${stale ? " stale" : ""}`;
}

/** Return the square of a cell. It opens the cell. */
function square(context: Context, cell: number): HTMLElement {
  const { model, go } = context;
  const state = model.stateName(cell);
  const evidence = model.evidenceName(cell);
  const stale = model.stale(cell);
  const emulated = model.emulated(cell) > 0;
  const known = emulated && evidence !== "emulated" ? `${evidence}, emulated` : evidence;
  const stage = state === "error" || state === "known" ? model.text(model.overview.cells.stage[cell]) : "";
  const noise = model.overview.cells.noise[cell];
  const reason = beginning(model.text(model.overview.cells.reason[cell]), 200);
  const measured = noise !== null && noise !== undefined;
  const untried = state === "unavailable" ? 0 : model.count(cell, model.stateNames.indexOf("unavailable"));
  const counted = `${model.count(cell, model.state(cell))} of ${model.planned[cell]}`;
  const count = untried > 0 ? `${counted} · ${untried} unavailable` : counted;
  const journal = model.inJournal(cell);
  const id = model.id(cell);
  return h(
    "button",
    {
      type: "button",
      class: look(state, emulated, stale > 0),
      "data-cell": id,
      "data-state": state,
      "data-evidence": evidence,
      "data-stale": stale > 0 ? "yes" : "no",
      title: `${id}: ${state}, evidence ${known}.${reason ? ` ${reason}.` : ""}${untried > 0 ? ` ${count}.` : ""}${stale > 0 ? ` ${stale} of ${plural(model.planned[cell]!, "case")} stale.` : ""}`,
      on: { click: () => go({ cell: id, case: "" }) },
    },
    h("b", null, h("span", { "aria-hidden": "true" }, shape(state), " "), state),
    h(
      "small",
      null,
      stage !== "" && `in ${stage} · `,
      known,
      stale > 0 && [" · ", h("span", { class: "stale-word" }, "stale")],
      journal > 0 && ` · runs: ${journal}`,
      measured && ` · ${count}`,
    ),
    h("small", null, measured ? exactness(model, cell) : count),
  );
}
