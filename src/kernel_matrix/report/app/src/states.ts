/** How a state looks: a shape, a word and a colour. */

import { h } from "./dom";
import type { Model, StateName } from "./model";

const SHAPES: Record<StateName, string> = {
  pass: "✓",
  held: "▲",
  told: "“",
  compiled: "◆",
  lowered: "◇",
  known: "≈",
  flaky: "↻",
  fixed: "★",
  fail: "✗",
  error: "⚠",
  missing: "?",
  unavailable: "∅",
  excluded: "–",
};

export function shape(state: string): string {
  return SHAPES[state as StateName] ?? "•";
}

/** Return a label with a state's shape, word and colour. */
export function pill(state: string, stale = false, text = state): HTMLElement {
  return h(
    "span",
    { class: `pill s-${state}${stale ? " stale" : ""}` },
    h("span", { "aria-hidden": "true" }, shape(state), " "),
    text,
    stale && ", stale",
  );
}

/** Return a bar whose parts are as long as their counts. */
export function bar(counts: readonly { state: string; count: number }[], name: string): HTMLElement {
  const whole = counts.reduce((sum, one) => sum + one.count, 0);
  const words = counts.filter((one) => one.count > 0).map((one) => `${one.count} of ${whole} ${one.state}`);
  return h(
    "div",
    { class: "bar", role: "img", "aria-label": `${name}: ${words.join(", ") || "none"}` },
    counts
      .filter((one) => one.count > 0)
      .map((one) =>
        h("span", {
          class: `s-${one.state}`,
          style: `flex: ${one.count}`,
          title: `${one.count} of ${whole}: ${one.state}`,
        }),
      ),
  );
}

/** Return what a state means, in words. */
export function meaning(model: Model, state: string): string {
  return model.overview.states.find((one) => one.name === state)?.meaning ?? "";
}
