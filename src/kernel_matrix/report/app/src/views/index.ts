/** The views by name. */

import type { Context, View } from "../context";
import type { ViewName } from "../link";
import { accuracyView } from "./accuracy";
import { checksView } from "./checks";
import { compareView } from "./compare";
import { gapsView } from "./gaps";
import { gridView } from "./grid";
import { helpView } from "./help";
import { historyView } from "./history";
import { machinesView } from "./machines";
import { speedView } from "./speed";
import { toolchainsView } from "./toolchains";

export const VIEWS_BY_NAME: Record<ViewName, (context: Context) => View> = {
  grid: gridView,
  gaps: gapsView,
  accuracy: accuracyView,
  speed: speedView,
  compare: compareView,
  toolchains: toolchainsView,
  checks: checksView,
  history: historyView,
  machines: machinesView,
  help: helpView,
};
