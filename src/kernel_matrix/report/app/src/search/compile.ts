/** Terms of a search and the model -> which cells and which cases they mean. */

import type { Model } from "../model";
import { keyNamed } from "./keys";
import { compared, pattern, word, yes } from "./match";
import { nearest } from "./nearest";
import { asked, type Question } from "./questions";
import { parse, type Term } from "./parse";

export interface Found {
  /** 1 for each cell that matches. */
  mask: Uint8Array;
  /** The matching cells, in the order of the data. */
  cells: Int32Array;
  /** The places of the asked cases by op; null where the search names no cases. */
  places: readonly Int32Array[] | null;
  /** 1 for each state of cases that is asked for; null where the search names no cases. */
  states: Uint8Array | null;
  /** The one dtype that the search names; empty otherwise. */
  dtype: string;
  /** What the words ask that name nothing. */
  asks: ReadonlySet<Question>;
  problems: readonly string[];
}

type Test = (cell: number) => boolean;

const DETERMINISM = ["same", "differs", "once"];

/** Return the index into DETERMINISM of the number of runs that gave other bits. */
function determinism(differing: number | null): number {
  return differing === null ? 2 : differing > 0 ? 1 : 0;
}

/** Return what a search finds. A term that is wrong is left out and explained. */
export function search(model: Model, query: string): Found {
  const { terms: written, problems } = parse(query);
  const { named, asks } = asked(model, written);
  const terms = named.map((term) => ofState(model, ofDtype(model, term)));
  const said = [...problems];
  const places = casePlaces(model, terms, said);
  const dtype = dtypeOf(model, terms);
  const tests: Test[] = [];
  let states: Uint8Array | null = null;
  for (const term of terms) {
    if (keyNamed(term.key)?.kind === "case") continue;
    if (term.key === "state" && places) {
      states ??= new Uint8Array(model.stateNames.length).fill(1);
      const asked = matching(model.stateNames, term, "state", said);
      for (let state = 0; state < states.length; state++) {
        if ((asked[state] === 1) === term.negative) states[state] = 0;
      }
      continue;
    }
    const test = compiled(model, term, dtype, said);
    if (test) tests.push(term.negative ? (cell) => !test(cell) : test);
  }
  if (places) tests.push(hasCase(model, places, states));
  return { ...selected(model, tests), places, states, dtype, asks, problems: said };
}

const DTYPE = /^(bf|fp|int|uint|tf)\d+\w*$|^e\dm\d\w*$/i;
const DTYPES: Readonly<Record<string, string>> = {
  bfloat16: "bf16",
  half: "fp16",
  float16: "fp16",
  float: "fp32",
  float32: "fp32",
  double: "fp64",
  float64: "fp64",
};

/** Return a term for a dtype where a word names one, as people call it, that the name of a case has. */
function ofDtype(model: Model, term: Term): Term {
  const value = term.values[0]!;
  const dtype = DTYPES[value.toLowerCase()] ?? value;
  if (term.key !== "" || !DTYPE.test(dtype)) return term;
  const test = word(dtype);
  const has = model.overview.ops.some((op) => op.cases.some((name) => test.test(name)));
  return has ? { ...term, key: "dtype", values: [dtype.toLowerCase()] } : term;
}

/** Return a term with the names of the states that its words mean: other test runners call them otherwise. */
function ofState(model: Model, term: Term): Term {
  if (term.key !== "" && term.key !== "state") return term;
  const values = term.values.map((value) =>
    model.overview.states.filter((one) => one.elsewhere.includes(value.toLowerCase())).map(({ name }) => name),
  );
  if (values.every((names) => names.length === 0) || (term.key === "" && word(term.values[0]!).test(model.words)))
    return term;
  return {
    ...term,
    key: "state",
    values: values.flatMap((names, index) => (names.length ? names : term.values[index]!)),
  };
}

function selected(model: Model, tests: readonly Test[]): { mask: Uint8Array; cells: Int32Array } {
  const mask = new Uint8Array(model.size);
  const cells = new Int32Array(model.size);
  let count = 0;
  for (let cell = 0; cell < model.size; cell++) {
    if (tests.every((test) => test(cell))) {
      mask[cell] = 1;
      cells[count++] = cell;
    }
  }
  return { mask, cells: cells.subarray(0, count) };
}

