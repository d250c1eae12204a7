import assert from "node:assert/strict";
import { test } from "node:test";
import { type DataType, float64, map, tableFromArrays, tableToIPC, utf8 } from "@uwdata/flechette";
import { lineOf } from "../src/cell/log";
import { largest, nearestToLimit, results, seed } from "../src/cell/result";
import type { CellChunk, CellDetail } from "../src/data";
import { markOf } from "../src/charts";
import { badness, daysSince, duration, number, percent, short, times } from "../src/numbers";
import { beginning, commitOf } from "../src/text";
import { visible } from "../src/visible";
import { agreementStep, heatStep } from "../src/views/scales";
import { small } from "./helpers";

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

test("a commit is short, keeps the mark of its changes, and is unknown where nobody said it", () => {
  assert.equal(commitOf("0123456789abcdef"), "0123456789ab");
  assert.equal(commitOf("0123456789abcdef+changes"), "0123456789ab+changes");
  assert.deepEqual([commitOf(""), commitOf(undefined), commitOf("+changes")], ["unknown", "unknown", "unknown"]);
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

/** Return columns as the page's data have them: an Arrow stream as Base64. */
function stream(columns: Record<string, unknown[]>, types: Record<string, DataType> = {}): string {
  return Buffer.from(tableToIPC(tableFromArrays(columns, { types }), { format: "stream" })!).toString("base64");
}

test("a case gets its texts and figures back", () => {
  const empty = Object.fromEntries(["stale", "stage", "action", "message", "detail"].map((name) => [name, ["", ""]]));
  const cases = {
    ...empty,
    name: ["x-seed7", "y"],
    state: [0, 3],
    evidence: [2, 0],
    reason: ["why", ""],
    repeat: ["run {case} again", ""],
    diagnosis: ['{"rule":"r","cause":"c","remedy":"","link":""}', null],
    job: ['{"device":"GPU"}', null],
    seconds: [1.5, 0],
    attempts: [["error"], null],
    facts: [[["__proto__", "x"]], null],
    artifact: [[["bytes", 1234567.125]], null],
  };
  const outputs = {
    case: [0, 0, 0],
    output: ["o", "p", "q"],
    max_abs: [2, NaN, null],
    limit_max_abs: [4, 1, null],
    ulp_max: [null, Infinity, 3],
    rel_fro: [1.2345678, 123456789, 1e-7 / 3],
    nan: [0, 255, 1],
    steps: [1, 1, 1],
  };
  const kinds = { facts: map(utf8(), utf8()), artifact: map(utf8(), float64()) };
  const chunk: CellChunk = { cells: {}, cases: stream(cases, kinds), outputs: stream(outputs) };
  const detail = { cell: { id: "a/b/c/d.forward", planned: 2 }, first: 0 } as unknown as CellDetail;
  const [one, other] = results(detail, chunk, small().overview);
  assert.deepEqual([one!.state, other!.state, other!.evidence], ["fail", "missing", "planned"]);
  assert.deepEqual([one!.seconds, one!.attempts, other!.attempts], [1.5, ["error"], []]);
  assert.deepEqual(Object.fromEntries(one!.outputs.get("p")!), {
    max_abs: NaN,
    limit_max_abs: 1,
    ulp_max: Infinity,
    rel_fro: 123456789,
    nan: 255,
    steps: 1,
  });
  assert.deepEqual(
    ["o", "q"].map((name) => one!.outputs.get(name)!.get("rel_fro")),
    [1.2346, 3.3333e-8],
  );
  assert.deepEqual([...one!.outputs.get("q")!.keys()], ["ulp_max", "rel_fro", "nan", "steps"]);
  assert.equal(other!.outputs.size, 0);
  assert.equal(one!.repeat, "run a/b/c/d.forward/x-seed7 again");
  assert.equal(one!.reason, "why");
  assert.equal(one!.job["device"], "GPU");
  assert.deepEqual([Object.keys(one!.facts), one!.artifact, other!.facts], [["__proto__"], { bytes: 1234600 }, {}]);
  assert.equal(one!.diagnosis!.cause, "c");
  assert.deepEqual(nearestToLimit(one!), { output: "p", figure: "max_abs", share: Infinity });
  assert.deepEqual(largest(one!, "ulp_max"), { output: "p", value: Infinity });
  assert.equal(other!.diagnosis, null);
  assert.equal(other!.repeat, "");
  assert.deepEqual([seed("tokens1-seed12"), seed("seed3-x"), seed("reseed3")], ["12", "3", ""]);
});

test("no two contenders of a chart have the same mark", () => {
  const marks = Array.from({ length: 64 }, (_, index) => JSON.stringify(markOf(index)));
  assert.equal(new Set(marks).size, 64);
});

test("an error speaks of a line: a compiler's first, else the innermost of one's own", () => {
  const traced = 'File "tests/a.py", line 3, in f\n  File "/usr/lib/python3.11/site-packages/x.py", line 9, in g\n';
  assert.deepEqual(lineOf(traced), { file: "tests/a.py", line: "3" });
  assert.deepEqual(lineOf("tests/a.py:3: in f\nsrc/b.py:42: in g\n"), { file: "src/b.py", line: "42" });
  assert.deepEqual(lineOf("src/k.cu(12): error: x\nsrc/k.cu(99): error: y\n" + traced), {
    file: "src/k.cu",
    line: "12",
  });
  assert.deepEqual(lineOf("./src/k.hip:7:3: fatal error: x"), { file: "./src/k.hip", line: "7" });
  assert.equal(lineOf("it failed at 12:30"), null);
});
