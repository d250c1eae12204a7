import assert from "node:assert/strict";
import { test } from "node:test";
import { KEYS } from "../src/search/keys";
import { search } from "../src/search/compile";
import { compared, pattern, word } from "../src/search/match";
import { distance, nearest } from "../src/search/nearest";
import { parse, withTerm, written } from "../src/search/parse";
import { suggestions } from "../src/search/suggest";
import { CELLS, small } from "./helpers";

const model = small();
const ids = (query: string): number[] => [...search(model, query).cells];
const problems = (query: string): readonly string[] => search(model, query).problems;

test("an empty search finds every cell", () => assert.deepEqual(ids(""), [0, 1, 2, 3, 4, 5]));

test("words must all match, whatever their case", () => {
  assert.deepEqual(ids("nvidia"), [0, 1]);
  assert.deepEqual(ids("AMD Triton backward"), [5]);
  assert.deepEqual(ids("scale.forward"), [0, 2, 4]);
  assert.deepEqual(ids("instruction"), [2]);
});

test("words know devices, people's names for them, and dtypes", () => {
  assert.deepEqual(ids("H200"), [0, 1]);
  assert.deepEqual(ids("hopper"), [0, 1]);
  assert.deepEqual(ids("sm90"), [0, 1]);
  assert.deepEqual(ids("MI300 triton 3.6"), [4, 5]);
  assert.deepEqual(ids("bfloat16 state:known"), ids("dtype:bf16 state:known"));
  assert.equal(search(model, "bf16").dtype, "bf16");
});

test("a state is found by the word that other test runners have for it", () => {
  assert.deepEqual(ids("xfail"), ids("state:known"));
  assert.deepEqual(ids("-state:Passed,known"), ids("-state:pass,known"));
  assert.deepEqual(ids("amd skipped"), [4]);
  assert.deepEqual(ids("xpass"), []);
});

test("a reason is searched only where no name has the word", () => {
  const [first, ...rest] = CELLS;
  const other = small([first!, ...rest.slice(0, -1), { lane: 2, op: 1, cases: "ppk", reason: "it ran on an H200" }]);
  assert.deepEqual([...search(other, "H200").cells], [0, 1]);
  assert.deepEqual([...search(other, '"ran on"').cells], [5]);
});

test("a search that finds nothing suggests others that do", () => {
  assert.deepEqual(suggestions(model, "h101"), [{ q: "H100", cells: 2 }]);
  assert.deepEqual(suggestions(model, "hoper forward")[0], { q: "Hopper forward", cells: 1 });
  assert.deepEqual(suggestions(model, "nvidia triton"), [
    { q: "triton", cells: 2 },
    { q: "nvidia", cells: 2 },
  ]);
  assert.deepEqual(suggestions(model, "zzzzzzzz"), []);
});

test("keys of names match whole names, with stars and alternatives", () => {
  assert.deepEqual(ids("backend:tilelang state:error"), [2]);
  assert.deepEqual(ids("target:gfx*"), [2, 3, 4, 5]);
  assert.deepEqual(ids("target:gfx9?a"), [2, 3]);
  assert.deepEqual(ids("target:gfx9?*"), [2, 3, 4, 5]);
  assert.deepEqual(ids("state:error,fail"), [1, 2]);
  assert.deepEqual(ids("direction:backward platform:rocm"), [3, 5]);
  assert.deepEqual(ids("vendor:nvidia"), [0, 1]);
  assert.deepEqual(ids("vendor:AMD"), [2, 3, 4, 5]);
  assert.deepEqual(ids("vendor:cuda"), [], "a word of a title is no vendor");
  assert.deepEqual(ids("evidence:compiled"), [3]);
  assert.deepEqual(ids("stage:compile"), [2]);
  assert.deepEqual(ids("rule:*"), [2]);
});

