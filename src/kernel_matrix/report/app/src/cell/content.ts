/** What the panel says of a cell, in the order of a newcomer's questions: does it work, why not, how to repeat it, how exact, how fast. */

import type { Context } from "../context";
import type { Cell, CellChunk, CellDetail, Determinism, Toolchains } from "../data";
import { facts, h, type Child } from "../dom";
import { toHash } from "../link";
import { daysSince, moment, outOf, plural } from "../numbers";
import { written } from "../search/parse";
import { meaning, pill } from "../states";
import { beginning, block, command } from "../text";
import { withToolchains } from "../views/asked";
import { useFor } from "../views/pin";
import { casesPart } from "./cases";
import { comparedPart } from "./compared";
import { costPart } from "./cost";
import { diagnosed } from "./diagnosis";
import { exactPart } from "./exact";
import { logPart } from "./log";
import { pastPart } from "./past";
import { results, type Result } from "./result";

export function content(
  context: Context,
  place: number,
  detail: CellDetail,
  chunk: CellChunk,
  name: string,
): HTMLElement {
  const all = results(detail, chunk, context.model.overview);
  const { cell } = detail;
  return h(
    "div",
    { class: "cell", "data-open-cell": cell.id },
    answer(context, place, cell),
    logPart(context, cell, all),
    h("h3", null, "Repeat it"),
    command(cell.repeat),
    circumstances(context, place, cell, all),
    exactPart(context, cell, all),
    costPart(context, place, cell, all),
    pastPart(context, cell),
    casesPart(context, cell, all, name),
  );
}

function answer(context: Context, place: number, cell: Cell): HTMLElement {
  const journal = context.model.inJournal(place);
  const lacking = ["ran", "held"].includes(cell.evidence) ? "" : context.model.lacking(context.model.lane(place));
  return h(
    "div",
    null,
    h(
      "p",
      { class: "answer" },
      pill(cell.state, cell.stale_cases > 0),
      ` ${meaning(context.model, cell.state)}. Evidence: `,
      h("b", null, cell.evidence),
      ".",
      cell.emulated > 0 && [" ", h("b", null, "Emulated"), `: ${outOf(cell.emulated, cell.planned)}.`],
    ),
    h(
      "p",
      null,
      Object.entries(cell.cases).map(
        ([state, count], index) => `${index > 0 ? ", " : ""}${outOf(count ?? 0, cell.planned)} ${state}`,
      ),
      ".",
      cell.stale_cases > 0 && ` ${outOf(cell.stale_cases, cell.planned)} stale.`,
    ),
    journal > 0 &&
      h("p", { class: "note" }, `Its job runs now: the job's journal has ${outOf(journal, cell.planned)} cases.`),
    cell.stale !== "" && h("p", { class: "note" }, h("b", null, "Stale: "), beginning(cell.stale, 2000)),
    cell.checks.map((text) =>
      h("p", { class: "note", "data-test": "watched" }, h("b", null, "Watched: "), beginning(text, 2000)),
    ),
    comparedPart(cell),
    cell.reason !== "" &&
      (cell.reason.length > 300 || cell.reason.includes("\n")
        ? block(cell.reason, "reason")
        : h("p", { "data-test": "reason" }, beginning(cell.reason, 400))),
    lacking !== "" &&
      h("p", { class: "note", "data-test": "lacking" }, h("b", null, "Why no more is known: "), lacking),
    cell.error !== "" && [h("h3", null, "Exact error"), block(cell.error, "exact error")],
    diagnosed(cell.diagnosis),
  );
}

function circumstances(context: Context, place: number, cell: Cell, all: readonly Result[]): HTMLElement {
  const { history } = context.model.laneOf(place);
  const jobs = (name: string): string =>
    [...new Set(all.map((one) => one.job[name] ?? "").filter((value) => value !== ""))].slice(0, 6).join("; ");
  const silent = history.silent_since
    ? `since ${moment(history.silent_since)} UTC, ${plural(Math.max(0, Math.floor(daysSince(history.silent_since, Date.now()))), "day")}`
    : "";
  const versions: Child[] = Object.entries(cell.versions).map(
    ([name, values], index) => `${index > 0 ? ", " : ""}${name} ${values.join(" and ")}`,
  );
  const commits = jobs("commit");
  return h(
    "div",
    null,
    h("h3", null, "Where, when and with what"),
    facts([
      ["device", jobs("device")],
      ["driver", jobs("driver")],
      ["commit", commits],
      ["started", [...new Set(all.map((one) => moment(one.job["started"])).filter(Boolean))].slice(0, 4).join("; ")],
      ["last result of its lane", history.last_result ? `${moment(history.last_result)} UTC` : "never"],
      ["its lane is silent", silent],
      ["executor", jobs("executor")],
      ["image", jobs("image") || jobs("image.id") || jobs("image.digest")],
      ["versions", versions.length > 0 && versions],
      ["lock file", cell.lock],
      ["version to pin", toPin(context, place)],
      ["code", cell.artifact ? cell.artifact.kinds.join(", ") : ""],
      [
        "canaries",
        cell.canaries ? `${outOf(cell.canaries.caught, cell.canaries.injected)} injected faults were found` : "",
      ],
      ["determinism", repeated(cell.determinism)],
    ]),
  );
}

/** Return which version of the cell's toolchain to use on its target, and a link to all that were tried. */
function toPin(context: Context, cell: number): Child {
  const { model, place } = context;
  const backend = model.overview.backends[model.lane(cell)]!;
  const { target, toolchain } = model.laneOf(cell);
  const q = `backend:${written(backend)}`;
  const all = h(
    "a",
    { href: toHash({ ...place, view: "toolchains", q, cell: "", case: "" }) },
    `versions of ${backend}`,
  );
  const show = (view: Toolchains): HTMLElement =>
    h("span", { "data-test": "pin" }, useFor(model, view, backend, target) || `the lock of ${toolchain}`, ". ", all);
  return withToolchains(context, show);
}

/** Return whether the kernel gave the same bits when it ran again on the same inputs; nothing where no case ran twice. */
function repeated(determinism: Determinism | null): Child {
  if (!determinism) return "";
  const { differing, repeats } = determinism;
  return differing === 0
    ? `the same bits in ${plural(repeats, "repeat")}`
    : h("b", { class: "odd", "data-test": "differs" }, `other bits in ${outOf(differing, repeats)} repeats`);
}
