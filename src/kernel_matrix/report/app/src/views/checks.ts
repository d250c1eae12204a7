/** The checks: sanitizers, searches for failing cases. A column for each check on each machine. */

import type { Context, View } from "../context";
import type { Check, CheckedCell, ChecksData, Finding } from "../data";
import { h, inSteps, table, type Child } from "../dom";
import { later } from "../later";
import { toHash } from "../link";
import { load } from "../load";
import { moment } from "../numbers";
import { beginning, block, commitOf } from "../text";

interface Line {
  cell: string;
  /** By column, the newest check of the cell, and what it did. */
  by: Map<string, { check: Check; of: CheckedCell }>;
}

export function checksView(context: Context): View {
  if (!context.model.overview.has.includes("checks")) {
    return { element: h("p", null, "These data have no other checks than the cases, such as sanitizers.") };
  }
  return {
    element: later(
      () => load("checks"),
      (data) => shown(context, data),
      "the checks",
    ),
  };
}

const column = (check: Check): string => `${check.name} on ${check.machine}`;

/** Return the notes of all checks of a column, each once. */
function notesOf(checks: readonly Check[], name: string): string {
  return [...new Set(checks.filter((check) => column(check) === name).map((check) => check.note))].join(" ").trim();
}

function shown(context: Context, data: ChecksData): HTMLElement {
  const lines = linesOf(data.checks).filter((line) => isAsked(context, line.cell));
  const columns = [...new Map(data.checks.map((check) => [column(check), check]))];
  const findings = data.checks.flatMap((check) => check.findings.map((one) => ({ check, one })));
  const first = new Map(findings.map(({ check, one }) => [kindOf(check, one), { check, one }]));
  return h(
    "div",
    { "data-test": "checks" },
    h("h2", null, "Other checks than the cases"),
    h(
      "p",
      { class: "dim" },
      "A check runs kernels to find what right numbers do not show. It makes no cell green, and a cell without a number here was not checked.",
    ),
    h(
      "ul",
      null,
      columns.map(([name, check]) =>
        h(
          "li",
          null,
          h("b", null, name),
          `: ${check.sees}. ${check.program}, commit `,
          h("code", null, commitOf(check.commit)),
          `, ${moment(check.when)} UTC. ${notesOf(data.checks, name)}`,
        ),
      ),
    ),
    lines.length === 0
      ? h("p", null, "No checked cell is in this search.")
      : table<Line>(
          "cells by check",
          [
            {
              title: "cell",
              header: true,
              wide: true,
              cell: (line) =>
                h(
                  "a",
                  { href: toHash({ ...context.place, view: "grid", cell: line.cell, case: "" }) },
                  h("code", null, line.cell),
                ),
            },
            ...columns.map(([name]) => ({ title: name, cell: (line: Line): Child => square(line.by.get(name)?.of) })),
          ],
          lines,
          "checked-cells",
        ),
    first.size > 0 && h("h2", null, "Findings"),
    inSteps(
      [...first.values()],
      20,
      (part) =>
        h(
          "div",
          null,
          part.map(({ check, one }) => findingPart(context, check, one)),
        ),
      "findings",
    ),
  );
}

function linesOf(checks: readonly Check[]): Line[] {
  const lines = new Map<string, Line>();
  for (const check of checks) {
    for (const of of check.cells) {
      const line = lines.get(of.cell) ?? { cell: of.cell, by: new Map() };
      line.by.set(column(check), { check, of });
      lines.set(of.cell, line);
    }
  }
  return [...lines.values()];
}

/** Return whether the search finds the cell; one that is in no plan any more is found by a search for nothing. */
function isAsked(context: Context, cell: string): boolean {
  const place = context.model.find(cell);
  return place < 0 ? context.place.q === "" : context.found.mask[place] === 1;
}

function square(of: CheckedCell | undefined): Child {
  if (of === undefined) return h("span", { class: "dim", title: "this check has not tried the cell" }, "·");
  const clean = of.tried - of.found - of.explained;
  const parts: Child[] = [
    of.found > 0 && h("span", { class: "verdict v-changed" }, `${of.found} with a finding`),
    of.unfinished > 0 && h("span", { class: "verdict v-missing" }, `${of.unfinished} without an end`),
    of.explained > 0 && h("span", { class: "verdict v-known" }, `${of.explained} explained`),
    clean > 0 && h("span", { title: "cases in which nothing was found" }, `${clean} clean`),
    of.untried > 0 && h("span", { class: "dim", title: "the time of the check was over" }, `${of.untried} not tried`),
  ].filter(Boolean);
  return parts.flatMap((part, place) => (place === 0 ? [part] : [", ", part]));
}

/** Return what findings have in common that are shown once. */
function kindOf(check: Check, one: Finding): string {
  return [column(check), one.kernel, one.text.split("\n", 1)[0], one.explained].join("\n");
}

function findingPart(context: Context, check: Check, one: Finding): HTMLElement {
  const cell = one.case.split("/").slice(0, 4).join("/");
  return h(
    "section",
    null,
    h("h3", null, `${check.name}: ${beginning(one.text.split("\n", 1)[0] ?? "", 120)}`),
    h(
      "p",
      null,
      h("a", { href: toHash({ ...context.place, view: "grid", cell, case: "" }) }, h("code", null, one.case)),
      one.kernel !== "" && [", kernel ", h("code", null, beginning(one.kernel, 200))],
      one.line !== "" && [", ", h("code", null, one.line)],
    ),
    one.explained !== "" && h("p", { class: "note" }, h("b", null, "Explained: "), one.explained),
    block(one.text, `finding in ${one.case}`, 1200),
  );
}
