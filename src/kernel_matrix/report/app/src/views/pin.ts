/** Which version of each toolchain to pin today, for which platforms, and why. */

import type { Context } from "../context";
import type { SweptVersion, Toolchains } from "../data";
import { h, table, type Child } from "../dom";
import { known } from "../known";
import type { Model } from "../model";
import { outOf, plural } from "../numbers";

const USEFUL = ["pass", "held", "flaky", "compiled", "lowered"];

export interface Pin {
  backend: string;
  /** The toolchain of the matrix that is best known, and its cells. */
  toolchain: string;
  cells: readonly number[];
  /** The version of the sweep that it stands for, with the versions that it needs; empty where no sweep tried it. */
  version: string;
  why: readonly string[];
}

/** Return the pins: of each backend the best known toolchain, and those for platforms that it does not have. */
export function pins(model: Model, cells: Iterable<number>, view: Toolchains): Pin[] {
  const backends = new Map<string, Map<string, number[]>>();
  for (const cell of cells) {
    const { toolchain } = model.laneOf(cell);
    const backend = model.overview.backends[model.lane(cell)] || toolchain;
    const toolchains = backends.get(backend) ?? new Map<string, number[]>();
    backends.set(backend, toolchains.set(toolchain, [...(toolchains.get(toolchain) ?? []), cell]));
  }
  return [...backends].flatMap(([backend, toolchains]): Pin[] => {
    const ranked = [...toolchains].reverse().sort(([, a], [, b]) => better(model, b, a));
    const served = new Set<string>();
    const chosen = ranked.filter(([, of]) => {
      const platforms = of.filter((cell) => isUseful(model, cell)).map((cell) => model.laneOf(cell).platform);
      const isNew = platforms.some((platform) => !served.has(platform));
      for (const platform of platforms) served.add(platform);
      return isNew;
    });
    const others = ranked.filter((one) => !chosen.includes(one));
    return chosen.map(([toolchain, of], place) => {
      const tried = swept(toolchain, view);
      const worse = (place === 0 ? others : []).map(
        ([name, rest]) => `${passing(model, of)} of its cells pass, and ${passing(model, rest)} of ${name}'s`,
      );
      const why = [...worse, ...tried.why, ...probed(toolchain, view)];
      return { backend, toolchain, cells: of, version: tried.version, why };
    });
  });
}

function isUseful(model: Model, cell: number): boolean {
  return USEFUL.includes(model.stateName(cell));
}

/** Return the newest version of a sweep that a toolchain stands for and that works, and what the sweep says of it. */
function swept(toolchain: string, { sweeps }: Toolchains): Pick<Pin, "version" | "why"> {
  const sweep = sweeps.find((one) => !one.grid && one.case.split("/")[2]?.split("-")[0] === toolchain.split("-")[0]);
  const works = sweep?.attempts.filter((one) => one.stopped === "") ?? [];
  const chosen = works.filter((one) => stands(toolchain, one.version)).at(-1);
  if (!sweep || !chosen) return { version: "", why: [] };
  const newest = works.at(-1)!;
  const why =
    newest === chosen
      ? `it is the newest of ${plural(sweep.attempts.length, "attempt")} that works`
      : `${newest.version} works in the sweep too, and this matrix does not have it`;
  const pairs = sweeps.filter((one) => one.grid && one.package === sweep.package).flatMap((one) => one.attempts);
  const best = pairs
    .filter((one) => one.version === chosen.version && one.stopped === "")
    .reduce((most, one) => ((one.counts["works"] ?? 0) >= (most.counts["works"] ?? 0) ? one : most), {
      ...chosen,
      counts: {},
    });
  return { version: `${sweep.package} ${named(best)}`, why: [why] };
}

/** Return how many of the probes hold in a toolchain. */
function probed(toolchain: string, { families }: Toolchains): string[] {
  const verdicts = families
    .flatMap((family) => family.probes)
    .flatMap((probe) => probe.verdicts[toolchain]?.verdict ?? []);
  const holds = verdicts.filter((verdict) => verdict === "works").length;
  return verdicts.length > 0 ? [`what ${outOf(holds, verdicts.length)} probes ask for holds`] : [];
}

