import assert from "node:assert/strict";
import { test } from "node:test";
import { goodness, inWords, summary, totals } from "../src/aggregate";
import { exactness, known } from "../src/known";
import { layout, NOT_FOUND, NOT_PLANNED } from "../src/layout";
import { search } from "../src/search/compile";
import { small } from "./helpers";

const model = small();
const named = (counts: Uint32Array): Record<string, number> =>
  Object.fromEntries(model.stateNames.map((name, index) => [name, counts[index]!]).filter(([, count]) => count !== 0));

test("the cases of all cells add up to the plan", () => {
  const all = totals(model, search(model, ""));
  assert.equal(all.cells, 6);
  assert.deepEqual(named(all.caseStates), { fail: 1, error: 3, known: 1, unavailable: 3, compiled: 2, pass: 6 });
  assert.equal(all.cases, 16);
  assert.equal(
    [...all.caseStates].reduce((sum, count) => sum + count),
    all.cases,
  );
  assert.equal(
    [...model.planned].reduce((sum, count) => sum + count),
    all.cases,
  );
});

test("a case that is not planned counts nowhere", () => {
  assert.deepEqual([...model.planned], [3, 2, 3, 2, 3, 3]);
});

test("only the cases that the search names count", () => {
  assert.deepEqual(named(totals(model, search(model, "dtype:bf16")).caseStates), {
    error: 2,
    known: 1,
    unavailable: 2,
    compiled: 2,
    pass: 4,
  });
  const failed = totals(model, search(model, "dtype:fp32 state:fail"));
  assert.deepEqual([failed.cells, failed.cases], [1, 1]);
});

test("a summary shows what is known best, and hides neither faults nor what is stale", () => {
  const of = summary(model, Int32Array.from([0, 2, 4, -1]));
  assert.equal(model.stateNames[of.best], "pass");
  assert.equal(model.overview.evidence[of.evidence], "ran");
  assert.deepEqual([of.cells, of.red, of.stale, of.faded], [3, 1, 0, false]);
  assert.equal(inWords(model, of), "1 pass · 1 error · 1 unavailable");
  assert.equal(model.stateNames[summary(model, [2, 4]).best], "error", "a fault says more than an absent device");
  assert.equal(summary(model, [1]).faded, true);
  assert.equal(summary(model, []).best, -1);
});

test("a sentence for a vendor says what ran where, and what did not", () => {
  const said = (cells: number[]): string =>
    known(model, cells)
      .filter((part) => typeof part === "string")
      .join("");
  assert.equal(said([0]), "ran on H200: 1 of 1");
  assert.equal(said([3]), "compiled for 1 target, not run");
  assert.equal(said([0, 3]), "ran on H200: 1 of 1 · compiled for 1 more");
  assert.equal(said([4]), "1 unavailable");
});

test("the grid has a row for each lane in a group for each platform", () => {
  const grid = layout(model, search(model, "").mask, "platform", () => false);
  assert.deepEqual(
    grid.columns.map((column) => column.key),
    ["scale.forward", "scale.backward"],
  );
  assert.deepEqual(
    grid.rows.map((row) => [row.kind, row.key]),
    [
      ["group", "cuda"],
      ["line", "cuda/sm_90/tilelang-0.1"],
      ["group", "rocm"],
      ["line", "rocm/gfx90a/tilelang-0.1"],
      ["line", "rocm/gfx942/triton-3.6"],
    ],
  );
});

test("a folded group keeps its sum", () => {
  const grid = layout(model, search(model, "").mask, "platform", (group) => group === "rocm");
  const group = grid.rows.at(-1)!;
  assert.ok(group.kind === "group" && group.folded);
  assert.deepEqual(group.columns, [
    [2, 4],
    [3, 5],
  ]);
});

test("rows and columns without a cell of the search are gone; other squares are marked", () => {
  const grid = layout(model, search(model, "direction:forward").mask, "toolchain", () => false);
  assert.deepEqual(
    grid.columns.map((column) => column.key),
    ["scale.forward"],
  );
  const two = layout(model, search(model, "state:error,fail").mask, "platform", () => false);
  const lines = two.rows.filter((row) => row.kind === "line");
  assert.deepEqual(
    lines.map((row) => [...row.cells]),
    [
      [NOT_FOUND, 1],
      [2, NOT_FOUND],
    ],
  );
});

test("by operator, the columns are targets", () => {
  const grid = layout(model, search(model, "").mask, "op", () => false);
  assert.deepEqual(
    grid.columns.map((column) => column.key),
    ["cuda/sm_90", "rocm/gfx90a", "rocm/gfx942"],
  );
  assert.deepEqual(grid.groups, ["scale.forward", "scale.backward"]);
  const [line] = grid.rows.filter((row) => row.kind === "line");
  assert.deepEqual([...line!.cells], [0, 2, NOT_PLANNED]);
});

test("columns of another length are refused", () => {
  const { overview } = small();
  overview.cells.stale.pop();
  assert.throws(
    () => new (model.constructor as typeof import("../src/model").Model)(overview),
    /'stale' does not have 6 entries/,
  );
});

test("the rows of a group begin with those of which most is known", () => {
  const grid = layout(model, search(model, "").mask, "vendor", () => false);
  const rows = grid.rows.filter((row) => row.kind === "line").map((row) => row.key);
  assert.deepEqual(rows, ["cuda/sm_90/tilelang-0.1", "rocm/gfx90a/tilelang-0.1", "rocm/gfx942/triton-3.6"]);
  const better = small([
    { lane: 1, op: 0, cases: "uuu", evidence: 0 },
    { lane: 2, op: 0, cases: "ppp" },
  ]);
  const again = layout(better, search(better, "").mask, "vendor", () => false).rows.filter(
    (row) => row.kind === "line",
  );
  assert.deepEqual(
    again.map((row) => row.key),
    ["rocm/gfx942/triton-3.6", "rocm/gfx90a/tilelang-0.1"],
  );
});

test("what is red is worst, and then what says nothing", () => {
  const order = ["fail", "unavailable", "known", "lowered", "compiled", "held", "pass (ran)"].map(goodness);
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  );
  assert.equal(goodness("error"), goodness("missing"));
});

test("how exact a cell is has its ratio and its share of the budget", () => {
  const of = small();
  of.overview.cells.share[0] = 0.67;
  assert.equal(exactness(of, 0), "1.05 × · 67 % budget");
  assert.equal(exactness(of, 1), "2.50 ×");
  assert.equal(exactness(of, 3), "");
});
