// Build the page into dist. `--check` builds it elsewhere, and ends with 1 if dist holds anything else.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const app = join(import.meta.dirname, "..");
const dist = join(app, "dist");
const check = process.argv.includes("--check");
const folder = check ? mkdtempSync(join(tmpdir(), "page-")) : dist;
mkdirSync(folder, { recursive: true });

const { metafile } = await build({
  metafile: true,
  absWorkingDir: app,
  entryPoints: { app: "src/main.ts" },
  outdir: folder,
  bundle: true,
  // A classic script: a page that is opened from a file may not load modules.
  format: "iife",
  target: ["chrome109", "firefox115", "safari16"],
  charset: "utf8",
  minify: true,
  legalComments: "none", // few packages have any: licenses.txt has the licence of each
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
writeFileSync(join(folder, "licenses.txt"), licenses(Object.keys(metafile.inputs)));
writeFileSync(join(folder, "sources.sha256"), digest());

/** Return the name, version and licence of every package that a part of is in the page. */
function licenses(files) {
  const packages = new Set(
    files.map((file) => /^(node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]).filter(Boolean),
  );
  const texts = [...packages].sort().map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(app, path, "package.json"), "utf8"));
    const file = readdirSync(join(app, path)).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (!file) throw new Error(`${name} has no file with its licence: it cannot be a part of the page`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(app, path, file), "utf8").trim()}\n`;
  });
  return ["app.js holds parts of these packages.\n", ...texts].join(`\n${"-".repeat(80)}\n\n`);
}

/** Return the digest of all that dist is built from; a test without npm compares it. */
function digest() {
  const hash = createHash("sha256");
  for (const folder of ["src", "scripts"]) {
    for (const name of readdirSync(join(app, folder), { recursive: true }).map(String).sort()) {
      const file = join(app, folder, name);
      if (/\.(ts|css|html|mjs|py)$/.test(name)) hash.update(`${folder}/${name}\n`).update(readFileSync(file));
    }
  }
  for (const name of ["package.json", "package-lock.json"])
    hash.update(`${name}\n`).update(readFileSync(join(app, name)));
  return `${hash.digest("hex")}\n`;
}

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
