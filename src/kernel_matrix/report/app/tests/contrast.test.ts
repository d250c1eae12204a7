import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

/** The tests are bundled elsewhere and run in the folder of the app. */
const styles = ["base", "states", "views"].map((name) => readFileSync(`src/style/${name}.css`, "utf-8")).join("\n");

function luminance(colour: string): number {
  const digits = colour.length === 4 ? [...colour.slice(1)].map((digit) => digit + digit).join("") : colour.slice(1);
  const parts = [0, 2, 4]
    .map((place) => parseInt(digits.slice(place, place + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * parts[0]! + 0.7152 * parts[1]! + 0.0722 * parts[2]!;
}

function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light! + 0.05) / (dark! + 0.05);
}

test("black on white is 21 to 1", () => assert.equal(Math.round(contrast("#000", "#ffffff")), 21));

test("text on the colour of each state, of stale ones and of stripes can be read", () => {
  const states = [...styles.matchAll(/\.s-(\w+) \{\s*--ground-of: (#\w+)(?:;\s*--ink-of: (#\w+))?/g)];
  assert.ok(states.length >= 10);
  for (const [, state, ground, ink] of states)
    assert.ok(contrast(ground!, ink ?? "#fff") >= 4.5, `${state} ${contrast(ground!, ink ?? "#fff")}`);
  const stripe = /\.emulated\.s-pass \{[^}]*(#\w{6})/.exec(styles)![1]!;
  assert.ok(contrast(stripe, "#fff") >= 4.5);
});

test("text on the steps of the heat map and of the agreement can be read", () => {
  const steps = [...styles.matchAll(/\.h-(\d) \{\s*background-color: (#\w+)/g)];
  assert.equal(steps.length, 7);
  for (const [, step, ground] of steps)
    assert.ok(contrast(ground!, step === "0" || step === "6" ? "#fff" : "#1f2328") >= 4.5, `step ${step}`);
  const far = [...styles.matchAll(/\.u-(\w+) \{\s*background: (#\w+)/g)];
  assert.equal(far.length, 7);
  for (const [, step, ground] of far) assert.ok(contrast(ground!, "#fff") >= 4.5, `distance ${step}`);
  const words = [...styles.matchAll(/\.(?:v|p)-(\w+)(?:,\s*\.p-\w+)? \{\s*background: (#\w+)/g)];
  assert.ok(words.length >= 4);
  for (const [, name, ground] of words) assert.ok(contrast(ground!, "#fff") >= 4.5, name);
});

test("text, dim text, links and red can be read on every ground, in light and in dark", () => {
  const themes = [...styles.matchAll(/:root \{([^}]*--ink[^}]*)\}/g)].map(([, body]) =>
    Object.fromEntries([...body!.matchAll(/--([\w-]+): (#\w+)/g)].map(([, name, value]) => [name, value!])),
  );
  assert.equal(themes.length, 2);
  for (const theme of themes) {
    for (const ink of ["ink", "dim", "accent", "red"]) {
      for (const ground of ["ground", "raised"])
        assert.ok(contrast(theme[ink]!, theme[ground]!) >= 4.5, `${ink} on ${ground} ${theme[ground]}`);
    }
    assert.ok(contrast(theme["on-accent"]!, theme["accent"]!) >= 4.5);
  }
});
