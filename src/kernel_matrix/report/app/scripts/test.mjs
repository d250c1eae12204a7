// Bundle the tests with what they import, and run them with Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const app = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "page-tests-"));
const files = readdirSync(join(app, "tests")).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: app,
  entryPoints: files.map((name) => join("tests", name)),
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  sourcemap: "inline",
  logLevel: "warning",
});
const built = files.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")));
const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit", cwd: app });
rmSync(folder, { recursive: true });
process.exit(run.status ?? 1);
