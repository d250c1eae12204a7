/** A chart with a row for each case and a mark for each contender, such as a toolchain. */

import { chart, ruleX, scales, width, type PlotOptions } from "../charts";
import { h } from "../dom";
import { short } from "../numbers";
import { legend } from "./trends";

const OF_LETTER = 6.6; // pixels
const MOST_OF_NAMES = 360; // pixels for the names of the rows

/** The content of such a chart; `line` is where a vertical line stands, and the marks have the channels of Plot. */
export interface Rows {
  name: string;
  rows: readonly string[];
  rowHeight: number;
  contenders: readonly string[];
  label: string;
  line: number;
  marks: PlotOptions["marks"];
}

/** Return the chart with its legend. */
export function rowChart({ name, rows, rowHeight, contenders, label, line, marks }: Rows): HTMLElement {
  const left = Math.min(MOST_OF_NAMES, 20 + OF_LETTER * Math.max(...rows.map((row) => row.length)));
  return h(
    "div",
    null,
    chart(name, {
      width: width(1100, left + 320),
      height: 60 + rows.length * rowHeight,
      marginLeft: left,
      marginRight: 24,
      marginBottom: 40,
      x: { type: "log", label, grid: true, tickFormat: (tick: number) => short(tick), nice: true },
      y: { domain: [...rows], label: null, tickFormat: (row: string) => cut(row, left) },
      ...scales(contenders),
      marks: [ruleX([line], { strokeDasharray: "4 3" }), ...(marks ?? [])],
    }),
    legend(contenders),
  );
}

/** Return the name of a row, cut where it needs more than the pixels that there are. */
function cut(row: string, left: number): string {
  return row.length * OF_LETTER > left - 16 ? `${row.slice(0, Math.floor(left / OF_LETTER) - 4)}…` : row;
}
