import assert from "node:assert/strict";
import { test } from "node:test";
import { largest, nearestToLimit, results, seed } from "../src/cell/result";
import type { CellChunk, CellDetail } from "../src/data";
import { badness, daysSince, duration, number, percent, short, times } from "../src/numbers";
import { beginning } from "../src/text";
import { visible } from "../src/visible";
import { agreementStep, heatStep } from "../src/views/scales";

test("numbers that JSON has not are words", () => {
  assert.equal(number("inf"), Infinity);
  assert.equal(number("-inf"), -Infinity);
  assert.ok(Number.isNaN(number("nan")));
  assert.equal(badness("nan"), Infinity);
  assert.ok(Number.isNaN(badness(null)));
});

test("numbers are written in about three digits", () => {
  assert.deepEqual(
    [short(0), short(12345), short(0.012345), short(1e-9), short("nan"), short("-inf"), short(null)],
    ["0", "12345", "0.0123", "1.0e-9", "NaN", "−∞", ""],
  );
  assert.deepEqual(
    [times(1.049), times(12.34), times(123.4), times(123456), times("inf"), times(null)],
    ["1.05 ×", "12.3 ×", "123 ×", "1e5 ×", "∞ ×", ""],
  );
  assert.deepEqual([percent(0.5), percent(0.00123), percent(7.5), percent("inf")], ["50 %", "0.12 %", "750 %", "∞"]);
  assert.deepEqual(
    [duration(0.0000123), duration(0.0123), duration(1.234), duration(200)],
    ["12.3 µs", "12.3 ms", "1.23 s", "3.33 min"],
  );
});

test("control characters and marks of direction can be seen", () => {
  assert.equal(visible("a\u0000b\u001b[31m\n\tc\u202ed\r\n"), "a␀b␛[31m\n\tc⟨U+202E⟩d\n");
  assert.equal(beginning("one\ntwo   three", 9), "one two …");
});

test("a moment in the future is a negative number of days", () => {
  assert.ok(daysSince("2999-01-01T00:00:00Z", Date.now()) < 0);
  assert.ok(Number.isNaN(daysSince("never", 0)));
});

test("the steps of colours have their ends inside", () => {
  assert.deepEqual([0, 0.5, 0.51, 1, 1.1, 4, 4.1].map(heatStep), [0, 0, 1, 2, 2, 5, 6]);
  assert.equal(heatStep("nan"), 6);
  assert.deepEqual([0, 0.5, 2, 3, 4096, Infinity].map(agreementStep), [0, 1, 1, 2, 4, 5]);
});

test("a case gets its texts and figures back", () => {
  const chunk = {
    cells: {},
    jobs: { "3": { device: "GPU" } },
    texts: ["", "why", "run {case} again"],
    figures: ["max_abs", "limit_max_abs", "ulp_max"],
    diagnoses: [{ rule: "r", cause: "c", remedy: "", link: "" }],
  } as CellChunk;
  const detail = {
    cell: { id: "a/b/c/d.forward" },
    results: [
      {
        name: "x-seed7",
        state: "fail",
        evidence: "ran",
        reason: 1,
        repeat: 2,
        job: 3,
        diagnosis: 0,
        outputs: { o: [2, 4], p: ["nan", 1, "inf"], q: [null, null, 3] },
      },
      { name: "y", state: "missing", evidence: "planned" },
    ],
  } as unknown as CellDetail;
  const [one, other] = results(detail, chunk);
  assert.equal(one!.repeat, "run a/b/c/d.forward/x-seed7 again");
  assert.equal(one!.reason, "why");
  assert.equal(one!.job["device"], "GPU");
  assert.equal(one!.diagnosis!.cause, "c");
  assert.deepEqual(nearestToLimit(one!), { output: "p", figure: "max_abs", share: Infinity });
  assert.deepEqual(largest(one!, "ulp_max"), { output: "p", value: Infinity });
  assert.equal(other!.diagnosis, null);
  assert.equal(other!.repeat, "");
  assert.deepEqual([seed("tokens1-seed12"), seed("seed3-x"), seed("reseed3")], ["12", "3", ""]);
});
