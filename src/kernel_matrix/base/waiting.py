"""Wait for something that does not report by itself: ask again and again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.05
_LONG = 10.0  # seconds: what has taken so long is asked for at a quarter of the pace

Answer = TypeVar("Answer")


def wait_until(ask: Callable[[], Answer | None], seconds: float = math.inf) -> Answer | None:
    """Call ``ask`` until its answer is not None, and return the answer; return None after ``seconds`` without one."""
    begin = time.monotonic()
    while (answer := ask()) is None:
        waited = time.monotonic() - begin
        if waited >= seconds:
            return None
        time.sleep(POLL_SECONDS if waited < _LONG else 4 * POLL_SECONDS)
    return answer