function named(one: SweptVersion): string {
  const beside = one.pins || one.picked;
  return beside ? `${one.version} with ${beside}` : one.version;
}

/** Return whether the name of a toolchain, such as `NAME-1.2`, stands for a version. */
function stands(toolchain: string, version: string): boolean {
  const prefix = toolchain.slice(toolchain.indexOf("-") + 1);
  return version === prefix || version.startsWith(`${prefix}.`);
}

function passing(model: Model, cells: readonly number[]): number {
  return cells.filter((cell) => ["pass", "held"].includes(model.stateName(cell))).length;
}

/** Return a positive number where more is known of the first cells: more ran and pass, more pass, more are compiled. */
function better(model: Model, one: readonly number[], other: readonly number[]): number {
  const counts = (cells: readonly number[]): number[] => [
    cells.filter((cell) => model.stateName(cell) === "pass" && model.evidenceName(cell) === "ran").length,
    passing(model, cells),
    cells.filter((cell) => isUseful(model, cell)).length,
  ];
  const [left, right] = [counts(one), counts(other)];
  return left.map((count, place) => count - right[place]!).find((difference) => difference !== 0) ?? 0;
}

/** What a sweep found of a version on an architecture: how many of the cases that were tried are good. */
interface Tried {
  good: number;
  all: number;
}

/** By version, the newest first, what was found on each architecture. */
type Rows = ReadonlyMap<string, ReadonlyMap<string, Tried>>;

/** Return of each package that sweeps tried: its versions, the newest first, with what was found on each architecture. */
export function versions({ sweeps }: Toolchains): Map<string, Map<string, Map<string, Tried>>> {
  const packages = new Map<string, Map<string, Map<string, Tried>>>();
  for (const sweep of sweeps.filter((one) => !one.grid)) {
    const rows = packages.get(sweep.package) ?? new Map<string, Map<string, Tried>>();
    for (const attempt of sweep.attempts) {
      const row = rows.get(attempt.version) ?? new Map<string, Tried>();
      for (const [id, one] of Object.entries(attempt.cases)) {
        const target = id.split("/")[1] ?? "";
        const tried = row.get(target) ?? { good: 0, all: 0 };
        row.set(target, { good: tried.good + Number(USEFUL.includes(one.state)), all: tried.all + 1 });
      }
      rows.set(attempt.version, row);
    }
    packages.set(sweep.package, rows);
  }
  for (const [name, rows] of packages) {
    const known = [...rows].filter(([, row]) => row.size > 0).sort(([a], [b]) => newer(b, a));
    if (known.length > 0) packages.set(name, new Map(known));
    else packages.delete(name);
  }
  return packages;
}

