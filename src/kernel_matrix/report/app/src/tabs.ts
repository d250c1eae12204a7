/** The links to the views. */

import { h } from "./dom";
import { VIEWS, type Place, type ViewName } from "./link";

const TITLES: Record<ViewName, string> = {
  grid: "Grid",
  gaps: "Gaps",
  accuracy: "Accuracy",
  speed: "Speed",
  compare: "Compare",
  toolchains: "Toolchains",
  checks: "Checks",
  history: "History",
  machines: "Machines",
  help: "Help",
};

export class Tabs {
  readonly element = h("nav", { "aria-label": "views" });
  private readonly links = new Map<ViewName, HTMLAnchorElement>();

  constructor(private readonly address: (view: ViewName) => string) {
    for (const view of VIEWS) {
      const link = h("a", { "data-view": view }, TITLES[view]);
      this.links.set(view, link);
      this.element.append(link);
    }
  }

  show(place: Place): void {
    for (const [view, link] of this.links) {
      link.href = this.address(view);
      if (view === place.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
}
