/** What every view gets. */

import type { Totals } from "./aggregate";
import type { Place } from "./link";
import type { Model } from "./model";
import type { Found } from "./search/compile";

export interface Context {
  model: Model;
  place: Place;
  found: Found;
  totals: Totals;
  /** Go to another place: `typing` joins this step with the one before, so that Back does not go letter by letter. */
  go: (change: Partial<Place>, typing?: boolean) => void;
}

export interface View {
  element: HTMLElement;
  /** Whether it is the first view, whose legend stands below it. */
  first?: boolean;
  /** Prepare for print, and go back. */
  print?: (on: boolean) => void;
  /** How far a grid is scrolled. */
  scrolled?: () => { top: number; left: number };
  scrollBack?: (to: { top: number; left: number }) => void;
}