test("determinism is same, differs or once", () => {
  assert.deepEqual(ids("determinism:differs"), [1]);
  assert.deepEqual(ids("determinism:same"), [0]);
  assert.deepEqual(ids("determinism:once"), [2, 3, 4, 5]);
  assert.deepEqual(ids("-determinism:once state:fail"), [1]);
  assert.match(problems("determinism:difers")[0]!, /Did you mean 'differs'\?/);
});

test("a minus takes away", () => {
  assert.deepEqual(ids("-backend:tilelang"), [4, 5]);
  assert.deepEqual(ids("-nvidia -state:error"), [3, 4, 5]);
  assert.deepEqual(ids("-"), ids('"-"'));
});

test("quotes hold spaces together and take the meaning from signs", () => {
  assert.deepEqual(ids('reason:"out of memory"'), [1]);
  assert.deepEqual(ids('"(of 2)"'), [1]);
  assert.deepEqual(ids('reason:"memory: 3"'), [1]);
  assert.deepEqual(ids('target:"gfx*"'), []);
  assert.deepEqual(parse('"a:b"').terms[0]!.key, "");
  assert.deepEqual(parse('reason:"say \\"no\\""').terms[0]!.values, ['say "no"']);
});

test("numbers are compared; NaN counts as infinite, and what is not known matches none", () => {
  assert.deepEqual(ids("noise:>1.5"), [1, 5]);
  assert.deepEqual(ids("noise:inf"), [5]);
  assert.deepEqual(ids("noise:1..1.5"), [0]);
  assert.deepEqual(ids("noise:none"), [2, 3, 4]);
  assert.deepEqual(ids("noise:any"), [0, 1, 5]);
  assert.deepEqual(ids("-noise:>1.5"), [0, 2, 3, 4]);
  assert.deepEqual(ids("cases:2"), [1, 3]);
  assert.equal(compared("1.5x"), null);
  assert.equal(compared(">=1e3")!(1000), true);
  assert.equal(compared("..2")!(-1), true);
  assert.equal(compared(".."), null);
});

test("yes and no", () => {
  assert.deepEqual(ids("stale:yes"), [1]);
  assert.deepEqual(ids("stale:no"), [0, 2, 3, 4, 5]);
  assert.deepEqual(ids("red:yes"), [1, 2]);
  assert.match(problems("stale:maybe")[0]!, /neither yes nor no/);
});

test("with case: or dtype:, the state is that of the named cases", () => {
  assert.deepEqual(ids("dtype:bf16 state:known"), [5]);
  assert.deepEqual(ids("dtype:fp32 state:known"), []);
  assert.deepEqual(ids("dtype:fp32 state:fail"), [1]);
  assert.deepEqual(ids("case:tokens1000 -state:pass"), [2, 3, 4, 5]);
  assert.deepEqual(ids("case:tokens1000 dtype:fp32"), []);
  assert.deepEqual(ids("-case:tokens5"), [0, 2, 3, 4, 5]); // cell 1 has no third case
  assert.deepEqual(ids("dtype:fp32 evidence:compiled"), []); // the cell has no such case
});

test("dtype: is a whole word of a case's name, and chooses its noise ratio", () => {
  assert.equal(word("bf16").test("tokens5-bf16-seed0"), true);
  assert.equal(word("f16").test("tokens5-bf16-seed0"), false);
  assert.deepEqual(ids("dtype:bf16 noise:>2"), []);
  assert.deepEqual(ids("dtype:bf16 noise:1.5"), [0, 1, 5]);
  assert.equal(search(model, "dtype:bf16").dtype, "bf16");
});

test("an unknown key is explained, and the rest of the search holds", () => {
  assert.deepEqual(problems("stae:error"), [
    "Unknown key 'stae'. Did you mean 'state'? Put a word with a colon in quotes to search for it.",
  ]);
  assert.deepEqual(ids("stae:error nvidia"), [0, 1]);
  assert.match(problems("qqqq:1")[0]!, /The keys are op, direction/);
});

