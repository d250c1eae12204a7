"""A kernel that two threads run at once, in its own process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

_SECONDS, _MOST_RUNS = 0.05, 5000  # that each of the threads runs the kernel
_MOST_SECONDS = 2.0  # where others have the cores: a thread that waits for one meets no other

T = TypeVar("T")


def differing(once: Callable[[T], Mapping[str, bytes]], inputs: Sequence[T]) -> list[str]:
    """Run the kernel on each of ``inputs`` in a thread of its own; return the names of outputs with other bits.

    What a run gives when it is alone is what is right.

    Raises:
        Exception: what the kernel raised in a thread.
    """
    right = [once(values) for values in inputs]
    found: set[str] = set()
    errors: list[Exception] = []
    barrier = threading.Barrier(len(inputs))

    def work(values: T, expected: Mapping[str, bytes]) -> None:
        try:
            barrier.wait()
            began, used = time.perf_counter(), time.thread_time()
            for _ in range(_MOST_RUNS):
                found.update(name for name, bits in once(values).items() if bits != expected[name])
                seconds, worked = time.perf_counter() - began, time.thread_time() - used
                if seconds > _MOST_SECONDS or min(seconds, worked) > _SECONDS:
                    break
        except Exception as error:  # it would end the thread alone
            errors.append(error)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(inputs, right, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return sorted(found)
