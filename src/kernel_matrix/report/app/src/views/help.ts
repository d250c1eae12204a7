/** The help: how to search, the keys, and how to read the states. */

import type { Context, View } from "../context";
import { h, table } from "../dom";
import { KEYS } from "../search/keys";
import { pill } from "../states";

export function helpView({ model }: Context): View {
  const { overview } = model;
  return {
    element: h(
      "div",
      { class: "help" },
      h("h2", null, "How to search"),
      h("p", null, "A search is words and terms KEY:VALUE, with spaces between them. A cell must match all of them."),
      h(
        "ul",
        null,
        h(
          "li",
          null,
          "The name of a vendor means its devices. Any other word is looked for in everything that a square says: the operator, the platform, the target, the toolchain, the state; the devices that ran it and their names for people (H100, MI300, Arm); a dtype. What has no such name is looked for in the reasons.",
        ),
        h(
          "li",
          null,
          h("code", null, "*"),
          " stands for any text and ",
          h("code", null, "?"),
          " for one character: ",
          h("code", null, "target:gfx*"),
          ".",
        ),
        h(
          "li",
          null,
          "Words that name nothing may ask: ",
          h("code", null, "which version do I pin"),
          ", ",
          h("code", null, "why not ascend"),
          ", ",
          h("code", null, "what got worse"),
          ", ",
          h("code", null, "is AMD silent"),
          ". The answer stands above the rows.",
        ),
        h("li", null, "A comma means or: ", h("code", null, "state:error,fail"), "."),
        h("li", null, "A minus means not: ", h("code", null, "-backend:t*"), "."),
        h(
          "li",
          null,
          "Quotes hold spaces together, and take the meaning from signs: ",
          h("code", null, 'reason:"out of memory"'),
          ".",
        ),
        h(
          "li",
          null,
          "Numbers are compared with ",
          h("code", null, ">"),
          ", ",
          h("code", null, ">="),
          ", ",
          h("code", null, "<"),
          ", ",
          h("code", null, "<="),
          ", or lie in a range: ",
          h("code", null, "noise:0.9..1.1"),
          ". ",
          h("code", null, "none"),
          ": not known; ",
          h("code", null, "any"),
          ": known; ",
          h("code", null, "inf"),
          ": infinite, as NaN is.",
        ),
        h(
          "li",
          null,
          "With ",
          h("code", null, "case:"),
          " or ",
          h("code", null, "dtype:"),
          ", the search means the cases that are named, and ",
          h("code", null, "state:"),
          " means their states: ",
          h("code", null, "dtype:bf16 state:fail"),
          " finds the cells in which a case in bf16 fails.",
        ),
      ),
      table(
        "keys of the search",
        [
          { title: "key", header: true, cell: (key) => h("code", null, `${key.name}:`) },
          { title: "means", cell: (key) => key.meaning, wide: true },
          {
            title: "such as",
            cell: (key) => h("a", { href: `#grid?q=${encodeURIComponent(key.example)}` }, h("code", null, key.example)),
          },
        ],
        KEYS,
        "search-keys",
      ),
      h("h2", null, "How to read the states"),
      table(
        "states",
        [
          { title: "state", header: true, cell: (state) => pill(state.name) },
          { title: "means", cell: (state) => state.meaning, wide: true },
          { title: "elsewhere called", cell: (state) => state.elsewhere.join(", ") },
          { title: "red", cell: (state) => (state.red ? "yes" : "no") },
        ],
        overview.states,
        "states",
      ),
      h(
        "p",
        null,
        "A result is ",
        h("b", null, "stale"),
        ` if it was ${overview.stale_meaning}. It is hatched, says stale, and is never drawn as plain green.`,
      ),
      h(
        "p",
        null,
        `The square of a cell shows the worst state of its cases and the least evidence. A case that is unavailable or excluded counts only where no case says more; its square then says how many there are. A square of several cells has the colour of the best that is known of them, and how many cells that is; what is red and what fails as expected is marked on it. Evidence rises from ${overview.evidence.join(" over ")}; it is never added up across levels. Stripes, and the word emulated, mark what an emulator or an interpreter ran, in any state.`,
      ),
      h(
        "p",
        null,
        "Canaries are faults that were put into results to see that the comparison finds them: found of injected.",
      ),
      h("h2", null, "Keyboard"),
      table(
        "keys",
        [
          { title: "key", header: true, cell: ([key]) => h("kbd", null, key) },
          { title: "does", cell: ([, does]) => does },
        ],
        [
          ["/", "goes to the search"],
          ["Esc", "closes the cell; in the search, empties it"],
          ["Arrow keys, Page Up, Page Down, Home, End", "move in the grid"],
          ["Enter", "opens the square that has the focus; folds or unfolds a group"],
          ["Tab", "goes on to the next part of the page"],
        ] as const,
      ),
      h("h2", null, "Links"),
      h(
        "p",
        null,
        "The address always names what the page shows: the view, the search, the open cell and case, the dtype, the folded groups. Copy it, and others see the same.",
      ),
    ),
  };
}
