/** Words of a search that ask a question of what is found, or only hold a sentence together. */

import type { Model } from "../model";
import { word } from "./match";
import type { Term } from "./parse";

/** Which version to use; what changed; which lanes are silent; why no more is known. */
export type Question = "pin" | "changed" | "silent" | "why";

const QUESTIONS: readonly [Question, RegExp][] = [
  ["pin", /^(pin|pins|pinned|versions?|locks?)$/i],
  ["changed", /^(worse|better|slower|faster|change[ds]?|broke|broken|regress\w*|since|history|week|when)$/i],
  ["silent", /^(silent|silence|dead|alive)$/i],
  ["why", /^(why|lacks?|lacking|needs?)$/i],
];
const FILLERS =
  /^(an?|and|are|at|can|did|do|does|for|from|gets?|got|how|i|in|is|it|its|lanes?|me|my|not?|of|on|or|our|gpus?|so|than|that|the|this|to|use|was|we|what|where|which|who|with|works?|you)$/i;

/** Return the terms that name something, and the questions that the other words ask. */
export function asked(model: Model, terms: readonly Term[]): { named: Term[]; asks: ReadonlySet<Question> } {
  const asks = new Set<Question>();
  const named = terms.filter((term) => {
    const text = term.key === "" && !term.negative ? term.values[0]!.replace(/[?!.,]+$/, "") : "";
    const question = QUESTIONS.find(([, words]) => words.test(text));
    if (text === "" || !(question ?? FILLERS.test(text)) || word(text).test(model.words)) return true;
    if (question) asks.add(question[0]);
    return false;
  });
  return { named: named.map((term) => ofVendor(model, term)), asks };
}

/** Return a term for a vendor where a word is its name, or a part of it: a host's device of that vendor is none of its GPUs. */
function ofVendor(model: Model, term: Term): Term {
  if (term.key !== "") return term;
  const is = word(term.values[0]!);
  const found = model.overview.platforms.filter(({ vendor, vendor_title }) => is.test(`${vendor} ${vendor_title}`));
  return found.length === 0 ? term : { ...term, key: "vendor", values: [...new Set(found.map((one) => one.vendor))] };
}
