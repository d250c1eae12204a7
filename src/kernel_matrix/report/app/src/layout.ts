/** Cells and a way to group them -> the rows and the columns of the grid. */

import { goodness, summary } from "./aggregate";
import { laneId, opId, type Model } from "./model";

export type Grouping = "vendor" | "platform" | "toolchain" | "op";
export const GROUPINGS: readonly Grouping[] = ["vendor", "platform", "toolchain", "op"];

export interface Column {
  key: string;
  /** Two lines: such as an operator and its direction. */
  title: string;
  below: string;
}

export interface GroupRow {
  kind: "group";
  key: string;
  title: string;
  note: string;
  folded: boolean;
  lines: number;
  /** The cells of the group by column. */
  columns: readonly (readonly number[])[];
}

export interface LineRow {
  kind: "line";
  key: string;
  title: string;
  note: string;
  /** The cell of each column; -1 where none is planned, -2 where the search does not find it. */
  cells: Int32Array;
  /** The lane, if the row is one; -1 otherwise. */
  lane: number;
}

type Row = GroupRow | LineRow;

export interface Layout {
  corner: string;
  columns: readonly Column[];
  rows: readonly Row[];
  groups: readonly string[];
}

export const NOT_PLANNED = -1;
export const NOT_FOUND = -2;

/** What stands where: numbers in place of names, because there may be many cells. */
interface Axes {
  columns: readonly Column[];
  /** The groups with their lines; a line has a cell of the data for each column. */
  groups: ReadonlyMap<string, ReadonlyMap<string, Int32Array>>;
}

/** Return the grid of the cells that a search finds. `folded` says which groups show only their first row. */
export function layout(model: Model, mask: Uint8Array, grouping: Grouping, folded: (group: string) => boolean): Layout {
  const { columns, groups } = grouping === "op" ? byOp(model, mask) : byLane(model, mask, grouping);
  const rows: Row[] = [];
  const names: string[] = [];
  for (const [group, lines] of groups) {
    const shown = [...lines].filter(([, cells]) => cells.some((cell) => cell >= 0));
    if (shown.length === 0) continue;
    names.push(group);
    rows.push(...groupRows(model, grouping, group, shown, columns.length, folded(group)));
  }
  return { corner: grouping === "op" ? "toolchain" : "toolchain and target", columns, rows, groups: names };
}

/** Return the operators as columns, and the lanes as lines. */
function byLane(model: Model, mask: Uint8Array, grouping: "vendor" | "platform" | "toolchain"): Axes {
  const { lanes, ops } = model.overview;
  const used = new Uint8Array(ops.length);
  for (let cell = 0; cell < model.size; cell++) if (mask[cell] === 1) used[model.op(cell)] = 1;
  const shown = ops.map((_, op) => op).filter((op) => used[op] === 1);
  const groups = new Map<string, Map<string, Int32Array>>();
  lanes.forEach((lane, place) => {
    const cells = Int32Array.from(shown, (op) => asked(model.at(place, op), mask));
    lines(groups, grouping === "vendor" ? model.vendorOf(place) : lane[grouping]).set(laneId(lane), cells);
  });
  return {
    columns: shown.map((op) => ({ key: opId(ops[op]!), title: ops[op]!.op, below: ops[op]!.direction })),
    groups,
  };
}

/** Return the targets as columns, and the toolchains as lines in a group for each operator. */
function byOp(model: Model, mask: Uint8Array): Axes {
  const { lanes, ops, platforms } = model.overview;
  const used = new Set<string>();
  const targets = lanes.map((lane) => `${lane.platform}/${lane.target}`);
  for (let cell = 0; cell < model.size; cell++) if (mask[cell] === 1) used.add(targets[model.lane(cell)]!);
  const columns = platforms
    .flatMap((platform) =>
      platform.targets.map((target) => ({ key: `${platform.name}/${target}`, title: target, below: platform.name })),
    )
    .filter((column) => used.has(column.key));
  const columnOf = new Map(columns.map((column, index) => [column.key, index]));
  const groups = new Map<string, Map<string, Int32Array>>();
  ops.forEach((op, index) => {
    const group = lines(groups, opId(op));
    lanes.forEach((lane, place) => {
      const column = columnOf.get(targets[place]!);
      if (column === undefined) return;
      let cells = group.get(lane.toolchain);
      if (!cells) group.set(lane.toolchain, (cells = new Int32Array(columns.length).fill(NOT_PLANNED)));
      cells[column] = asked(model.at(place, index), mask);
    });
  });
  return { columns, groups };
}

function asked(cell: number, mask: Uint8Array): number {
  return cell < 0 ? NOT_PLANNED : mask[cell] === 1 ? cell : NOT_FOUND;
}

function lines(groups: Map<string, Map<string, Int32Array>>, group: string): Map<string, Int32Array> {
  let known = groups.get(group);
  if (!known) groups.set(group, (known = new Map()));
  return known;
}

function groupRows(
  model: Model,
  grouping: Grouping,
  group: string,
  shown: readonly [string, Int32Array][],
  columns: number,
  folded: boolean,
): Row[] {
  shown = best(model, shown);
  const head: GroupRow = {
    kind: "group",
    key: group,
    title: grouping === "vendor" ? model.titleOfVendor(group) : group,
    note: grouping === "platform" ? (model.overview.platforms.find((one) => one.name === group)?.title ?? "") : "",
    folded,
    lines: shown.length,
    columns: Array.from({ length: columns }, (_, column) =>
      shown.map(([, cells]) => cells[column]!).filter((cell) => cell >= 0),
    ),
  };
  if (folded) return [head];
  return [head, ...shown.map(([line, cells]): LineRow => lineRow(model, grouping, line, cells))];
}

/** Return the lines of a group, those first of which most is known; those of equal worth stay in their order. */
function best(model: Model, lines: readonly [string, Int32Array][]): readonly [string, Int32Array][] {
  const worth = (cells: Int32Array): number[] => {
    const { best, evidence, byState } = summary(
      model,
      cells.filter((cell) => cell >= 0),
    );
    return best < 0 ? [-Infinity] : [goodness(model.stateNames[best]!), evidence, byState[best]!];
  };
  const ranked = lines.map((line) => ({ line, worth: worth(line[1]) }));
  ranked.sort((a, b) => b.worth.map((one, place) => one - a.worth[place]!).find((one) => one !== 0) ?? 0);
  return ranked.map(({ line }) => line);
}

function lineRow(model: Model, grouping: Grouping, line: string, cells: Int32Array): LineRow {
  if (grouping === "op") return { kind: "line", key: line, title: line, note: "", cells, lane: -1 };
  const number = model.lane(cells.find((cell) => cell >= 0)!);
  const lane = model.overview.lanes[number]!;
  if (grouping === "toolchain")
    return { kind: "line", key: line, title: lane.target, note: lane.platform, cells, lane: number };
  return { kind: "line", key: line, title: lane.toolchain, note: lane.target, cells, lane: number };
}
