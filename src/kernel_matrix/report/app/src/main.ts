/** The page: it receives the data, follows the address, and shows what the address names. */

import { totals, type Totals } from "./aggregate";
import { CellPanel } from "./cell/panel";
import type { Context, View } from "./context";
import { h, replace } from "./dom";
import { footer, header, notices } from "./frame";
import { fromHash, START, toHash, type Place } from "./link";
import { DataError, overview, receive, reload } from "./load";
import { Model } from "./model";
import { SearchBar } from "./search/bar";
import { search, type Found } from "./search/compile";
import { Tabs } from "./tabs";
import { VIEWS_BY_NAME } from "./views";

const REFRESH_SECONDS = 4; // while a run goes on

class Page {
  private place: Place = START;
  private found: Found;
  private sums: Totals;
  private view: View | null = null;
  private typing = false;
  private readonly top = h("div");
  private readonly main = h("main", { id: "view", tabindex: "-1" });
  private readonly bottom = h("footer");
  private readonly bar: SearchBar;
  private readonly tabs: Tabs;
  private readonly panel: CellPanel;

  constructor(
    root: Element,
    private model: Model,
  ) {
    this.found = search(model, "");
    this.sums = totals(model, this.found);
    this.bar = new SearchBar((q, typing) => this.go({ q }, typing));
    this.tabs = new Tabs((view) => toHash({ ...this.place, view, cell: "", case: "" }));
    this.panel = new CellPanel(() => this.go({ cell: "", case: "" }));
    this.frame();
    replace(
      root,
      h(
        "a",
        {
          class: "skip",
          href: "#view",
          on: {
            click: (event) => {
              event.preventDefault();
              this.main.focus();
            },
          },
        },
        "Skip to the results",
      ),
      this.top,
      h("div", { class: "bench" }, this.tabs.element, this.bar.element),
      this.main,
      this.bottom,
      this.panel.element,
    );
    addEventListener("popstate", () => this.follow());
    addEventListener("hashchange", () => this.follow());
    addEventListener("beforeprint", () => this.view?.print?.(true));
    addEventListener("afterprint", () => this.view?.print?.(false));
    matchMedia("print").addEventListener("change", (event) => this.view?.print?.(event.matches));
    document.addEventListener("keydown", (event) => this.key(event));
    this.follow(true);
  }

  private frame(): void {
    const { overview } = this.model;
    document.title = overview.title;
    replace(this.top, header(this.model), notices(this.model));
    replace(this.bottom, footer(this.model));
  }

  private key(event: KeyboardEvent): void {
    const typing = (event.target as HTMLElement).matches("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.panel.close();
      this.bar.focus();
    }
  }

  /** Go to a place, and write it into the address. */
  private go(change: Partial<Place>, typing = false): void {
    const place = { ...this.place, ...change };
    const hash = toHash(place);
    if (hash === location.hash) return;
    if (typing && this.typing) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.typing = typing;
    this.show(place);
  }

  /** Follow the address, after Back, Forward or a link. */
  private follow(first = false): void {
    const place = fromHash(location.hash);
    if (!first && toHash(place) === toHash(this.place)) return;
    this.typing = false;
    this.show(place, first);
  }

  private show(place: Place, always = false): void {
    const before = this.place;
    this.place = place;
    const asked = place.q !== before.q;
    if (asked || always) {
      this.found = search(this.model, place.q);
      this.sums = totals(this.model, this.found);
    }
    const { cell: _cell, case: _case, ...rest } = place;
    const { cell: _cellBefore, case: _caseBefore, ...restBefore } = before;
    if (always || JSON.stringify(rest) !== JSON.stringify(restBefore)) this.draw(place, before);
    this.panel.show(this.context(), place.cell, place.case, always);
  }

  private context(): Context {
    const { model, place, found, sums } = this;
    return { model, place, found, totals: sums, go: (change, typing) => this.go(change, typing) };
  }

  private draw(place: Place, before: Place): void {
    const context = this.context();
    const scrolled = this.view?.scrolled?.();
    const same = place.view === before.view;
    this.bar.show(context);
    this.tabs.show(place);
    const active = document.activeElement;
    const focus = active instanceof HTMLElement && this.main.contains(active) ? marker(active) : null;
    this.view = VIEWS_BY_NAME[place.view](context);
    this.main.replaceChildren(this.view.element);
    // The first view answers before it counts.
    if (this.view.first) this.main.after(this.bar.sums);
    else this.main.before(this.bar.sums);
    if (same && scrolled && place.q === before.q && place.group === before.group) this.view.scrollBack?.(scrolled);
    // What had the focus may be gone: then the view has it, and the keyboard goes on from there.
    if (focus !== null)
      ((focus && this.main.querySelector<HTMLElement>(focus)) || this.main).focus({ preventScroll: true });
    if (!same) scrollTo({ top: 0 });
  }

  /** Show the same place with newer data. */
  refresh(model: Model): void {
    this.model = model;
    this.frame();
    const scroll = scrollY;
    this.show(this.place, true);
    scrollTo({ top: scroll });
  }
}

/** Return a selector for the element that has the focus, to find it in the next drawing. */
function marker(element: HTMLElement): string {
  for (const name of ["fold", "group", "test", "dtype", "cell", "summary"]) {
    const value = element.dataset[name];
    if (value) return `[data-${name}="${CSS.escape(value)}"]`;
  }
  return "";
}

/**
 * Look for newer data while a run goes on, and where `serve` shows the page: a run may begin later. What has not changed
 * is not drawn again: somebody may be reading it.
 */
function keepFresh(page: Page, model: Model): void {
  if (!model.overview.run_notes.running && location.hostname !== "127.0.0.1") return;
  setTimeout(async () => {
    let present = model;
    try {
      const content = await reload();
      if (JSON.stringify(content) !== JSON.stringify(model.overview)) {
        present = new Model(content);
        page.refresh(present);
      }
    } catch {
      // The next file is being written: the page on show stays.
    }
    keepFresh(page, present);
  }, REFRESH_SECONDS * 1000);
}

function start(): void {
  const root = document.getElementById("page")!;
  try {
    const model = new Model(overview());
    const page = new Page(root, model);
    performance.mark("interactive");
    document.documentElement.dataset["ready"] = "yes";
    keepFresh(page, model);
  } catch (error) {
    if (!(error instanceof DataError)) console.error(error);
    replace(
      root,
      h(
        "main",
        { class: "broken" },
        h("h1", null, "This page cannot show its data"),
        h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)),
      ),
    );
  }
}

receive();
// This script is deferred, and so is data/overview.js after it: both have run when this event comes.
document.addEventListener("DOMContentLoaded", start);
