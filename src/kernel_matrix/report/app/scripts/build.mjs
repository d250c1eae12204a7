// Build the page into dist. `--check` builds it elsewhere, and ends with 1 if dist holds anything else.
import { mkdtempSync, readFileSync, readdirSync, copyFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const app = join(import.meta.dirname, "..");
const dist = join(app, "dist");
const check = process.argv.includes("--check");
const folder = check ? mkdtempSync(join(tmpdir(), "page-")) : dist;
mkdirSync(folder, { recursive: true });

await build({
  absWorkingDir: app,
  entryPoints: { app: "src/main.ts" },
  outdir: folder,
  bundle: true,
  // A classic script: a page that is opened from a file may not load modules.
  format: "iife",
  target: ["chrome109", "firefox115", "safari16"],
  charset: "utf8",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
await build({
  absWorkingDir: app,
  entryPoints: { app: "src/style/app.css" },
  outdir: folder,
  bundle: true,
  minify: true,
  target: ["chrome109", "firefox115", "safari16"],
  charset: "utf8",
  logLevel: "warning",
});
copyFileSync(join(app, "src", "index.html"), join(folder, "index.html"));

if (check) {
  const names = (path) => readdirSync(path).sort().join(" ");
  const differs = readdirSync(folder).filter((name) => {
    try {
      return !readFileSync(join(folder, name)).equals(readFileSync(join(dist, name)));
    } catch {
      return true;
    }
  });
  if (differs.length || names(folder) !== names(dist)) {
    console.error(`dist is out of date (${differs.join(", ") || names(dist)}). Build it anew: npm run build`);
    process.exit(1);
  }
}