/** Return 1 for each name that matches a term. Where none does, add a sentence that says which there are. */
function matching(names: readonly string[], term: Term, noun: string, problems: string[]): Uint8Array {
  const asked = new Uint8Array(names.length);
  for (const value of term.values) {
    const test = pattern(value, true);
    let any = false;
    names.forEach((name, index) => {
      if (test.test(name)) ((any = true), (asked[index] = 1));
    });
    if (!any)
      problems.push(
        unknown(
          value,
          [...new Set(names)].filter((name) => name !== ""),
          noun,
        ),
      );
  }
  return asked;
}

function unknown(value: string, names: readonly string[], noun: string): string {
  const part = names.filter((name) => name.toLowerCase().includes(value.toLowerCase()));
  const near = part.length > 0 ? (part.length === 1 ? part[0]! : `*${value}*`) : nearest(value, names);
  if (near) return `No ${noun} is '${value}'. Did you mean '${near}'?`;
  const listed = names.slice(0, 12).join(", ") + (names.length > 12 ? " and more" : "");
  return `No ${noun} is '${value}'. ${names.length > 0 ? `There are ${listed}.` : "None is in these data."}`;
}

function compiled(model: Model, term: Term, dtype: string, problems: string[]): Test | null {
  const { overview } = model;
  const { cells, lanes, ops } = overview;
  const ofLane = (name: (lane: number) => string): Test => {
    const asked = matching(
      lanes.map((_, lane) => name(lane)),
      term,
      term.key,
      problems,
    );
    return (cell) => asked[cells.lane[cell]!] === 1;
  };
  const ofOp = (names: readonly string[]): Test => {
    const asked = matching(names, term, term.key, problems);
    return (cell) => asked[cells.op[cell]!] === 1;
  };
  const ofText = (column: readonly number[], noun: string): Test => {
    const used = new Uint8Array(overview.texts.length);
    for (const text of column) used[text] = 1;
    const asked = matching(
      overview.texts.map((text, index) => (used[index] ? text : "")),
      term,
      noun,
      problems,
    );
    return (cell) => asked[column[cell]!] === 1 && overview.texts[column[cell]!] !== "";
  };
  const ofNumber = (column: ArrayLike<number>): Test | null => {
    const tests = term.values.map((value) => {
      const test = compared(value);
      if (!test)
        problems.push(
          `'${term.key}:${value}' compares with no number. Write ${keyNamed(term.key)!.example}, 0.9..1.1, inf or none.`,
        );
      return test;
    });
    const known = tests.filter((test) => test !== null);
    return known.length > 0 ? (cell) => known.some((test) => test(column[cell]!)) : null;
  };
  const ofYes = (holds: Test): Test | null => {
    const answers = term.values.map((value) => {
      const answer = yes(value);
      if (answer === null)
        problems.push(`'${term.key}:${value}' is neither yes nor no. Write ${term.key}:yes or ${term.key}:no.`);
      return answer;
    });
    const known = answers.filter((answer) => answer !== null);
    return known.length > 0 ? (cell) => known.includes(holds(cell)) : null;
  };
  switch (term.key) {
    case "op":
      return ofOp(ops.map((op) => op.op));
    case "direction":
      return ofOp(ops.map((op) => op.direction));
    case "vendor":
      return ofVendor(model, term, problems);
    case "platform":
      return ofLane((lane) => lanes[lane]!.platform);
    case "target":
      return ofLane((lane) => lanes[lane]!.target);
    case "toolchain":
      return ofLane((lane) => lanes[lane]!.toolchain);
    case "backend":
      return ofLane((lane) => overview.backends[lane] ?? "");
    case "state": {
      const asked = matching(model.stateNames, term, "state", problems);
      return (cell) => asked[cells.state[cell]!] === 1;
    }
    case "evidence": {
      const asked = matching(overview.evidence, term, "level of evidence", problems);
      return (cell) => asked[cells.evidence[cell]!] === 1;
    }
    case "stage":
      return ofText(cells.stage, "stage");
    case "rule":
      return ofText(cells.rule, "rule");
    case "reason": {
      const tests = term.values.map((value) => pattern(value, false));
      const asked = overview.texts.map((text) => text !== "" && tests.some((test) => test.test(text)));
      return (cell) => asked[cells.reason[cell]!] === true;
    }
    case "noise":
      return ofNumber((dtype && model.noiseByDtype.get(dtype)) || model.noise);
    case "budget":
      return ofNumber(model.share);
    case "speed":
      return ofNumber(model.speed);
    case "seconds":
      return ofNumber(cells.seconds);
    case "cases":
      return ofNumber(model.planned);
    case "stale":
      return ofYes((cell) => cells.stale[cell]! > 0);
    case "odd":
      return ofYes((cell) => cells.odd[cell] === true);
    case "determinism": {
      const asked = matching(DETERMINISM, term, "answer about determinism", problems);
      return (cell) => asked[determinism(cells.differing[cell]!)] === 1;
    }
    case "red":
      return ofYes((cell) => model.red[cells.state[cell]!] === true);
    default:
      return ofWord(model, pattern(term.values[0]!, false));
  }
}

