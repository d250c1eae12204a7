/** The address of a view: everything that the page shows stands after the `#`. */

import { GROUPINGS, type Grouping } from "./layout";

export type ViewName =
  "grid" | "gaps" | "accuracy" | "speed" | "compare" | "toolchains" | "checks" | "history" | "machines" | "help";
export const VIEWS: readonly ViewName[] = [
  "grid",
  "gaps",
  "accuracy",
  "speed",
  "compare",
  "toolchains",
  "checks",
  "history",
  "machines",
  "help",
];

/** The groups that are folded: those in `except` are the other way. */
export interface Folding {
  all: boolean;
  except: readonly string[];
}

export interface Place {
  view: ViewName;
  /** The search. */
  q: string;
  /** The id of the open cell; empty if none is open. */
  cell: string;
  /** The name of the open case in the cell. */
  case: string;
  dtype: string;
  /** Of the comparison: the toolchain that is compared, and with which. */
  mine: string;
  rival: string;
  group: Grouping;
  /** Null: as the page thinks best for the number of cells. */
  fold: Folding | null;
}

export const START: Place = {
  view: "grid",
  q: "",
  cell: "",
  case: "",
  dtype: "",
  mine: "",
  rival: "",
  group: "vendor",
  fold: null,
};

/** Return the place that a hash names. What it does not know is left out. */
export function fromHash(hash: string): Place {
  const text = hash.replace(/^#/, "");
  const [head, ...rest] = text.split("?");
  const view = VIEWS.find((name) => name === head);
  if (view === undefined && !text.includes("?")) {
    // A link to a cell, as summaries and issues have them: #PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION
    const cell = decoded(text);
    return cell.split("/").length === 4 ? { ...START, cell } : START;
  }
  const values = new URLSearchParams(rest.join("?"));
  const get = (name: string): string => values.get(name) ?? "";
  return {
    view: view ?? START.view,
    q: get("q"),
    cell: get("cell"),
    case: get("case"),
    dtype: get("dtype"),
    mine: get("mine"),
    rival: get("rival"),
    group: GROUPINGS.find((name) => name === get("group")) ?? usual(values.has("fold")),
    fold: values.has("fold") ? folding(get("fold")) : null,
  };
}

/** Return the hash of a place, without what is as at the start. */
export function toHash(place: Place): string {
  const values: [string, string][] = [];
  for (const name of ["q", "cell", "case", "dtype", "mine", "rival"] as const)
    if (place[name] !== "") values.push([name, place[name]]);
  if (place.group !== usual(place.fold !== null)) values.push(["group", place.group]);
  if (place.fold) values.push(["fold", [place.fold.all ? "all" : "none", ...place.fold.except].join(",")]);
  const text = values.map(([name, value]) => `${name}=${encoded(value)}`).join("&");
  return `#${place.view}${text ? `?${text}` : ""}`;
}

/** The grouping that an address does not name: platforms where it says which are folded, as older links do. */
function usual(folds: boolean): Grouping {
  return folds ? "platform" : START.group;
}

/** `all,cuda`: all but cuda are folded. `none,cuda`: only cuda is. */
function folding(text: string): Folding {
  const [first, ...except] = text.split(",");
  return { all: first === "all", except: except.filter((name) => name !== "") };
}

export function isFolded(fold: Folding, group: string): boolean {
  return fold.all !== fold.except.includes(group);
}

/** Return the folding with one group the other way. */
export function turned(fold: Folding, group: string): Folding {
  const except = fold.except.includes(group) ? fold.except.filter((name) => name !== group) : [...fold.except, group];
  return { all: fold.all, except };
}

/** Encode what has a meaning in the address, and leave it readable otherwise. */
function encoded(value: string): string {
  return encodeURIComponent(value)
    .replace(/%(2F|3A|2C|40)/g, decodeURIComponent)
    .replace(/%20/g, "+");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
