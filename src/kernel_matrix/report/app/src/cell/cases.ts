/** The cases of a cell. */

import type { Context } from "../context";
import type { Cell } from "../data";
import { facts, h, replace, table, type Child } from "../dom";
import { toHash } from "../link";
import { duration, moment, outOf, percent, short, times, type Written } from "../numbers";
import { pattern } from "../search/match";
import { bar, pill } from "../states";
import { beginning, block, command, commitOf } from "../text";
import { diagnosed } from "./diagnosis";
import { largest, nearestToLimit, seed, type Result } from "./result";

const AT_ONCE = 100;

/** Return a link to a case of a cell. */
export function caseLink(context: Context, cell: string, name: string): HTMLElement {
  const hash = toHash({ ...context.place, cell, case: name });
  return h(
    "a",
    {
      href: hash,
      on: {
        click: (event: MouseEvent) => {
          const row = (event.currentTarget as HTMLElement)
            .closest("dialog")
            ?.querySelector<HTMLDetailsElement>(`details[data-case="${CSS.escape(name)}"]`);
          if (!row || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          row.open = true;
          row.scrollIntoView({ block: "start" });
          row.querySelector("summary")!.focus({ preventScroll: true });
          context.go({ cell, case: name });
        },
      },
    },
    h("code", null, name),
  );
}

export function casesPart(context: Context, cell: Cell, all: readonly Result[], open: string): HTMLElement {
  const list = h("div", { class: "cases" });
  const sum = h("p", { class: "sum", role: "status", "data-test": "case-totals" });
  const filter = h("input", {
    type: "search",
    id: "case-filter",
    placeholder: "Filter the cases, such as: bf16 -pass seed3 stale",
    autocomplete: "off",
    spellcheck: "false",
  });
  let shown = AT_ONCE;
  const draw = (): void => {
    const words = filter.value.split(/\s+/).filter((word) => word !== "" && word !== "-");
    const tests = words.map((word) => ({
      negative: word.startsWith("-"),
      test: pattern(word.replace(/^-/, ""), false),
    }));
    const asked = all.filter((one) => {
      const text = `${one.name} ${one.state} ${one.evidence} ${one.stage}${one.stale !== "" ? " stale" : ""}`;
      return tests.every(({ negative, test }) => test.test(text) !== negative);
    });
    sum.textContent = `${outOf(asked.length, all.length)} cases`;
    const first = asked.slice(0, shown);
    const opened = asked.find((one) => one.name === open);
    if (opened && !first.includes(opened)) first.push(opened);
    replace(
      list,
      first.map((one) => caseRow(context, cell, one, one.name === open)),
      asked.length > first.length &&
        h(
          "p",
          { class: "more" },
          `${outOf(first.length, asked.length)} cases `,
          h(
            "button",
            {
              type: "button",
              on: {
                click: () => {
                  shown *= 4;
                  draw();
                },
              },
            },
            "Show more",
          ),
        ),
    );
  };
  filter.addEventListener("input", draw);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && filter.value !== "") {
      event.preventDefault(); // Esc empties the field first, and then closes the panel
      filter.value = "";
      draw();
    }
  });
  draw();
  const counts = Object.entries(cell.cases).map(([state, count]) => ({ state, count: count ?? 0 }));
  const part = h(
    "section",
    { "data-test": "cases" },
    h("h3", null, `Cases`),
    bar(counts, "cases by state"),
    h("label", { for: "case-filter" }, "Filter "),
    filter,
    sum,
    list,
  );
  if (open !== "")
    queueMicrotask(() => part.querySelector(`details[data-case="${CSS.escape(open)}"]`)?.scrollIntoView());
  return part;
}

function caseRow(context: Context, cell: Cell, one: Result, open: boolean): HTMLElement {
  const near = nearestToLimit(one);
  const noise = largest(one, "noise_ratio");
  const bytes = one.artifact["bytes"];
  const note = [
    noise ? times(noise.value) : "",
    near ? `${percent(near.share)} of budget` : "",
    !near && bytes !== undefined ? `${short(bytes)} B` : "",
  ];
  const row = h(
    "details",
    { class: "case", "data-case": one.name, "data-state": one.state, open },
    h(
      "summary",
      null,
      pill(one.state, one.stale !== ""),
      h("code", null, one.name),
      h("span", { class: "dim" }, note.filter((text) => text !== "").join(" · ")),
    ),
  );
  const fill = (): void => {
    if (row.open && row.children.length === 1) row.append(caseBody(context, one));
  };
  row.addEventListener("toggle", () => {
    fill();
    if (row.open) context.go({ cell: cell.id, case: one.name }, true);
  });
  fill();
  return row;
}