test("an unknown value is explained", () => {
  assert.deepEqual(problems("state:eror"), ["No state is 'eror'. Did you mean 'error'?"]);
  assert.match(problems("toolchain:tilelang")[0]!, /Did you mean 'tilelang-0.1'\?/);
  assert.match(problems("target:sm_100")[0]!, /No target is 'sm_100'/);
  assert.match(problems("target:gfx")[0]!, /Did you mean '\*gfx\*'/);
  assert.match(problems("noise:big")[0]!, /compares with no number/);
  assert.match(problems("case:nothing")[0]!, /No name of a case matches case:nothing/);
  assert.match(problems("state:")[0]!, /has no value/);
  assert.match(problems('reason:"open')[0]!, /has no end/);
});

test("signs of regular expressions are ordinary", () => {
  assert.equal(pattern("a.b", true).test("axb"), false);
  assert.equal(pattern("(+[", false).test("x(+[y"), true);
  assert.equal(pattern("a\\*", true).test("a*"), true);
  assert.deepEqual(ids("((((("), []);
});

test("every key has an example that is understood", () => {
  for (const key of KEYS) assert.deepEqual(parse(key.example).problems, [], key.name);
});

test("a value is written so that it is read again", () => {
  for (const value of ["plain", "with space", 'a"quote', "a,b", "a*b", "a\\b", "-minus", "a:b"]) {
    const [term] = parse(`op:${written(value)}`).terms;
    assert.equal(term!.values.length, 1, value);
    assert.equal(pattern(term!.values[0]!, true).test(value), true, value);
  }
});

test("a term replaces the term with the same key", () => {
  assert.equal(withTerm("mhc state:fail", "state", "error"), "mhc state:error");
  assert.equal(withTerm("", "stale", "yes"), "stale:yes");
});

test("the nearest name is a near one", () => {
  assert.equal(distance("stae", "state"), 1);
  assert.equal(distance("satte", "state"), 1);
  assert.equal(nearest("zzz", ["state"]), "");
});

test("words that name nothing ask, and the others are looked for", () => {
  const asked = (query: string): [number[], string[]] => [ids(query), [...search(model, query).asks]];
  assert.deepEqual(asked("which triton do I pin?"), [[4, 5], ["pin"]]);
  assert.deepEqual(asked("triton version"), [[4, 5], ["pin"]]);
  assert.deepEqual(asked("why not on the MI300"), [[4, 5], ["why"]]);
  assert.deepEqual(
    asked("what got worse since yesterday"),
    [[], ["changed"]],
    "a word that is no filler is looked for",
  );
  assert.deepEqual(asked("is the AMD lane dead"), [[2, 3, 4, 5], ["silent"]]);
  assert.deepEqual(asked("scale"), [[0, 1, 2, 3, 4, 5], []]);
});

test("a name has precedence over a question", () => {
  const other = small();
  other.overview.ops[0]!.op = "version";
  assert.deepEqual([...search(other, "version").cells], [0, 2, 4]);
  assert.equal(search(other, "version").asks.size, 0);
});

test("the name of a vendor means the vendor, and no host with its device", () => {
  const other = small();
  other.overview.devices[0] = ["AMD EPYC (2 threads)"];
  assert.deepEqual([...search(other, "AMD").cells], [2, 3, 4, 5]);
  other.overview.platforms[0]!.title = "NVIDIA GPUs";
  assert.deepEqual([...search(other, "amd gpus").cells], [2, 3, 4, 5]);
  assert.deepEqual([...search(other, "-amd").cells], [0, 1]);
  assert.deepEqual([...search(other, "EPYC").cells], [0, 1]);
  other.overview.platforms[1]!.vendor = "moore_threads";
  other.overview.platforms[1]!.vendor_title = "Moore Threads";
  assert.deepEqual([...search(other, "Moore Threads").cells], [2, 3, 4, 5]);
});
