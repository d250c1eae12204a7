/** Charts, by Observable Plot: it draws SVG, which prints, scales, follows the colours of the page and holds text. */

import { dot, lineY, plot, ruleX, ruleY, tickX, type PlotOptions } from "@observablehq/plot";
import { h } from "./dom";

/** Colours that people with each kind of colour blindness can tell apart, on a light and on a dark ground. */
export const PALETTE = ["#2b7bba", "#d9730d", "#7a5bd0", "#2f9e6e", "#b5487f", "#8a7400", "#5b7083", "#0f8a94"];
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "cross", "wye", "times"] as const;

/** Return a chart in a figure; `name` says in words what it shows. */
export function chart(name: string, options: PlotOptions, caption?: Node | string): HTMLElement {
  const drawing = plot({
    style: {
      background: "transparent",
      color: "inherit",
      fontSize: "12px",
      fontFamily: "inherit",
      overflow: "visible",
    },
    ...options,
  });
  // The whole is one image with one name; its groups have names in a form that ARIA does not allow.
  drawing.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", name);
  return h(
    "figure",
    { class: "chart" },
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${name}, chart` }, drawing),
    caption && h("figcaption", null, caption),
  );
}

/** Return the width that a chart can have. One that needs more than a narrow screen has scrolls in its box. */
export function width(most: number, least = 300): number {
  return Math.max(least, Math.min(most, innerWidth - 48));
}

/** Return the places of the colour and of the symbol of a contender: no two of 64 have the same pair. */
export function markOf(index: number): { color: number; symbol: number } {
  const turn = Math.floor(index / PALETTE.length);
  return { color: index % PALETTE.length, symbol: (index + turn) % SYMBOLS.length };
}

/** Return the scales that give each contender its colour and its symbol. */
export function scales(names: readonly string[]): Pick<PlotOptions, "color" | "symbol"> {
  return {
    color: { domain: [...names], range: names.map((_, index) => PALETTE[markOf(index).color]!) },
    symbol: { domain: [...names], range: names.map((_, index) => SYMBOLS[markOf(index).symbol]!) },
  };
}

/** Return marks of an axis for errors that begin at 0 and span many powers. */
export function steps(largest: number): number[] {
  return [0, 0.5, 1, 2, 4, 16, 64, 256, 1024, 4096, 65_536, 1e6, 1e8, 1e12].filter(
    (step) => step <= largest * 1.2 || step <= 1,
  );
}

// Each by its name: what is not used stays out of the page.
export { dot, lineY, ruleX, ruleY, tickX };
export type { PlotOptions };
