/** Cells and a way to group them -> the rows and the columns of the grid. */

import { laneId, opId, type Model } from "./model";

export type Grouping = "platform" | "toolchain" | "op";
export const GROUPINGS: readonly Grouping[] = ["platform", "toolchain", "op"];

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

export type Row = GroupRow | LineRow;

export interface Layout {
  corner: string;
  columns: readonly Column[];
  rows: readonly Row[];
  groups: readonly string[];
}

export const NOT_PLANNED = -1;
export const NOT_FOUND = -2;

interface Place {
  group: string;
  line: string;
  column: string;
}

/** Return the grid of the cells that a search finds. `folded` says which groups show only their first row. */
export function layout(model: Model, mask: Uint8Array, grouping: Grouping, folded: (group: string) => boolean): Layout {
  const { columns, columnOf, place } = axes(model, mask, grouping);
  const groups = new Map<string, Map<string, Int32Array>>();
  for (let cell = 0; cell < model.size; cell++) {
    const { group, line, column } = place(cell);
    const index = columnOf.get(column);
    if (index === undefined) continue;
    let lines = groups.get(group);
    if (!lines) groups.set(group, (lines = new Map()));
    let cells = lines.get(line);
    if (!cells) lines.set(line, (cells = new Int32Array(columns.length).fill(NOT_PLANNED)));
    cells[index] = mask[cell] === 1 ? cell : NOT_FOUND;
  }
  const rows: Row[] = [];
  const names: string[] = [];
  for (const [group, lines] of groups) {
    const shown = [...lines].filter(([, cells]) => cells.some((cell) => cell >= 0));
    if (shown.length === 0) continue;
    names.push(group);
    rows.push(...groupRows(model, grouping, group, shown, columns.length, folded(group)));
  }
  return { corner: grouping === "op" ? "toolchain" : "target and toolchain", columns, rows, groups: names };
}

function groupRows(
  model: Model, grouping: Grouping, group: string, lines: readonly [string, Int32Array][], columns: number, folded: boolean,
): Row[] {
  const head: GroupRow = {
    kind: "group",
    key: group,
    title: group,
    note: grouping === "platform" ? (model.overview.platforms.find((one) => one.name === group)?.title ?? "") : "",
    folded,
    lines: lines.length,
    columns: Array.from({ length: columns }, (_, column) => lines.map(([, cells]) => cells[column]!).filter((cell) => cell >= 0)),
  };
  if (folded) return [head];
  return [head, ...lines.map(([line, cells]): LineRow => lineRow(model, grouping, line, cells))];
}

function lineRow(model: Model, grouping: Grouping, line: string, cells: Int32Array): LineRow {
  if (grouping === "op") return { kind: "line", key: line, title: line, note: "", cells, lane: -1 };
  const number = model.lane(cells.find((cell) => cell >= 0)!);
  const lane = model.overview.lanes[number]!;
  if (grouping === "platform") return { kind: "line", key: line, title: lane.toolchain, note: lane.target, cells, lane: number };
  return { kind: "line", key: line, title: lane.target, note: lane.platform, cells, lane: number };
}

/** Return the columns that have a cell of the search, and where each cell stands. */
function axes(
  model: Model, mask: Uint8Array, grouping: Grouping,
): { columns: Column[]; columnOf: Map<string, number>; place: (cell: number) => Place } {
  const lanes = model.overview.lanes.map((lane) => ({ ...lane, id: laneId(lane), column: `${lane.platform}/${lane.target}` }));
  const ops = model.overview.ops.map(opId);
  const place = (cell: number): Place => {
    const lane = lanes[model.lane(cell)]!;
    const op = ops[model.op(cell)]!;
    if (grouping === "op") return { group: op, line: lane.toolchain, column: lane.column };
    return { group: grouping === "platform" ? lane.platform : lane.toolchain, line: lane.id, column: op };
  };
  const used = new Set<string>();
  for (let cell = 0; cell < model.size; cell++) if (mask[cell] === 1) used.add(place(cell).column);
  const all: Column[] =
    grouping === "op"
      ? model.overview.platforms.flatMap((platform) =>
          platform.targets.map((target) => ({ key: `${platform.name}/${target}`, title: target, below: platform.name })))
      : model.overview.ops.map((op) => ({ key: opId(op), title: op.op, below: op.direction }));
  const columns = all.filter((column) => used.has(column.key));
  return { columns, columnOf: new Map(columns.map((column, index) => [column.key, index])), place };
}
