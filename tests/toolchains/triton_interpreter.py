"""Run a kernel in Triton's interpreter as Triton prepares its language and as the package does; print what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton.language as tl
from triton.runtime import interpreter

OF_TRITON = interpreter._patch_lang  # before the backend replaces it

from mhc.backends import load  # noqa: E402
from mhc.backends.triton.interpreter import _prepared  # noqa: E402
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads  # noqa: E402

KERNEL = load("triton", "sinkhorn", "backward")
IS_REPLACED = interpreter._patch_lang is not OF_TRITON
times: list[int] = []


def counted(function: Any) -> Any:
    """Prepare the language as Triton does, and count it."""
    times.append(1)
    return OF_TRITON(function)


def language() -> list[bool]:
    """Return for each name of the language, in both modules and in the class of tensors, whether it is a builtin."""
    return [tl.core.is_builtin(getattr(place, name)) for place in (tl, tl.core, tl.tensor) for name in dir(place)]


def run(prepare: Callable[[Any], Any]) -> tuple[torch.Tensor, int, list[bool]]:
    """Return the gradient, how often the language was prepared, and what is left of it afterwards."""
    times.clear()
    interpreter._patch_lang = prepare
    generator = torch.Generator().manual_seed(0)
    logits, grad = (torch.randn(7, 4, 4, generator=generator) for _ in range(2))
    out = SinkhornGrads(torch.full_like(logits, float("nan")))
    KERNEL.run(SinkhornBackwardInputs(logits, grad, 7, 1e-6, "deepseek"), out)
    return out.logits, len(times), language()


theirs, ours, again = run(counted), run(partial(_prepared, counted)), run(partial(_prepared, counted))
answer = {
    "replaced": IS_REPLACED,
    "same bits": all(bool(theirs[0].isfinite().all()) and torch.equal(theirs[0], one[0]) for one in (ours, again)),
    "prepared": [theirs[1], ours[1], again[1]],
    "left alike": theirs[2] == ours[2] == again[2],
    "given back": tl.core.is_builtin(tl.arange) and tl.static_print is not print,
}
print(json.dumps(answer))
