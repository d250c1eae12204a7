import type { Context, View } from "../context";
import { h } from "../dom";
export function speedView(_: Context): View { return { element: h("p", null, "speed") }; }
