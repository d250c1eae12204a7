"""Wait for something that does not report by itself: ask again and again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.05

Answer = TypeVar("Answer")


def wait_until(ask: Callable[[], Answer | None], seconds: float = math.inf) -> Answer | None:
    """Call ``ask`` until its answer is not None, and return the answer; return None after ``seconds`` without one."""
    end = time.monotonic() + seconds
    while (answer := ask()) is None:
        if time.monotonic() >= end:
            return None
        time.sleep(POLL_SECONDS)
    return answer
