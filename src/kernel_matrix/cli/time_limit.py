"""End a command that takes too long, whatever it waits for or computes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from kernel_matrix.base.errors import UserError


@contextmanager
def time_limit(seconds: float, sentence: str) -> Iterator[None]:
    """End this process with a sentence and the exit status of a wrong input if the block takes longer.

    A database is not interrupted within one call of a function, such as that for the distance of two long texts.
    """
    timer = Timer(seconds, _end, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(sentence: str) -> None:
    print(f"kernel-matrix: {sentence}", file=sys.stderr, flush=True)
    os._exit(UserError.exit_code)
