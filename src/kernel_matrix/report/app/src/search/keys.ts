/** The keys of the search language. The help on the page is made from this list. */

type Kind = "name" | "text" | "number" | "yes" | "case";

export interface Key {
  name: string;
  kind: Kind;
  meaning: string;
  example: string;
}

export const KEYS: readonly Key[] = [
  { name: "op", kind: "name", meaning: "the operator", example: "op:m*" },
  { name: "direction", kind: "name", meaning: "the direction of the operator", example: "direction:backward" },
  { name: "vendor", kind: "name", meaning: "the vendor of the platform's devices", example: "vendor:nvidia" },
  { name: "platform", kind: "name", meaning: "the platform", example: "platform:rocm" },
  { name: "target", kind: "name", meaning: "the architecture", example: "target:gfx*" },
  { name: "backend", kind: "name", meaning: "the way in which the kernel is written", example: "backend:t*" },
  { name: "toolchain", kind: "name", meaning: "the backend with its versions", example: "toolchain:*-0.*" },
  {
    name: "state",
    kind: "name",
    meaning: "the state of the cell; of its cases, where case: or dtype: is given too",
    example: "state:error,fail",
  },
  { name: "evidence", kind: "name", meaning: "the least evidence of the cell's cases", example: "evidence:ran" },
  { name: "stage", kind: "name", meaning: "where an error stopped", example: "stage:compile" },
  { name: "rule", kind: "name", meaning: "the rule of the diagnosis", example: "rule:*" },
  { name: "reason", kind: "text", meaning: "a part of the reason of the state", example: 'reason:"no such device"' },
  { name: "case", kind: "case", meaning: "a part of the name of a case", example: "case:tokens1000" },
  {
    name: "dtype",
    kind: "case",
    meaning: "a whole word in the name of a case, such as its dtype; noise: is then that of this dtype",
    example: "dtype:bf16",
  },
  { name: "noise", kind: "number", meaning: "the largest noise ratio", example: "noise:>1.5" },
  {
    name: "budget",
    kind: "number",
    meaning: "the error that came nearest to its limit, over that limit",
    example: "budget:>0.9",
  },
  { name: "speed", kind: "number", meaning: "how many times as fast as the baseline", example: "speed:<1" },
  { name: "seconds", kind: "number", meaning: "the seconds of all cases of the cell", example: "seconds:>60" },
  { name: "cases", kind: "number", meaning: "the number of planned cases of the cell", example: "cases:>=20" },
  { name: "stale", kind: "yes", meaning: "whether a case of the cell is stale", example: "stale:yes" },
  { name: "odd", kind: "yes", meaning: "whether the cell was the odd one out in some output", example: "odd:yes" },
  {
    name: "determinism",
    kind: "name",
    meaning: "whether runs on the same inputs gave the same bits: same, differs, or once where no case ran twice",
    example: "determinism:differs",
  },
  { name: "red", kind: "yes", meaning: "whether the state is a red one", example: "red:yes" },
];

export function keyNamed(name: string): Key | undefined {
  return KEYS.find((key) => key.name === name);
}
