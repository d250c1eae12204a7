/** The search field, what is wrong with the search, and how much it finds. */

import type { Totals } from "../aggregate";
import type { Context } from "../context";
import { h, replace, type Child } from "../dom";
import { outOf, plural } from "../numbers";
import { bar, pill } from "../states";
import { withTerm } from "./parse";
import { suggestions } from "./suggest";

const WAIT = 20; // milliseconds after a key, so that a pasted text or a repeated key is one search

export class SearchBar {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly problems = h("div", { id: "search-problems", role: "status" });
  /** How much there is in which state. */
  readonly sums = h("section", { class: "sums", "aria-label": "totals" });
  private timer = 0;

  constructor(private readonly ask: (q: string, typing: boolean) => void) {
    this.input = h("input", {
      id: "search",
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      autocapitalize: "off",
      placeholder: "Search, such as: H100 bf16, or state:error noise:>1.5",
      "aria-describedby": "search-problems",
    });
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.ask(this.input.value.trim(), true), WAIT);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.input.value !== "") {
        event.preventDefault();
        this.input.value = "";
        this.ask("", false);
      } else if (event.key === "Enter") {
        clearTimeout(this.timer);
        this.ask(this.input.value.trim(), false);
      }
    });
    this.element = h(
      "div",
      { class: "search", role: "search" },
      h("label", { for: "search" }, "Search ", h("kbd", { title: "The key / leads here" }, "/")),
      this.input,
      h("a", { class: "dim", href: "#help", "data-test": "search-help" }, "How to search"),
      this.problems,
    );
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  show(context: Context): void {
    const { place, found, totals } = context;
    if (this.input.value.trim() !== place.q) this.input.value = place.q;
    if (found.problems.length > 0) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    replace(
      this.problems,
      found.problems.map((problem) => h("p", { class: "problem" }, problem)),
    );
    replace(this.sums, sums(context, totals));
  }
}

/** Return how many cells and cases there are of how many, and their states. */
function sums(context: Context, of: Totals): Node[] {
  const { model, place, go } = context;
  const { run } = model.overview;
  const counts = model.stateNames.map((state, index) => ({ state, count: of.caseStates[index]! }));
  const whole = model.planned.reduce((sum, planned) => sum + planned, 0);
  const chosen = (state: string): boolean => place.q.split(/\s+/).includes(`state:${state}`);
  return [
    h(
      "p",
      { class: "sum", "data-test": "totals", "aria-live": "polite" },
      h("b", null, `${outOf(of.cells, model.size)} cells`),
      ", ",
      h("b", null, `${outOf(of.cases, whole)} cases`),
      place.q === "" && ". The bar and its legend count cases.",
      place.q !== "" && [
        " in this search. ",
        h("button", { type: "button", "data-test": "clear", on: { click: () => go({ q: "" }) } }, "Clear the search"),
      ],
      of.cells === 0 && [" Nothing matches.", suggested(context)],
    ),
    bar(counts, "cases by state"),
    h(
      "ul",
      { class: "legend", "aria-label": "states" },
      counts
        .filter((one) => one.count > 0)
        .map((one) =>
          h(
            "li",
            null,
            h(
              "button",
              {
                type: "button",
                class: "legend-state",
                "aria-pressed": chosen(one.state),
                "data-legend": one.state,
                title: model.overview.states.find((state) => state.name === one.state)!.meaning,
                on: {
                  click: () =>
                    go({
                      q: chosen(one.state)
                        ? without(place.q, `state:${one.state}`)
                        : withTerm(place.q, "state", one.state),
                    }),
                },
              },
              pill(one.state),
              ` ${outOf(one.count, of.cases)} cases`,
            ),
          ),
        ),
      of.stale > 0 &&
        h(
          "li",
          null,
          h(
            "button",
            {
              type: "button",
              class: "legend-state",
              "data-legend": "stale",
              title: model.overview.stale_meaning,
              "aria-pressed": place.q.includes("stale:yes"),
              on: {
                click: () =>
                  go({
                    q: place.q.includes("stale:yes")
                      ? without(place.q, "stale:yes")
                      : withTerm(place.q, "stale", "yes"),
                  }),
              },
            },
            h("span", { class: "pill s-pass stale" }, "stale"),
            ` ${outOf(of.stale, of.cells)} cells`,
          ),
        ),
    ),
    ...(place.q === "" && whole !== run.cases
      ? [h("p", { class: "problem" }, `The plan has ${run.cases} cases, and the cells of this page have ${whole}.`)]
      : []),
  ];
}

/** Return buttons for searches that find something. */
function suggested({ model, place, go }: Context): Child {
  const found = suggestions(model, place.q);
  if (found.length === 0) return null;
  return [
    " Did you mean ",
    found.map(({ q, cells }) => [
      h("button", { type: "button", "data-suggested": q, on: { click: () => go({ q }) } }, q),
      ` (${plural(cells, "cell")}) `,
    ]),
    "?",
  ];
}

function without(query: string, term: string): string {
  return query
    .split(/\s+/)
    .filter((word) => word !== term)
    .join(" ");
}
