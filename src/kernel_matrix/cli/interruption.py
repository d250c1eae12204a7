"""Let a signal end a command while its main thread waits, whenever the signal comes.

Python runs a signal's handler in the main thread, when that next runs code. A signal that comes just before the main
thread begins to wait for a lock does not end the wait, so the handler would run when the wait is over: for a job that
hangs, hours later. So a thread learns of each signal, and wakes the main thread until the handler has run.

The handler does not interrupt ``threading.Condition`` while it gives its lock away or takes it: the lock would be
released twice, which is another error, or never. The next waking finds it elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType

from kernel_matrix.base.errors import UserError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAKE = signal.SIGURG  # nothing happens where it has no handler
_SECONDS, _MOST = 0.1, 50  # between two wakings, and how many

_SAME = 2.0  # seconds in which further signals say the same
_OF_LOCKS = ("_release_save", "_acquire_restore", "__enter__", "__exit__")  # methods of threading.Condition


class _Seen:
    """The last signal. No lock guards it: a second signal may come while the handler of the first one runs."""

    handled = False
    put_off = False
    interrupted = float("-inf")


def interrupt_on_signals() -> None:
    """Make Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, so that jobs end with the command."""
    _Seen.interrupted, _Seen.put_off = float("-inf"), False
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    signal.signal(_WAKE, lambda number, frame: _interrupt(number, frame) if _Seen.put_off else None)
    signal.set_wakeup_fd(_pipe(), warn_on_full_buffer=False)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Interrupt the main thread. Whoever ends a job of a cluster sends some signals at once: they are one wish."""
    _Seen.put_off = _is_at_a_lock(frame)
    _Seen.handled = not _Seen.put_off
    if _Seen.put_off:
        return
    now = time.monotonic()
    if now - _Seen.interrupted >= _SAME:
        _Seen.interrupted = now
        raise KeyboardInterrupt


def _is_at_a_lock(frame: FrameType | None) -> bool:
    """Return whether a condition gives its lock away, or takes it."""
    while frame:
        code = frame.f_code
        if code.co_filename == threading.__file__ and (
            code.co_name in _OF_LOCKS
            or (code.co_name == "wait" and {"waiter", "saved_state"} & {*frame.f_locals} == {"waiter"})
        ):
            return True
        frame = frame.f_back
    return False


@functools.cache
def _pipe() -> int:
    """Start the thread, once in a process, and return the file that the system writes each signal's number to."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_wake_main_thread, args=(reader,), name="signals", daemon=True).start()
    return writer


def _wake_main_thread(reader: int) -> None:
    main = threading.main_thread().ident
    while number := os.read(reader, 1):
        if number[0] not in _SIGNALS or main is None:
            continue
        for _ in range(_MOST):
            time.sleep(_SECONDS)
            if _Seen.handled:
                break
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(main, _WAKE)
        _Seen.handled = False


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
