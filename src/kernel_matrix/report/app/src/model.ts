/** The overview as columns that can be searched and added up fast. */

import type { CellColumns, Op, Overview } from "./data";
import { badness } from "./numbers";

export type StateName = Overview["states"][number]["name"];

/** No case of this letter is planned in a cell. */
const NOT_PLANNED = 255;

export class Model {
  readonly size: number;
  readonly stateNames: readonly StateName[];
  /** The states, from the worst, as the data order them. */
  readonly red: readonly boolean[];
  readonly noise: Float64Array;
  readonly noiseByDtype: ReadonlyMap<string, Float64Array>;
  readonly share: Float64Array;
  readonly speed: Float64Array;
  /** The number of planned cases of each cell. */
  readonly planned: Uint32Array;
  /** The number of cases by cell and state: `caseCounts[cell * states + state]`. */
  readonly caseCounts: Uint32Array;
  /** The cell by lane and op: `places[lane * ops + op]`, -1 where none is planned. */
  readonly places: Int32Array;
  readonly platformOfLane: readonly number[];
  private readonly letters = new Uint8Array(65_536).fill(NOT_PLANNED);
  private allWords = "";
  private readonly identities = new Map<string, number>();

  constructor(readonly overview: Overview) {
    const { cells, states, lanes, ops } = overview;
    this.size = cells.lane.length;
    checkColumns(cells, this.size);
    this.stateNames = states.map((state) => state.name);
    this.red = states.map((state) => state.red);
    states.forEach((state, index) => (this.letters[state.letter.charCodeAt(0)] = index));
    this.noise = Float64Array.from(cells.noise, badness);
    this.noiseByDtype = new Map(
      Object.entries(cells.noise_by_dtype).map(([dtype, ratios]) => [dtype, Float64Array.from(ratios, badness)]),
    );
    this.share = Float64Array.from(cells.share, badness);
    this.speed = Float64Array.from(cells.speed, badness);
    this.planned = new Uint32Array(this.size);
    this.caseCounts = new Uint32Array(this.size * states.length);
    this.places = new Int32Array(lanes.length * ops.length).fill(-1);
    const platforms = new Map(overview.platforms.map((platform, index) => [platform.name, index]));
    this.platformOfLane = lanes.map((lane) => platforms.get(lane.platform) ?? -1);
    for (let cell = 0; cell < this.size; cell++) this.add(cell);
  }

  private add(cell: number): void {
    const { cells, ops } = this.overview;
    this.places[this.lane(cell) * ops.length + this.op(cell)] = cell;
    const letters = cells.case_states[cell]!;
    for (let place = 0; place < letters.length; place++) {
      const state = this.letters[letters.charCodeAt(place)]!;
      if (state === NOT_PLANNED) continue;
      this.caseCounts[cell * this.stateNames.length + state]!++;
      this.planned[cell]!++;
    }
  }

  lane(cell: number): number {
    return this.overview.cells.lane[cell]!;
  }

  op(cell: number): number {
    return this.overview.cells.op[cell]!;
  }

  state(cell: number): number {
    return this.overview.cells.state[cell]!;
  }

  stateName(cell: number): StateName {
    return this.stateNames[this.state(cell)]!;
  }

  evidence(cell: number): number {
    return this.overview.cells.evidence[cell]!;
  }

  evidenceName(cell: number): string {
    return this.overview.evidence[this.evidence(cell)]!;
  }

  /** The number of cases that an emulator or an interpreter ran. */
  emulated(cell: number): number {
    return this.overview.cells.emulated[cell]!;
  }

  stale(cell: number): number {
    return this.overview.cells.stale[cell]!;
  }

  text(index: number | null | undefined): string {
    return index === null || index === undefined ? "" : (this.overview.texts[index] ?? "");
  }

  /** The number of cases that only the journal of a job knows, which still runs. */
  inJournal(cell: number): number {
    return (this.overview.cells.in_journal[cell] ?? "").replaceAll(".", "").length;
  }

  /** The state of a case of a cell, by the place of its name among the cases of its op. */
  caseState(cell: number, place: number): number {
    return this.letters[this.overview.cells.case_states[cell]!.charCodeAt(place)] ?? NOT_PLANNED;
  }

  count(cell: number, state: number): number {
    return this.caseCounts[cell * this.stateNames.length + state]!;
  }

  opOf(cell: number): Op {
    return this.overview.ops[this.op(cell)]!;
  }

  laneOf(cell: number): Overview["lanes"][number] {
    return this.overview.lanes[this.lane(cell)]!;
  }

  /** PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION, as commands and files name a cell. */
  id(cell: number): string {
    return `${laneId(this.laneOf(cell))}/${opId(this.opOf(cell))}`;
  }

  /** The cell with this id; -1 if there is none. */
  find(id: string): number {
    if (this.identities.size === 0) {
      for (let cell = 0; cell < this.size; cell++) this.identities.set(this.id(cell), cell);
    }
    return this.identities.get(id) ?? -1;
  }

  at(lane: number, op: number): number {
    return this.places[lane * this.overview.ops.length + op] ?? -1;
  }

  /** The vendor of a lane's devices: its name in matrix.yaml, or the platform where that names none. */
  vendorOf(lane: number): string {
    const platform = this.overview.platforms[this.platformOfLane[lane]!];
    return platform?.vendor || this.overview.lanes[lane]!.platform;
  }

  /** The vendor's name for people; where its platform has a name, that name, which says more. */
  titleOfVendor(vendor: string): string {
    const platforms = this.overview.platforms.filter((one) => (one.vendor || one.name) === vendor);
    return (platforms.length === 1 ? platforms[0]!.title : platforms[0]?.vendor_title) || vendor;
  }

  /** What a lane is called: its own names, its vendor's, its devices', and what people call these. */
  wordsOfLane(lane: number): string {
    const { lanes, backends, devices, names } = this.overview;
    const { platform, target } = lanes[lane]!;
    const of = [this.titleOfLane(lane), backends[lane], ...devices[lane]!, names[`${platform}/${target}`]];
    return [laneId(lanes[lane]!), ...of].join(" ");
  }

  /** All names of lanes, operators, states and levels of evidence, without titles, which are sentences of people. */
  get words(): string {
    const { lanes, backends, devices, names, ops, evidence } = this.overview;
    const ofOps = ops.map((op) => `${op.op} ${op.direction}`);
    const all = [lanes.map(laneId), backends, devices.flat(), Object.values(names), ofOps, this.stateNames, evidence];
    this.allWords ||= all.flat().join(" ");
    return this.allWords;
  }

  /** What a lane needs for more evidence; empty if it ran. */
  lacking(lane: number): string {
    return this.overview.lacking[lane] ?? "";
  }

  titleOfLane(lane: number): string {
    return this.overview.platforms[this.platformOfLane[lane]!]?.title ?? "";
  }
}

export function laneId(lane: { platform: string; target: string; toolchain: string }): string {
  return `${lane.platform}/${lane.target}/${lane.toolchain}`;
}

export function opId(op: { op: string; direction: string }): string {
  return `${op.op}.${op.direction}`;
}

function checkColumns(cells: CellColumns, size: number): void {
  for (const [name, column] of Object.entries(cells)) {
    if (name === "in_journal" && cells.in_journal.length === 0) continue; // no run goes on
    const columns: unknown[] = Array.isArray(column) ? [column] : Object.values(column as object);
    if (columns.some((one) => !Array.isArray(one) || one.length !== size)) {
      throw new Error(`data/overview.js: the column '${name}' does not have ${size} entries, as 'lane' has.`);
    }
  }
}
