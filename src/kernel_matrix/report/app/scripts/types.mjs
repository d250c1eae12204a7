// Write src/data.ts, the types of the page's data, from the JSON Schema of the Python models.
// `--check` writes nothing, and ends with 1 if the file would change. PYTHON names the interpreter.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compile } from "json-schema-to-typescript";

const app = join(import.meta.dirname, "..");
const file = join(app, "src", "data.ts");
const python = process.env.PYTHON ?? "python3";
const schema = JSON.parse(
  execFileSync(python, [join(app, "scripts", "schema.py")], {
    encoding: "utf-8",
    env: { ...process.env, PYTHONPATH: join(app, "..", "..", "..") },
    maxBuffer: 1 << 26,
  }),
);

// Each property would get a type of its own from its title.
function withoutTitles(node) {
  if (Array.isArray(node)) return node.map(withoutTitles);
  if (node === null || typeof node !== "object") return node;
  const entries = Object.entries(node).filter(([key, value]) => !(key === "title" && typeof value === "string"));
  return Object.fromEntries(entries.map(([key, value]) => [key, withoutTitles(value)]));
}

const { $defs: definitions, ...root } = withoutTitles(schema);
for (const [name, definition] of [["PageData", root], ...Object.entries(definitions)]) {
  definition.additionalProperties = false;
  // Every field is written, apart from Packed, which has one of its fields.
  if (definition.properties && name !== "Packed") definition.required = Object.keys(definition.properties);
}
const whole = { ...root, title: "PageData", $defs: definitions };
const text = await compile(whole, "PageData", {
  bannerComment: "// Made by scripts/types.mjs from the models in page_data.py. Do not edit: npm run types.",
  style: { printWidth: 120 },
  unreachableDefinitions: false,
  maxItems: -1, // tuples of fixed length stay, longer ones are arrays
});
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf-8") !== text) {
    console.error("src/data.ts is out of date. Write it anew: npm run types");
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
