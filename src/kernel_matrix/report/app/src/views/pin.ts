/** Which version of each toolchain to pin today, for which platforms, and why. */

import type { Context } from "../context";
import type { SweptVersion, Toolchains } from "../data";
import { h, type Child } from "../dom";
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

/** Return the sentences, one for each toolchain. */
export function pinPart({ model, found }: Context, view: Toolchains): HTMLElement {
  return h(
    "section",
    { "data-test": "pins" },
    h("h2", null, "Which version to pin today"),
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