/** Return a test for the vendor of the platform's devices: its name in matrix.yaml, or its name for people. */
function ofVendor(model: Model, term: Term, problems: string[]): Test {
  const { platforms } = model.overview;
  const tests = term.values.map((value) => pattern(value, true));
  const asked = platforms.map(({ name, vendor, vendor_title }) =>
    tests.some((test) => test.test(vendor || name) || test.test(vendor_title)),
  );
  term.values.forEach((value, index) => {
    if (!platforms.some(({ vendor, vendor_title }) => tests[index]!.test(vendor) || tests[index]!.test(vendor_title)))
      problems.push(unknown(value, [...new Set(platforms.map(({ vendor }) => vendor))], "vendor"));
  });
  return (cell) => asked[model.platformOfLane[model.lane(cell)]!] === true;
}

/**
 * Return a test for a word in the names of a cell: of its lane, its operator, its state. Where no name has the word,
 * the reasons, stages and rules are searched.
 */
function ofWord(model: Model, test: RegExp): Test {
  const { cells, lanes, ops, states, evidence, texts } = model.overview;
  const inLane = lanes.map((_, lane) => {
    const words = model.wordsOfLane(lane);
    return test.test(words) || test.test(words.replace(/[_-]/g, ""));
  });
  const inOp = ops.map((op) => test.test(`${op.op}.${op.direction} ${op.op} ${op.direction}`));
  const inState = states.map((state) => test.test(state.name));
  const inEvidence = evidence.map((level) => test.test(level));
  if ([inLane, inOp, inState, inEvidence].some((found) => found.includes(true)))
    return (cell) =>
      inLane[cells.lane[cell]!]! ||
      inOp[cells.op[cell]!]! ||
      inState[cells.state[cell]!]! ||
      inEvidence[cells.evidence[cell]!]!;
  const inText = texts.map((text) => text !== "" && test.test(text));
  return (cell) => [cells.reason, cells.stage, cells.rule].some((column) => inText[column[cell]!] === true);
}

/** Return the places of the cases that the search names, by op; null where it names none. */
function casePlaces(model: Model, terms: readonly Term[], problems: string[]): Int32Array[] | null {
  const named = terms.filter((term) => keyNamed(term.key)?.kind === "case");
  if (named.length === 0) return null;
  const tests = named.map((term) => ({
    negative: term.negative,
    patterns: term.values.map((value) => (term.key === "dtype" ? word(value) : pattern(value, false))),
    used: false,
    text: term.text,
  }));
  const places = model.overview.ops.map((op) => {
    const asked: number[] = [];
    op.cases.forEach((name, place) => {
      const all = tests.map((test) => {
        const matches = test.patterns.some((one) => one.test(name));
        if (matches) test.used = true;
        return matches !== test.negative;
      });
      if (all.every(Boolean)) asked.push(place);
    });
    return Int32Array.from(asked);
  });
  for (const test of tests) {
    if (!test.used) problems.push(`No name of a case matches ${test.text}.`);
  }
  return places;
}

function hasCase(model: Model, places: readonly Int32Array[], states: Uint8Array | null): Test {
  return (cell) => {
    for (const place of places[model.op(cell)]!) {
      const state = model.caseState(cell, place);
      if (state < model.stateNames.length && (!states || states[state] === 1)) return true;
    }
    return false;
  };
}

function dtypeOf(model: Model, terms: readonly Term[]): string {
  const named = terms.filter((term) => term.key === "dtype" && !term.negative);
  const value = named.length === 1 && named[0]!.values.length === 1 ? named[0]!.values[0]! : "";
  return model.noiseByDtype.has(value) ? value : "";
}
