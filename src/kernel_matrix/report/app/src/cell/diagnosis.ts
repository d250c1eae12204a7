/** The cause and the remedy of an error, of a cell or of a case. */

import type { Diagnosis } from "../data";
import { h, outside } from "../dom";
import { beginning } from "../text";

/** Return the cause and the remedy of an error. */
export function diagnosed(diagnosis: Diagnosis | null): HTMLElement | null {
  if (!diagnosis || diagnosis.cause === "") return null;
  return h(
    "p",
    { class: "note", "data-test": "diagnosis" },
    h("b", null, "Cause: "),
    beginning(diagnosis.cause, 4000),
    diagnosis.remedy !== "" && [h("br"), h("b", null, "Remedy: "), beginning(diagnosis.remedy, 4000)],
    diagnosis.rule !== "" && h("span", { class: "dim" }, ` (rule ${diagnosis.rule})`),
    diagnosis.link !== "" && [" ", outside(diagnosis.link, "More about it")],
  );
}
