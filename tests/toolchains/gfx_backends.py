"""TVM's kernels of mhc_post on emulated AMD GPUs, right and with faults: prints for each what was found, as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from gpu_emulators.amd.module import Module
from gpu_emulators.common.errors import EmulatorError, FoundError
from mhc.backends import load, with_fp32_products
from mhc.ops.mhc_post import MhcPostInputs, empty_outputs

TARGETS = ("gfx942", "gfx1100")


def inputs() -> MhcPostInputs:
    draw = torch.Generator().manual_seed(0)
    shapes = ((5, 4, 200), (5, 200), (5, 4), (5, 4, 4))
    return MhcPostInputs(*(torch.randn(*shape, generator=draw) for shape in shapes))


def ran(target: str) -> str:
    """Run the forward, and return what is wrong: what was found, or that numbers differ from the reference's."""
    given = inputs()
    out, right = empty_outputs(given), empty_outputs(given)
    out.out.fill_(float("nan"))
    load("reference", "mhc_post").run(given, right)
    try:
        load("tvm", "mhc_post").run(given, out, target)
    except FoundError as error:
        return "; ".join(sorted({one.kind for one in error.findings}))
    except EmulatorError as error:
        return str(error)
    return "" if torch.allclose(out.out, right.out, atol=1e-5) else "other numbers"


def changed(target: str, change: Callable[[Any], Any]) -> str:
    """Run with another launch: ``change`` gets the arguments of Module.launch and returns others."""
    real = Module.launch
    Module.launch = lambda self, *given: real(self, *change(given))  # type: ignore[method-assign]
    try:
        return ran(target)
    finally:
        Module.launch = real  # type: ignore[method-assign]


def fewer_blocks(given: Any) -> Any:
    kernel, grid, *rest = given
    return kernel, (grid[0] - 1, *grid[1:]), *rest


def more_blocks(given: Any) -> Any:
    kernel, grid, *rest = given
    return kernel, (grid[0] + 1, *grid[1:]), *rest


def fewer_threads(given: Any) -> Any:
    kernel, grid, threads, *rest = given
    return kernel, grid, threads // 2, *rest


def shorter(given: Any) -> Any:
    kernel, grid, threads, values, *rest = given
    return kernel, grid, threads, [one[:-1] if isinstance(one, torch.Tensor) else one for one in values], *rest


def exchanged(given: Any) -> Any:
    kernel, grid, threads, values, *rest = given
    return kernel, grid, threads, [values[1], values[0], *values[2:]], *rest


CHANGES = (fewer_blocks, more_blocks, fewer_threads, shorter, exchanged)


def left_out(target: str) -> dict[str, Any]:
    """Leave each wait, barrier and load of the kernel out in turn, and count what shows."""
    ran(target)
    form = load("tvm", "mhc_post")._gpu
    module = form._emulated(with_fp32_products(inputs().spec), target)
    program = module._program("mhc_post_kernel")
    counts: dict[str, Counter[str]] = {"wait": Counter(), "barrier": Counter(), "load": Counter()}
    for one in program.instructions:
        kind = next((kind for kind in counts if kind in one.name and "store" not in one.name), None)
        if kind:
            module._programs["mhc_post_kernel"] = program.without(one.address)
            counts[kind][ran(target) or "nothing"] += 1
    module._programs["mhc_post_kernel"] = program
    return {kind: dict(count) for kind, count in counts.items()}


def main() -> None:
    for target in TARGETS:
        results = {change.__name__: changed(target, change) for change in CHANGES}
        print(json.dumps([target, {"right": ran(target)} | results, left_out(target)]))


if __name__ == "__main__":
    main()
