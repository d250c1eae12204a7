import type { Context, View } from "../context";
import { h } from "../dom";
export function machinesView(_: Context): View { return { element: h("p", null, "machines") }; }
