/** What the suite's own comparisons see of known faults, and which line lets what through. */

import type { Cell, ComparingLine } from "../data";
import { h } from "../dom";
import { outOf, plural } from "../numbers";

const MOST = 8;

export function comparedPart(cell: Cell): HTMLElement | null {
  const { comparisons } = cell;
  if (!comparisons) return null;
  const { seen, faults, lines, cases } = comparisons;
  const blind = (cell.cases.held ?? 0) + (cell.cases.pass ?? 0) - cases;
  const more = lines.slice(MOST);
  return h(
    "div",
    { "data-test": "comparisons" },
    h(
      "p",
      null,
      h("b", null, `Its comparisons see ${outOf(seen, faults)} known faults`),
      ", which were put into copies of the results.",
      blind > 0 &&
        ` ${plural(blind, "test")} compared nothing that can be asked: (a - b).abs().max() < tol is a number by then.`,
    ),
    h("ul", null, lines.slice(0, MOST).map(item)),
    more.length > 0 &&
      h("details", null, h("summary", null, `${plural(more.length, "more line")}`), h("ul", null, more.map(item))),
  );
}

function item(line: ComparingLine): HTMLElement {
  const { at, call, allows, at_least, budget } = line;
  return h(
    "li",
    null,
    h("code", null, at),
    ` (${call}) sees ${outOf(line.seen, line.faults)}`,
    line.lets_through.length > 0 && `; it lets through ${line.lets_through.join(", ")}`,
    ".",
    allows === "inf" && " It allows anything: one element may be any number.",
    allows !== null &&
      Number(allows) > Number(budget) &&
      ` One element may be off by ${at_least ? "at least " : ""}${allows}${budget === null ? "" : `; four times the noise here is ${budget}`}.`,
  );
}
