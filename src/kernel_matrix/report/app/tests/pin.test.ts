import assert from "node:assert/strict";
import { test } from "node:test";
import type { SweepView, SweptVersion } from "../src/data";
import { pins } from "../src/views/pin";
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
