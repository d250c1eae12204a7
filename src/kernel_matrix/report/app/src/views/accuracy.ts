import type { Context, View } from "../context";
import { h } from "../dom";
export function accuracyView(_: Context): View { return { element: h("p", null, "accuracy") }; }
