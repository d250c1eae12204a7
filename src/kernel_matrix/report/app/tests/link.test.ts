import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHash, isFolded, START, toHash, turned, type Place } from "../src/link";

test("a place comes back from its link", () => {
  const places: Place[] = [
    START,
    { ...START, view: "accuracy", q: 'state:error reason:"a & b=c#d?" target:gfx* 100%', dtype: "bf16" },
    { ...START, cell: "cuda/sm_90/tilelang-0.1/scale.forward", case: "tokens5-bf16+x" },
    { ...START, group: "op", fold: { all: true, except: ["a b", "c"] } },
    { ...START, fold: { all: false, except: [] } },
  ];
  for (const place of places) assert.deepEqual(fromHash(toHash(place)), place, toHash(place));
});

test("a link can be read by people", () => {
  assert.equal(
    toHash({ ...START, q: "vendor:nvidia mhc_pre", cell: "cuda/sm_90/t/op.forward" }),
    "#grid?q=vendor:nvidia+mhc_pre&cell=cuda/sm_90/t/op.forward",
  );
});

test("an older link to folded platforms folds platforms", () => {
  assert.deepEqual(fromHash("#grid?fold=all,cuda").group, "platform");
  assert.deepEqual(fromHash("#grid?q=a").group, "vendor");
  assert.equal(toHash({ ...START, fold: { all: true, except: ["amd"] } }), "#grid?group=vendor&fold=all,amd");
});

test("the id of a cell alone is a link to it", () => {
  assert.equal(fromHash("#cuda/sm_90/tilelang-0.1/scale.forward").cell, "cuda/sm_90/tilelang-0.1/scale.forward");
  assert.equal(fromHash("#cuda/sm_90/tilelang-0.1/scale%2Eforward").cell, "cuda/sm_90/tilelang-0.1/scale.forward");
});

test("what a link has too much is left out", () => {
  assert.deepEqual(fromHash("#nowhere"), START);
  assert.deepEqual(fromHash("#nowhere?q=a").q, "a");
  assert.deepEqual(fromHash("#%E0%A4%A"), START);
  assert.deepEqual(fromHash("#grid?group=colour&x=1"), START);
  assert.deepEqual(fromHash(""), START);
});

test("a group folds and unfolds", () => {
  const all = { all: true, except: [] };
  assert.equal(isFolded(all, "cuda"), true);
  assert.equal(isFolded(turned(all, "cuda"), "cuda"), false);
  assert.deepEqual(turned(turned(all, "cuda"), "cuda"), all);
});
