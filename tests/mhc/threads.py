"""A kernel that two threads run at once, in its own process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from constants import PARAMETERS

SECONDS, MOST_RUNS = 0.05, 200  # that each of the threads runs the kernel


def reversed_tokens(inputs: Any) -> Any:
    """Return the inputs with their tokens in the reverse order."""
    tokens = inputs[0].shape[0]
    values = inputs._asdict()
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and name not in PARAMETERS and value.shape[0] == tokens:
            values[name] = value.flip(0)
    return type(inputs)(**values)


def differing(
    backend: Any,
    inputs: Sequence[Any],
    kernel: dict[str, Any],
    empty: Callable[[dict[str, Any], Any], Any],
    wait: Callable[[], None],
) -> list[str]:
    """Run the kernel on each of ``inputs`` in a thread of its own; return the names of outputs with other bits.

    ``empty`` allocates outputs, and ``wait`` waits for the device. What a run gives when it is alone is what is right.

    Raises:
        Exception: what the kernel raised in a thread.
    """

    def run(given: Any) -> Any:
        out = empty(kernel, given)
        backend.run(given, out, kernel["target"])
        wait()
        return out

    expected = [run(given) for given in inputs]
    together, found, errors = threading.Barrier(len(inputs)), set(), []

    def again_and_again(given: Any, right: Any) -> None:
        try:
            together.wait()
            end = time.perf_counter() + SECONDS
            for _ in range(MOST_RUNS):
                found.update(name for name, a, b in zip(right._fields, run(given), right, strict=True) if _differ(a, b))
                if time.perf_counter() > end:
                    break
        except Exception as error:  # it would end the thread alone
            errors.append(error)

    workers = [threading.Thread(target=again_and_again, args=pair) for pair in zip(inputs, expected, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return sorted(found)


def _differ(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is not None and b is not None and not torch.equal(a, b)
