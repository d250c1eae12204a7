/** The toolchains: what probes ask of them, and every version that a sweep has tried. */

import type { Context, View } from "../context";
import type { Family, Pair, ProbeLine, SweepView, SweptVersion, Toolchains } from "../data";
import { h, inSteps, table, type Child } from "../dom";
import { later } from "../later";
import { load } from "../load";
import { plural } from "../numbers";
import { parse } from "../search/parse";
import { pattern } from "../search/match";
import { pill } from "../states";
import { beginning, block } from "../text";
import { pinPart } from "./pin";

const STAGES = ["resolve", "install", "import"];
const SIGNS: Record<string, string> = { works: "✓", known: "!", changed: "≠", unavailable: "·", missing: "?" };
const PAIR_SIGNS: Record<string, string> = { works: "✓", fails: "!", import: "✗", install: "✗" };

export function toolchainsView(context: Context): View {
  if (!context.model.overview.has.includes("toolchains")) {
    return { element: h("p", null, "These data have no probes and no sweeps of toolchains.") };
  }
  return {
    element: later(
      () => load("toolchains"),
      (view) => shown(context, view),
      "the toolchains",
    ),
  };
}

/** Return a test for the words and the toolchains of the search: the other terms are of cells. */
function asked(context: Context): (text: string, toolchains: readonly string[]) => boolean {
  const terms = parse(context.place.q).terms.filter((term) => ["", "toolchain", "backend"].includes(term.key));
  const tests = terms.map((term) => {
    const patterns = term.values.map((value) => pattern(value, false));
    return (text: string, toolchains: readonly string[]): boolean => {
      const texts = term.key === "" ? [text, ...toolchains] : toolchains;
      return texts.some((one) => patterns.some((test) => test.test(one))) !== term.negative;
    };
  });
  return (text, toolchains) => tests.every((test) => test(text, toolchains));
}

function shown(context: Context, view: Toolchains): HTMLElement {
  const matches = asked(context);
  const families = view.families
    .map((family) => ({
      ...family,
      probes: family.probes.filter((probe) =>
        matches(`${family.name} ${probe.id} ${probe.asks} ${probe.truth}`, Object.keys(probe.verdicts)),
      ),
    }))
    .filter((family) => family.probes.length > 0);
  const sweeps = view.sweeps.filter((sweep) => matches(`${sweep.package} ${sweep.title}`, [sweep.package]));
  return h(
    "div",
    { "data-test": "toolchains" },
    h("h2", null, "Probes"),
    h(
      "p",
      { class: "dim" },
      "A probe is a small program that asks one question of a toolchain. ",
      h("b", null, "works"),
      ": what it asks for holds. ",
      h("b", null, "known"),
      ": it fails exactly as expected of this version, and the project lives with it. ",
      h("b", null, "changed"),
      `: neither, so somebody must look. ${view.headline}`,
    ),
    families.length === 0 && h("p", null, "No probe is in this search."),
    families.map(familyTable),
    h("h2", null, "Versions"),
    sweeps.length === 0 && h("p", null, "No sweep is in this search."),
    sweeps.map(sweepPart),
    pinPart(context, view),
  );
}

function verdict(name: string, reason = ""): HTMLElement {
  return h(
    "span",
    { class: `verdict v-${name}`, title: beginning(reason || name, 300) },
    h("span", { "aria-hidden": "true" }, SIGNS[name] ?? "?", " "),
    name,
  );
}

function familyTable(family: Family): HTMLElement {
  return h(
    "section",
    null,
    h("h3", null, family.name),
    table<ProbeLine>(
      `probes of ${family.name}`,
      [
        {
          title: "question",
          header: true,
          wide: true,
          cell: (probe) => h("details", null, h("summary", null, probe.asks), probeBody(probe)),
        },
        ...family.toolchains.map((name) => ({
          title: name,
          cell: (probe: ProbeLine): Child => {
            const one = probe.verdicts[name];
            return one
              ? verdict(one.verdict, one.reason)
              : h("span", { class: "dim", title: "not asked of this toolchain" }, "·");
          },
        })),
      ],
      family.probes,
      `family-${family.name}`,
    ),
  );
}

function probeBody(probe: ProbeLine): Child[] {
  return [
    h("p", null, h("b", null, "What it was: "), probe.truth),
    h(
      "p",
      { class: "dim" },
      `A pass means: ${probe.means} Met in ${probe.met}.${probe.needs.length > 0 ? ` Needs ${probe.needs.join(", ")}.` : ""} `,
      h("code", null, `probes/${probe.id}.py`),
    ),
    ...Object.entries(probe.verdicts)
      .filter(([, one]) => one.error !== "" || one.verdict !== "works")
      .flatMap(([name, one]): Child[] => [
        h(
          "p",
          null,
          h("b", null, name),
          `: ${one.verdict}${one.reason !== "" && one.error === "" ? `: ${beginning(one.reason, 600)}` : ""}`,
        ),
        one.error !== "" && block(one.error, `error of ${name}`, 1200),
        one.error !== "" &&
          one.diagnosis.cause !== "" &&
          (one.diagnosis.rule !== "" || one.verdict === "changed") &&
          h(
            "p",
            { class: "note" },
            h("b", null, "Cause: "),
            one.diagnosis.cause,
            one.diagnosis.remedy !== "" && [h("br"), h("b", null, "Remedy: "), one.diagnosis.remedy],
          ),
      ]),
  ];
}

