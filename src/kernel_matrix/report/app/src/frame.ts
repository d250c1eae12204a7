/** What stands above and below every view. */

import { h, type Child } from "./dom";
import type { Model } from "./model";
import { daysSince, moment, outOf, plural, short } from "./numbers";
import { beginning } from "./text";

const MOST = 6; // notices of a kind that stand open

export function header(model: Model): HTMLElement {
  const { run, headline, run_notes } = model.overview;
  return h(
    "header",
    null,
    h("h1", null, run.package, h("span", { class: "dim" }, " on every platform")),
    run_notes.running &&
      h(
        "p",
        { class: "note running", role: "status" },
        h("b", null, "This run still goes on. "),
        run_notes.running,
        " The page refreshes itself.",
      ),
    h("p", { class: "headline" }, headline),
    run_notes.kept && h("p", { class: "note" }, run_notes.kept),
  );
}

/** Return what a reader must know before the results: an old page, broken files, errors that nobody knows. */
export function notices(model: Model): HTMLElement {
  const { problems, undiagnosed, notes, stale, run } = model.overview;
  return h(
    "section",
    { class: "notices", "aria-label": "notices" },
    age(model),
    limited(
      problems,
      (problem) => h("p", { class: "problem" }, h("b", null, "Broken result. "), beginning(problem, 300)),
      "broken results",
    ),
    limited(
      undiagnosed,
      (error) =>
        h(
          "p",
          { class: "problem" },
          h("b", null, "Cause not known. "),
          `${plural(error.cases, "case")} in ${error.stage || "no stage"}: `,
          h("code", null, beginning(error.message, 300)),
        ),
      "errors whose cause is not known",
    ),
    limited(notes, (note) => h("p", { class: "dim" }, beginning(note, 400)), "notes"),
    stale.length > 0 &&
      h(
        "details",
        { class: "stale-reasons" },
        h("summary", null, `Why ${outOf(run.stale_cases, run.cases)} cases are stale`),
        h(
          "ul",
          null,
          stale.map((one) => h("li", null, `${plural(one.cases, "case")}: `, beginning(one.reason, 600))),
        ),
      ),
  );
}

function limited<T>(all: readonly T[], show: (one: T) => HTMLElement, noun: string): Child[] {
  if (all.length <= MOST) return all.map(show);
  return [
    ...all.slice(0, MOST).map(show),
    h("details", null, h("summary", null, `${all.length - MOST} more ${noun}`), all.slice(MOST, 1000).map(show)),
  ];
}

/** Return a warning where the page is old, or its clock was wrong. */
function age(model: Model): HTMLElement | null {
  const { run, silent_days } = model.overview;
  const days = daysSince(run.created, Date.now());
  if (days > silent_days) {
    return h(
      "p",
      { class: "problem", id: "old" },
      `This page is ${plural(Math.floor(days), "day")} old: nothing has been published since.`,
    );
  }
  if (days < -1 / 24) {
    return h(
      "p",
      { class: "problem", id: "future" },
      `This page was written at ${moment(run.created)} UTC, which is in the future by the clock of this computer. One of the two clocks is wrong.`,
    );
  }
  return null;
}

export function footer(model: Model): Child[] {
  const { run } = model.overview;
  const files: [string, string][] = [
    ["compat.json", "all data"],
    ["summary.md", "the table as text"],
    ["compat.csv", "the table for spreadsheets"],
    ["badge.svg", "the badge"],
  ];
  return [
    h(
      "p",
      null,
      `${run.tier} tier, ${run.cases} cases in ${run.cells} cells`,
      run.unplanned > 0 &&
        `; ${run.unplanned} results are of cases that the ${run.tier} tier does not plan, such as those of the full tier or of an earlier matrix: they count nowhere`,
      run.left_out > 0 && `; ${run.left_out} more were not asked for, or have not run`,
      `. Written ${moment(run.created)} UTC`,
      run.commits.length > 0 &&
        ` from commit ${run.commits.slice(0, 12).join(", ")}${run.commits.length > 12 ? " and others" : ""}`,
      `. Ran on: ${run.devices.slice(0, 20).join("; ") || "nothing"}${run.devices.length > 20 ? ` and ${short(run.devices.length - 20)} more devices` : ""}.`,
    ),
    h(
      "p",
      null,
      "Beside this page: ",
      files.flatMap(([name, what], index): Child[] => [index > 0 && ", ", h("a", { href: name }, name), ` (${what})`]),
      ".",
    ),
  ];
}
