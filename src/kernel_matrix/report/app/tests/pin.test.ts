import assert from "node:assert/strict";
import { test } from "node:test";
import type { SweepView, SweptVersion } from "../src/data";
import { best, pins, useFor, versions } from "../src/views/pin";
import { small } from "./helpers";

const attempt = (version: string, stopped = "", pins = "", works = 1): SweptVersion => ({
  version,
  pins,
  picked: "",
  stopped,
  message: "",
  cause: "",
  remedy: "",
  lock: [],
  counts: { works },
  probes: {},
  cases: {},
});
const sweep = (attempts: SweptVersion[], grid: SweepView["grid"] = null): SweepView => ({
  title: "triton",
  package: "triton",
  created: "",
  case: grid ? "" : "rocm/gfx942/triton-3.6/scale.forward",
  attempts,
  changes: [],
  grid,
  probes: [],
});
const grid = { beside: "ffi", columns: [], cells: {} };
const model = small();
const pinned = (...sweeps: SweepView[]) =>
  pins(model, [0, 1, 2, 3, 4, 5], { headline: "", changed: [], warnings: [], families: [], sweeps });

test("each toolchain is pinned that is good for something", () => {
  assert.deepEqual(
    pinned().map((pin) => [pin.toolchain, pin.version]),
    [["tilelang-0.1", ""]],
  );
});

test("the newest version is pinned that works and that the toolchain stands for", () => {
  const passing = small([{ lane: 2, op: 0, cases: "ppp" }]);
  const of = (...sweeps: SweepView[]) =>
    pins(passing, [0], { headline: "", changed: [], warnings: [], families: [], sweeps })[0]!;
  const attempts = [attempt("3.5.0"), attempt("3.6.0"), attempt("3.6.1"), attempt("3.6.2", "import")];
  assert.equal(of(sweep(attempts)).version, "triton 3.6.1");
  assert.match(of(sweep(attempts)).why[0]!, /newest of 4 attempts that works/);
  assert.match(of(sweep([...attempts, attempt("3.7.0")])).why[0]!, /3\.7\.0 works in the sweep too/);
  const pairs = sweep([attempt("3.6.1", "", "ffi 1", 3), attempt("3.6.1", "", "ffi 2", 2)], grid);
  assert.equal(of(sweep(attempts), pairs).version, "triton 3.6.1 with ffi 1", "the pair that does most");
});

test("the version to use is the newest of those with the most good cases, on each architecture", () => {
  const tried = (version: string, ...states: string[]): SweptVersion => ({
    ...attempt(version),
    cases: Object.fromEntries(
      states.map((state, place) => [
        `cuda/sm_${place < 2 ? 90 : 80}/triton-3.6/a.forward/${place}`,
        { state, evidence: "", stage: "", reason: "", bits: "", figures: {} },
      ]),
    ),
  });
  const view = (...attempts: SweptVersion[]) => ({
    headline: "",
    changed: [],
    warnings: [],
    families: [],
    sweeps: [sweep(attempts)],
  });
  const all = view(
    tried("3.9.0", "compiled", "error", "pass"),
    tried("3.10.0", "compiled", "error", "error"),
    tried("3.8.0", "compiled", "held", "pass"),
    tried("3.7.0", "compiled", "held", "pass"),
    tried("3.11.0", "compiled"), // one case alone is less than two
  );
  const rows = versions(all).get("triton")!;
  assert.deepEqual([...rows.keys()], ["3.11.0", "3.10.0", "3.9.0", "3.8.0", "3.7.0"]);
  assert.deepEqual([best(rows, "sm_90"), best(rows, "sm_80"), best(rows, "sm_75")], ["3.8.0", "3.9.0", ""]);
  assert.equal(useFor(model, all, "triton", "sm_90"), "triton 3.8.0 on sm_90 (✓ 2 of 2)");
  assert.equal(useFor(model, all, "triton", "sm_75"), "");
  assert.equal(useFor(model, all, "tilelang", "sm_90"), "");
  const own = small([{ lane: 0, op: 0, cases: "ppp" }]);
  own.overview.lanes[0]!.toolchain = "triton-3.7";
  own.overview.backends[0] = "triton";
  assert.equal(useFor(own, all, "triton", "sm_90"), "triton 3.7.0 on sm_90 (✓ 2 of 2; here ✓ 1 of 1 cells)");
  const bad = small([{ lane: 0, op: 0, cases: "ppF" }]);
  bad.overview.lanes[0]!.toolchain = "triton-3.7";
  bad.overview.backends[0] = "triton";
  assert.equal(useFor(bad, all, "triton", "sm_90"), "triton 3.8.0 on sm_90 (✓ 2 of 2)", "its own version fails here");
  assert.equal(best(versions(view(tried("3.9.0", "error"))).get("triton")!, "sm_90"), "", "none is good");
});