function sweepPart(sweep: SweepView): HTMLElement {
  const attempts = () => inSteps(sweep.attempts, 60, (part) => attemptsTable(sweep, part), "attempts");
  return h(
    "section",
    { id: `window-${sweep.title}` },
    h("h3", null, sweep.grid ? `${sweep.package} beside ${sweep.grid.beside}` : `Versions of ${sweep.package}`),
    h(
      "p",
      { class: "dim" },
      `One environment per ${sweep.grid ? "pair" : "version"}, made from the published wheels`,
      sweep.case !== "" && ["; the operator is ", h("code", null, sweep.case)],
      `. ${sweep.created.slice(0, 10)}.`,
    ),
    sweep.grid
      ? [
          pairs(sweep),
          h(
            "details",
            null,
            h(
              "summary",
              null,
              `Every pair (${plural(sweep.attempts.length, "attempt")}), with its lock, its error and the cause`,
            ),
            attempts(),
          ),
        ]
      : [attempts(), questions(sweep)],
  );
}

function pairs(sweep: SweepView): HTMLElement {
  const grid = sweep.grid!;
  const sign = (one: Pair | undefined, version: string, beside: string): Child =>
    one
      ? h(
          "span",
          {
            class: `tick p-${one.state}`,
            title: `${version} + ${beside}: ${one.state}. ${beginning(one.reason, 300)}`,
          },
          PAIR_SIGNS[one.state] ?? "–",
        )
      : h("span", { class: "dim" }, "·");
  return h(
    "div",
    null,
    table<[string, { [beside: string]: Pair }]>(
      `${sweep.package} beside ${grid.beside}`,
      [
        { title: sweep.package, header: true, cell: ([version]) => version },
        ...grid.columns.map((beside) => ({
          title: beside,
          cell: ([version, cells]: [string, { [beside: string]: Pair }]) => sign(cells[beside], version, beside),
        })),
      ],
      Object.entries(grid.cells),
    ),
    h(
      "p",
      { class: "dim" },
      "✓ imports, and does what its probes ask (",
      sweep.probes.flatMap((probe, index): Child[] => [index > 0 && ", ", h("code", null, probe.id)]),
      "). ! imports, and fails one of them. ✗ does not import. – the wheel's own pins exclude it.",
    ),
  );
}

function attemptsTable(sweep: SweepView, attempts: readonly SweptVersion[]): HTMLElement {
  return table<SweptVersion>(
    `attempts of ${sweep.package}`,
    [
      {
        title: "version",
        header: true,
        cell: (one) =>
          h(
            "details",
            null,
            h(
              "summary",
              null,
              one.version,
              one.pins !== "" && ` + ${one.pins}`,
              one.picked !== "" && h("span", { class: "dim" }, ` picks ${one.picked}`),
            ),
            one.cause !== "" &&
              h(
                "p",
                { class: "note" },
                h("b", null, "Cause: "),
                one.cause,
                h("br"),
                h("b", null, "Remedy: "),
                one.remedy,
              ),
            block(one.lock.join("\n"), "lock"),
          ),
      },
      ...STAGES.map((stage, place) => ({
        title: `${stage}s`,
        cell: (one: SweptVersion): Child => {
          const stopped = STAGES.indexOf(one.stopped);
          if (stopped === place) return h("span", { class: "tick p-import", title: "stopped here" }, "✗");
          return stopped >= 0 && stopped < place
            ? h("span", { class: "dim", title: "not reached" }, "·")
            : h("span", { class: "tick p-works" }, "✓");
        },
      })),
      {
        title: "probes",
        cell: (one) =>
          Object.entries(one.counts)
            .map(([name, count]) => `${count} ${name}`)
            .join(", ") || "·",
      },
      { title: "operator", cell: (one) => (one.op ? pill(one.op.state) : "·") },
      {
        title: "where it stopped",
        wide: true,
        cell: (one) => [
          beginning(one.message, 220),
          one.cause !== "" && [h("br"), h("span", { class: "dim" }, one.cause)],
        ],
      },
    ],
    attempts,
  );
}

/** Return what each version answered to each question. */
function questions(sweep: SweepView): HTMLElement | null {
  const probed = sweep.attempts.filter((one) => !STAGES.includes(one.stopped));
  if (sweep.probes.length <= 2 || probed.length === 0) return null;
  return h(
    "div",
    null,
    table(
      `questions to the versions of ${sweep.package}`,
      [
        { title: "question", header: true, wide: true, cell: (probe) => probe.asks },
        ...probed.map((attempt) => ({
          title: h("span", null, attempt.version, attempt.pins !== "" && [h("br"), attempt.pins]),
          cell: (probe: { id: string }): Child => {
            const one = attempt.probes[probe.id];
            return one
              ? h(
                  "span",
                  {
                    class: `tick v-${one.verdict}`,
                    title: `${attempt.version}: ${one.verdict}. ${beginning(one.reason, 200)}`,
                  },
                  SIGNS[one.verdict] ?? "?",
                )
              : "·";
          },
        })),
      ],
      sweep.probes,
    ),
    h("p", { class: "dim" }, "✓ works, ! fails as known, ≠ changed, · not asked of this version."),
  );
}
