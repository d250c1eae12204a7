/** A small overview: two platforms, two toolchains, two operators. */

import type { Overview } from "../src/data";
import { Model } from "../src/model";

const STATES = [
  "fail",
  "error",
  "fixed",
  "missing",
  "flaky",
  "known",
  "unavailable",
  "lowered",
  "compiled",
  "pass",
  "excluded",
] as const;
const RED: readonly string[] = ["fail", "error", "fixed", "missing"];
const LETTERS = "FEXMLkulcpx";

export interface SmallCell {
  lane: number;
  op: number;
  /** A letter for each case. */
  cases: string;
  stale?: number;
  emulated?: number;
  noise?: number | string | null;
  reason?: string;
  stage?: string;
  rule?: string;
  evidence?: number;
  differing?: number;
}

const CASES = ["tokens5-bf16-seed0", "tokens5-fp32-seed0", "tokens1000-bf16-seed1"];

export const CELLS: readonly SmallCell[] = [
  { lane: 0, op: 0, cases: "ppp", noise: 1.05, differing: 0 },
  { lane: 0, op: 1, cases: "pF", noise: 2.5, stale: 1, differing: 3, reason: "out of memory: 3 GiB (of 2)" },
  { lane: 1, op: 0, cases: "EEE", stage: "compile", rule: "no-bf16", reason: "no such instruction", evidence: 0 },
  { lane: 1, op: 1, cases: "c.c", evidence: 2 },
  { lane: 2, op: 0, cases: "uuu", evidence: 0 },
  { lane: 2, op: 1, cases: "ppk", noise: "inf" },
];

export function small(cells: readonly SmallCell[] = CELLS): Model {
  const texts = [""];
  const text = (value = ""): number => {
    if (!texts.includes(value)) texts.push(value);
    return texts.indexOf(value);
  };
  const lane = (platform: string, target: string, toolchain: string): Overview["lanes"][number] => ({
    platform,
    target,
    toolchain,
    state: "pass",
    evidence: "ran",
    cells: 2,
    by_state: {},
    by_evidence: {},
    emulated: 0,
    stale_by_evidence: {},
    canaries: null,
    determinism: null,
    history: { last_result: null, last_ran: null, last_compiled: null, message: "", color: "", silent_since: null },
  });
  const overview: Overview = {
    schema_version: 1,
    title: "doubles",
    headline: "",
    stale_meaning: "old",
    run: {
      tier: "quick",
      created: "2026-11-22T10:00:00Z",
      commits: [],
      package: "doubles",
      baseline: "eager",
      devices: [],
      cells: cells.length,
      cells_by_state: {},
      cells_by_evidence: {},
      emulated: 0,
      stale_by_evidence: {},
      cases: 17,
      cases_by_state: {},
      stale_cases: 1,
      unplanned: 0,
      left_out: 0,
    },
    run_notes: { running: "", kept: "" },
    silent_days: 30,
    states: STATES.map((name, index) => ({
      letter: LETTERS[index]!,
      name,
      meaning: name,
      elsewhere:
        { known: ["xfail"], fixed: ["xpass"], pass: ["passed"], unavailable: ["skipped"] }[name as string] ?? [],
      red: RED.includes(name),
      color: "#000000",
    })),
    evidence: ["planned", "lowered", "compiled", "emulated", "ran"],
    platforms: [
      { name: "cuda", title: "NVIDIA CUDA", vendor: "nvidia", vendor_title: "NVIDIA", targets: ["sm_90"] },
      { name: "rocm", title: "AMD ROCm", vendor: "amd", vendor_title: "AMD", targets: ["gfx90a", "gfx942"] },
    ],
    lanes: [
      lane("cuda", "sm_90", "tilelang-0.1"),
      lane("rocm", "gfx90a", "tilelang-0.1"),
      lane("rocm", "gfx942", "triton-3.6"),
    ],
    backends: ["tilelang", "tilelang", "triton"],
    devices: [["NVIDIA H200"], [], []],
    names: { "cuda/sm_90": "H100 H200 Hopper", "rocm/gfx942": "MI300 MI300X CDNA3" },
    repository: "",
    lacking: ["", "", "To run it, this is needed: AMD's GPU for gfx942."],
    ops: [
      { op: "scale", direction: "forward", cases: CASES },
      { op: "scale", direction: "backward", cases: CASES },
    ],
    cells: {
      lane: cells.map((cell) => cell.lane),
      op: cells.map((cell) => cell.op),
      state: cells.map((cell) =>
        Math.min(...[...cell.cases].filter((letter) => letter !== ".").map((letter) => LETTERS.indexOf(letter))),
      ),
      evidence: cells.map((cell) => cell.evidence ?? 4),
      case_states: cells.map((cell) => cell.cases),
      in_journal: [],
      stale: cells.map((cell) => cell.stale ?? 0),
      emulated: cells.map((cell) => cell.emulated ?? 0),
      reason: cells.map((cell) => text(cell.reason)),
      stage: cells.map((cell) => text(cell.stage)),
      rule: cells.map((cell) => text(cell.rule)),
      noise: cells.map((cell) => cell.noise ?? null),
      noise_by_dtype: { bf16: cells.map((cell) => (cell.noise === undefined ? null : 1.5)) },
      noise_output: { bf16: cells.map((cell) => (cell.noise === undefined ? 0 : text("out"))) },
      noise_evidence: { bf16: cells.map((cell) => (cell.noise === undefined ? -1 : 4)) },
      share: cells.map(() => null),
      speed: cells.map(() => null),
      seconds: cells.map((_, index) => index),
      odd: cells.map(() => false),
      differing: cells.map((cell) => cell.differing ?? null),
      chunk: cells.map(() => 0),
    },
    texts,
    silent: [],
    stale: [],
    undiagnosed: [],
    notes: [],
    problems: [],
    has: [],
  };
  return new Model(overview);
}