function caseBody(context: Context, one: Result): HTMLElement {
  const { baseline } = context.model.overview.run;
  const artifact = Object.entries(one.artifact).map(([name, value]) => `${name.replaceAll("_", " ")} ${short(value)}`);
  const ran = one.action === "run" || one.action === "emulate";
  return h(
    "div",
    { class: "case-body" },
    one.reason !== "" &&
      (one.reason.length > 300 || one.reason.includes("\n")
        ? block(one.reason, "reason")
        : h("p", null, beginning(one.reason, 400))),
    one.stale !== "" && h("p", { class: "note" }, h("b", null, "Stale: "), beginning(one.stale, 2000)),
    one.message !== "" && [h("h4", null, "Exact message"), block(one.message, "exact message")],
    diagnosed(one.diagnosis),
    one.outputs.size > 0 && numbers(one.outputs, baseline),
    facts([
      ["stage", one.stage],
      ["evidence", one.evidence],
      ["was done", one.action === "emulate" ? "emulated, or interpreted" : ""],
      ["seed of its inputs", seed(one.name)],
      ["inputs", one.facts["inputs.sha256"] ?? ""],
      ["attempts", one.attempts.map((attempt) => beginning(attempt, 300)).join(", ")],
      ["took", one.seconds > 0 ? duration(one.seconds) : ""],
      ["code", artifact.length > 0 ? [one.facts["artifact.kind"], ...artifact].filter(Boolean).join(", ") : ""],
      [
        "speed",
        one.times
          ? `${times(one.times.ratio)} as fast as ${baseline}: ${duration(one.times.run)} and ${duration(one.times.baseline)}, ${one.times.rounds} rounds`
          : "",
      ],
      ...Object.entries(one.facts)
        .filter(([name]) => !["inputs.sha256", "artifact.kind", "comparisons"].includes(name))
        .map(([name, value]): [string, string] => [name, beginning(value, 400)]),
      ["device", ran ? (one.job["device"] ?? "") : ""],
      ["executor", one.job["executor"] ?? ""],
      ["image", one.job["image"] ?? one.job["image.id"] ?? ""],
      ["commit", Object.keys(one.job).length > 0 ? commitOf(one.job["commit"]) : ""],
      ["started", moment(one.job["started"])],
    ]),
    one.detail !== "" && details("Everything it said", () => block(one.detail, "everything it said")),
    Object.keys(one.job).length > 0 &&
      details("Everything about its job", () =>
        facts(Object.entries(one.job).map(([name, value]): [string, Child] => [name, beginning(value, 400)]))!,
      ),
    h("h4", null, "Repeat it"),
    command(one.repeat),
  );
}

function details(title: string, make: () => Node): HTMLElement {
  const element = h("details", null, h("summary", null, title));
  element.addEventListener("toggle", () => {
    if (element.open && element.children.length === 1) element.append(make());
  });
  return element;
}

const COLUMNS: readonly (readonly [key: string, title: string])[] = [
  ["noise_ratio", "noise ratio"],
  ["misrounded", "misrounded"],
  ["floor_misrounded", "baseline's"],
  ["max_abs", "max abs"],
  ["limit_max_abs", "limit"],
  ["floor_max_abs", "baseline's"],
  ["conditioning_max_abs", "conditioning"],
  ["mean_abs", "mean abs"],
  ["rel_fro", "rel. Frobenius"],
  ["limit_rel_fro", "limit"],
  ["floor_rel_fro", "baseline's"],
  ["conditioning_rel_fro", "conditioning"],
  ["ulp_median", "ULP median"],
  ["ulp_p99", "ULP p99"],
  ["ulp_max", "ULP max"],
  ["cosine", "1 − cos"],
  ["growth", "growth"],
  ["limit_growth", "limit"],
  ["nan", "NaN"],
  ["inf", "Inf"],
  ["elements", "elements"],
];

function numbers(outputs: Result["outputs"], baseline: string): HTMLElement {
  const rows = [...outputs];
  const columns = COLUMNS.filter(([key]) => rows.some(([, figures]) => figures.get(key) !== undefined));
  const cell = (key: string, figures: ReadonlyMap<string, Written>): string => {
    if (key.endsWith("misrounded")) return Number(figures.get("itemsize")) < 4 ? percent(figures.get(key)) : "";
    return key === "noise_ratio" ? times(figures.get(key)) : short(figures.get(key));
  };
  return table(
    `figures of each output; baseline is ${baseline}`,
    [
      { title: "output", header: true, cell: ([name]) => h("code", null, name) },
      ...columns.map(([key, title]) => ({
        title,
        number: true,
        cell: ([, figures]: (typeof rows)[number]) => cell(key, figures),
      })),
    ],
    rows,
    "figures",
  );
}
