/** The toolchains: what probes ask of them, and every version that a sweep has tried. */

import type { Context, View } from "../context";
import type { Change, Family, Pair, ProbeLine, SweepView, SweptCase, SweptVersion, Toolchains } from "../data";
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
    pinPart(context, view),
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
    view.warnings.map((text) =>
      h("p", { class: "note", "data-test": "warning" }, h("b", null, "Early warning: "), text),
    ),
    sweeps.length === 0 && h("p", null, "No sweep is in this search."),
    sweeps.map(sweepPart),
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
    h("h3", null, sweep.grid ? `${sweep.package} with ${sweep.grid.beside}` : `Versions of ${sweep.package}`),
    h(
      "p",
      { class: "dim" },
      `One environment per ${sweep.grid ? "pair" : "version"}, made from the published wheels`,
      sweep.case !== "" && ["; the cases are ", h("code", null, sweep.case)],
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
      : [attempts(), questions(sweep), differences(sweep)],
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
      `${sweep.package} with ${grid.beside}`,
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
      { title: "cases", cell: (one) => states(one) },
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

/** Return how many cases of an attempt are in which state. */
function states(one: SweptVersion): Child {
  const counts = new Map<string, number>();
  for (const { state } of Object.values(one.cases)) counts.set(state, (counts.get(state) ?? 0) + 1);
  if (counts.size === 0) return "·";
  return [...counts].flatMap(([state, count]): Child[] => [pill(state), count > 1 ? ` ${count} ` : " "]);
}

const WORDS: Record<string, string> = {
  bits: "other bits",
  spill_bytes: "bytes of spills",
  spilled_registers: "spilled registers",
  shared_bytes: "bytes of shared memory",
  stack_bytes: "bytes of stack",
  bytes: "bytes of code",
};

/** Return from which version on something differs, and the cases with what their code needs in each version. */
function differences(sweep: SweepView): HTMLElement | null {
  const tried = sweep.attempts.filter((one) => one.pins === "" && Object.keys(one.cases).length > 0);
  if (tried.length < 2) return null;
  const names = [...new Set(tried.flatMap((one) => Object.keys(one.cases)))].sort();
  return h(
    "div",
    { "data-test": "differences" },
    h("h4", null, "From which version on something differs"),
    sweep.changes.length === 0 && h("p", null, "Nothing differs."),
    h("ul", null, sweep.changes.map(changed)),
    h(
      "details",
      null,
      h("summary", null, `${plural(names.length, "case")}, side by side`),
      inSteps(
        names,
        60,
        (part) =>
          table<string>(
            `cases by version of ${sweep.package}`,
            [
              { title: "case", header: true, wide: true, cell: (name) => h("code", null, name) },
              ...tried.map((one, place) => ({
                title: one.version,
                cell: (name: string): Child => needs(one.cases[name], tried[place - 1]?.cases[name]),
              })),
            ],
            part,
          ),
        "cases",
      ),
      h(
        "p",
        { class: "dim" },
        "State, registers, spills (bytes on NVIDIA, registers on AMD) and bytes of shared memory, or LDS; bold where one differs from the version before.",
      ),
    ),
  );
}

function changed(change: Change): HTMLElement {
  const cases = Object.entries(change.cases);
  const [name, [before, now]] = cases[0]!;
  const word = WORDS[change.what] ?? change.what;
  return h(
    "li",
    null,
    h("b", null, change.version),
    ` (${change.before} before): ${word} in ${plural(cases.length, "case")}, such as `,
    h("code", null, name),
    change.what !== "bits" && `: ${before} → ${now}`,
  );
}

function needs(one: SweptCase | undefined, before: SweptCase | undefined): Child {
  if (!one) return "·";
  const texts = (of: SweptCase): string[] => {
    const { registers, spill_bytes: bytes, spilled_registers: spilled, shared_bytes: shared, noise } = of.figures;
    const code = registers === undefined ? [] : [`${registers}`, `${bytes ?? spilled ?? "?"}`, `${shared ?? "?"}`];
    return [of.state, ...code, ...(noise === undefined ? [] : [`noise ${noise}`])];
  };
  const earlier = before ? texts(before) : [];
  return h(
    "span",
    { title: beginning(one.reason, 300) },
    texts(one).flatMap((text, place): Child[] => [
      place > 0 && " · ",
      before && earlier[place] !== text ? h("b", null, text) : text,
    ]),
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
