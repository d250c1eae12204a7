"""Python files are parsed in several threads at once."""

from __future__ import annotations

import ast
import gc
import threading
import time
from collections.abc import Iterator

import pytest

from kernel_matrix.base.syntax import parsed

SOURCE = "\n".join(f"def name_{number}(x):\n    return [x + {number}, (x, x * 2)]" for number in range(50))


@pytest.fixture
def threads_change_at_garbage() -> Iterator[None]:
    """Let each collection of garbage give another thread its turn, and collect often."""

    def give_turn(phase: str, facts: dict[str, int]) -> None:
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(give_turn)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(give_turn)


@pytest.mark.usefixtures("threads_change_at_garbage")
def test_threads_parse_beside_each_other() -> None:
    ends: list[ast.Module | Exception] = []

    def parse_at(depth: int) -> None:
        if depth:
            return parse_at(depth - 1)
        for _ in range(20):
            try:
                ends.append(parsed(SOURCE))
            except Exception as error:
                ends.append(error)
        return None

    threads = [threading.Thread(target=parse_at, args=(depth,)) for depth in (0, 7, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 60
    assert {type(end) for end in ends} == {ast.Module}, ends
