"""Compile the kernels of a layer side by side, while the first one runs.

A layer needs the kernels of three operators in both directions. Each would be compiled at its own first call, one
after the other. The threads here only compile: nothing of them touches a GPU, and what they made is found in the caches
of the compilers. What goes wrong in one of them goes wrong again at the kernel's own first call, which then says it.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from mhc.backends import operators_of
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.sinkhorn import SinkhornSpec


@functools.cache
def compile_layer(
    backend: str,
    device: torch.device,
    sizes: tuple[int, int, torch.dtype, bool],
    options: tuple[Any, ...],
    sinkhorn_options: tuple[Any, ...],
) -> None:
    """Begin to compile what a layer on a GPU needs after its first kernel, once for each kind of layer.

    ``sizes`` are the streams, hidden, the dtype of x, and whether there is a gamma.
    """
    if device.type != "cuda":
        return
    streams, hidden, dtype, gamma = sizes
    norm_eps, pre_eps, post_scale, precision = options
    specs = {
        "sinkhorn": SinkhornSpec(streams, *sinkhorn_options),
        "mhc_post": MhcPostSpec(streams, hidden, dtype),
        "mhc_pre": MhcPreSpec(streams, hidden, dtype, gamma, norm_eps, pre_eps, precision, post_scale),
    }
    target = _target(device)
    threads = ThreadPoolExecutor(len(specs) * 2 - 1, thread_name_prefix="mhc-compile")
    for (op, direction), kernel in operators_of(backend).items():
        if op in specs and (op, direction) != ("mhc_pre", "forward") and hasattr(kernel, "compile"):
            threads.submit(kernel.compile, specs[op], target)
    threads.shutdown(wait=False)


def _target(device: torch.device) -> str:
    """Return the name of the architecture that a GPU is."""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).split(":")[0]
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))
