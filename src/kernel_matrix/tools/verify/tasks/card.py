"""Time a copy on the device of a candidate."""

from __future__ import annotations

import time
from typing import Any

import torch

_SECONDS, _LEAST = 0.3, 3


def copy_seconds(size: int, device: str) -> float:
    """Return the seconds in which the device reads half of these bytes and writes them."""
    source = torch.zeros(size // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return _seconds(lambda: target.copy_(source), device)


def _seconds(call: Any, device: str) -> float:
    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    call()
    wait()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _LEAST or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)
