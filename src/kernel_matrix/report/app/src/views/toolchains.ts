import type { Context, View } from "../context";
import { h } from "../dom";
export function toolchainsView(_: Context): View { return { element: h("p", null, "toolchains") }; }