/** Return a positive number where the first version is newer. */
function newer(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

/** Return the version to use on an architecture: the largest share of good cases, then the most of them, then the newest. */
export function best(rows: Rows, target: string): string {
  let [chosen, most]: [string, Tried] = ["", { good: 0, all: 1 }];
  for (const [version, row] of rows) {
    const { good, all } = row.get(target) ?? { good: 0, all: 1 };
    const better = good * most.all - most.good * all || good - most.good;
    if (better > 0) [chosen, most] = [version, { good, all }];
  }
  return chosen;
}

/** Return the swept packages that a backend is written with, such as its own. */
function ofBackend(view: Toolchains, backend: string): [string, Rows][] {
  return [...versions(view)].filter(([name]) => isOf(name, backend));
}

function isOf(name: string, backend: string): boolean {
  return name === backend || name.split(/[-_]/).includes(backend);
}

/** Return what this matrix found on an architecture, by the version that its toolchain stands for; cells that nobody tried do not count. */
function here(model: Model, name: string, rows: ReadonlyMap<string, unknown>, target: string): Map<string, Tried> {
  const found = new Map<string, Tried>();
  for (let cell = 0; cell < model.size; cell++) {
    const { toolchain, target: of } = model.laneOf(cell);
    const state = model.stateName(cell);
    if (of !== target || !isOf(name, model.overview.backends[model.lane(cell)]!)) continue;
    const version = [...rows.keys()].find((one) => stands(toolchain, one)); // the newest comes first
    if (version === undefined || ["unavailable", "excluded"].includes(state)) continue;
    const { good, all } = found.get(version) ?? { good: 0, all: 0 };
    found.set(version, { good: good + Number(USEFUL.includes(state)), all: all + 1 });
  }
  return found;
}

/** Return the version to use on an architecture: this matrix's `own` where all its cells are good, else the best of the sweeps. */
function toUse(own: ReadonlyMap<string, Tried>, rows: Rows, target: string): string {
  const whole = [...own].filter(([, { good, all }]) => good === all).map(([version]) => version);
  return whole.sort((a, b) => newer(b, a))[0] ?? best(rows, target);
}

/** Return in words what was found of a version on an architecture: by sweeps, and in this matrix. */
function foundOf(swept: Tried | undefined, own: Tried | undefined): string {
  const words = ({ good, all }: Tried): string => `${good === all ? "✓" : good > 0 ? "◐" : "✗"} ${outOf(good, all)}`;
  const parts = [swept ? words(swept) : "", own ? `here ${words(own)} cells` : ""];
  return parts.filter((part) => part !== "").join("; ") || "not tried";
}

/** Return in words which version to use for a cell; empty where its architecture was not tried. */
export function useFor(model: Model, view: Toolchains, backend: string, target: string): string {
  const of = ofBackend(view, backend).map(([name, rows]) => {
    const own = here(model, name, rows, target);
    const version = toUse(own, rows, target);
    const found = foundOf(rows.get(version)?.get(target), own.get(version));
    return version === "" ? "" : `${name} ${version} on ${target} (${found})`;
  });
  return of.filter((text) => text !== "").join("; ");
}

/** Return a table for each swept package of the search: a row for each version, a column for each architecture. */
function versionTables({ model, found }: Context, view: Toolchains): Child {
  const backends = new Set([...found.cells].map((cell) => model.overview.backends[model.lane(cell)]!));
  const asked = new Map([...backends].flatMap((backend) => ofBackend(view, backend)));
  return [...asked].map(([name, rows]) => {
    const targets = [...new Set([...rows.values()].flatMap((row) => [...row.keys()]))];
    return table<[string, ReadonlyMap<string, Tried>]>(
      `versions of ${name} by architecture`,
      [
        { title: name, header: true, cell: ([version]) => version },
        ...targets.map((target) => {
          const own = here(model, name, rows, target);
          const used = toUse(own, rows, target);
          return {
            title: target,
            cell: ([version, row]: [string, ReadonlyMap<string, Tried>]): Child => [
              foundOf(row.get(target), own.get(version)),
              version === used && [" ", h("b", { class: "use" }, "use this")],
            ],
          };
        }),
      ],
      [...rows],
      `versions-${name}`,
    );
  });
}

/** Return the sentences, one for each toolchain, and the tables of versions. */
export function pinPart(context: Context, view: Toolchains): HTMLElement {
  const { model, found } = context;
  return h(
    "section",
    { "data-test": "pins" },
    h("h2", null, "Which version to pin today"),
    versionTables(context, view),
    h(
      "p",
      { class: "dim" },
      "Cases of a sweep, and cells of this matrix, that pass, hold, compile or become source, of those that were tried. Use the version of this matrix where all its cells are good, else the best of the sweeps.",
    ),
    pins(model, found.cells, view).map((pin) => {
      const platforms = new Map<string, number[]>();
      for (const cell of pin.cells) {
        const title = model.titleOfLane(model.lane(cell));
        platforms.set(title, [...(platforms.get(title) ?? []), cell]);
      }
      const good = [...platforms].filter(([, cells]) => cells.some((cell) => isUseful(model, cell)));
      return h(
        "p",
        { "data-pin": pin.toolchain },
        "Pin ",
        h("b", null, pin.version || `the lock of ${pin.toolchain}`),
        " for ",
        good.map(([title, cells], index): Child[] => [
          index > 0 && ", ",
          title,
          h("span", { class: "dim" }, " (", known(model, cells), ")"),
        ]),
        pin.why.length > 0 && `: ${pin.why.join("; ")}`,
        ".",
      );
    }),
  );
}
