/** From a cell to what its kernel said, and to the line that speaks. */

import type { Context } from "../context";
import type { Cell } from "../data";
import { h, outside } from "../dom";
import { caseLink } from "./cases";
import type { Result } from "./result";

// A compiler's error, the frame of a short traceback, and the frame of Python's own.
const COMPILED =
  /(?:^|\s)((?:\.\/)?[\w./-]+\.(?:cuh?|cc?|cpp|cxx|h|hpp|hip|cl))[:(](\d{1,6})[:)](?:\d*:)? ?(?:fatal )?error/gm;
const SHOWN = /^(?:\.\/)?([\w./-]+\.py):(\d{1,6}): /gm;
const TRACED = /File "(?:\.\/)?([^"\n]+\.py)", line (\d{1,6})/g;

/** Return the line that a text of an error speaks of: the first of a compiler, else the innermost of a traceback outside of installed packages. */
export function lineOf(text: string): { file: string; line: string } | null {
  const [compiled, shown, traced] = [COMPILED, SHOWN, TRACED].map((pattern) =>
    [...text.matchAll(pattern)].map(([, file, line]) => ({ file: file!, line: line! })),
  );
  const own = [...compiled!.slice(0, 1), ...shown!.reverse(), ...traced!.reverse()];
  return own.find(({ file }) => !/site-packages|dist-packages|\/lib\/python/.test(file)) ?? null;
}

/** Return where the first case in the cell's state says more: its line, what it said, and the log of its job. */
export function logPart(context: Context, cell: Cell, all: readonly Result[]): HTMLElement | null {
  const { repository } = context.model.overview;
  const one = all.find((each) => each.state === cell.state && each.detail !== "");
  if (!one) return null;
  const found = lineOf(one.detail);
  const commit = (one.job["commit"] ?? "").split("+")[0]!;
  const at = found && `${found.file}:${found.line}`;
  const inside = found && !found.file.startsWith("/") && !found.file.includes("..");
  const address = `${repository}/blob/${encodeURIComponent(commit)}/${found?.file}#L${found?.line}`;
  return h(
    "p",
    { "data-test": "log" },
    at && ["At ", repository !== "" && commit !== "" && inside ? outside(address, at) : h("code", null, at), ". "],
    "What it said: ",
    caseLink(context, cell.id, one.name),
    one.job["job"] && [
      ". The log of its job is ",
      h("code", null, `build/jobs/${one.job["job"]}/log.txt`),
      " on the machine that ran it",
    ],
    ".",
  );
}
