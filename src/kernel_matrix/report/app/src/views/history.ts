import type { Context, View } from "../context";
import { h } from "../dom";
export function historyView(_: Context): View { return { element: h("p", null, "history") }; }
