/** What somebody may have meant whose search finds nothing. */

import type { Model } from "../model";
import { search } from "./compile";
import { nearest } from "./nearest";
import { parse, written } from "./parse";

const MOST = 3;

export interface Suggestion {
  q: string;
  cells: number;
}

/** Return searches near a search that find something: with the nearest name for a word, or without one of its terms. */
export function suggestions(model: Model, query: string): Suggestion[] {
  const terms = parse(query).terms;
  const { lanes, ops, states } = model.overview;
  const names = new Set(
    [...lanes.keys()]
      .flatMap((lane) => model.wordsOfLane(lane).split(/[\s/]+/))
      .concat(
        ops.flatMap((op) => [op.op, op.direction]),
        states.map((state) => state.name),
      ),
  );
  const others = terms.flatMap((term, place) => {
    const near =
      term.key === "" && search(model, term.text).cells.length === 0 ? nearest(term.values[0]!, [...names]) : "";
    const rest = terms.map((one) => one.text);
    return [
      near ? rest.map((text, index) => (index === place ? written(near) : text)) : [],
      rest.filter((_, index) => index !== place),
    ];
  });
  return [...new Set(others.map((one) => one.join(" ")))]
    .filter((q) => q !== "")
    .map((q) => ({ q, cells: search(model, q).cells.length }))
    .filter(({ cells }) => cells > 0)
    .slice(0, MOST);
}
