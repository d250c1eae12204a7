"""The state of the kernel's process, which a kernel must leave as it was."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import builtins
import contextlib
import ctypes
import decimal
import gc
import locale
import logging
import math
import os
import platform
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

from kernel_matrix.kit import outside
from kernel_matrix.kit.frameworks.base import State
from kernel_matrix.kit.replaced import functions_of

_CONTROL = 0xFFC0  # of MXCSR: rounding, masks of exceptions, and whether subnormal numbers are flushed
_SUBNORMAL = 0x2  # the flag of MXCSR that says: an operand was subnormal
_PLACE = 7  # of MXCSR in the 32 bytes that glibc saves

# What a library that is imported by the first call may change.
FIRST_CALL = (
    "the filters of warnings",
    "the import path",
    "the threads of Python",
    "the environment",
    "the open files",
    "the handlers of signals",
    "the limit of recursion",
    "the hooks of Python",
    "what runs at the end of Python",
    "files or the network",
)


def now(frameworks: State) -> dict[str, Any]:
    """Return the state that belongs to the whole process."""
    return {name: get() for name, (get, _) in {**_PLAIN, **frameworks}.items()}


def restore(before: Mapping[str, Any], frameworks: State) -> list[str]:
    """Set back what has changed, and return the names of it."""
    changed = []
    for name, (get, set_back) in {**_PLAIN, **frameworks}.items():
        if name in before and (after := get()) != before[name]:
            which = _which(before[name], after)
            changed.append(f"{name} ({', '.join(which)})" if which else name)
            if set_back is not None:
                set_back(before[name])
    return changed


def _which(before: Any, after: Any) -> list[str]:
    """Return which parts of a state have changed, where it has parts with names."""
    if isinstance(after, dict):
        keys = [key for key in after.keys() | before.keys() if after.get(key) != before.get(key)]
        return sorted(os.fsdecode(key) if isinstance(key, bytes) else str(key) for key in keys)
    if isinstance(after, tuple) and after and isinstance(after[-1], str):
        return list(after[len(before) :][:3])
    return []


def subnormal_flag(*, clear: bool = False) -> bool | None:
    """Return whether an operation of this thread had a subnormal operand since the flag was cleared.

    None where that is not known: on other machines than x86-64 with glibc.
    """
    if (state := _registers()) is None:
        return None
    was = bool(state[_PLACE] & _SUBNORMAL)
    if clear:
        state[_PLACE] &= ~_SUBNORMAL & 0xFFFFFFFF
        _libm().fesetenv(state)
    return was


@cache
def _libm() -> Any:
    return ctypes.CDLL("libm.so.6")


def _registers() -> Any:
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux") or not platform.libc_ver()[0]:
        return None
    state = (ctypes.c_uint32 * 8)()
    _libm().fegetenv(state)
    return state


def _arithmetic() -> tuple[int, int]:
    """Return how the CPU rounds, and what it does with subnormal numbers, in this thread."""
    state = _registers()
    return (0, 0) if state is None else (int(state[0]) & 0xFFFF, int(state[_PLACE]) & _CONTROL)


def _set_arithmetic(before: tuple[int, int]) -> None:
    state = _registers()
    state[0] = (state[0] & 0xFFFF0000) | before[0]
    state[_PLACE] = (state[_PLACE] & ~_CONTROL & 0xFFFFFFFF) | before[1]
    _libm().fesetenv(state)


def _signals() -> dict[signal.Signals, Any]:
    return {number: _signal.getsignal(number) for number in _SIGNALS}  # signal's own makes an enumeration of each


def _set_signals(before: Mapping[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        if handler is not None and _signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _variables() -> dict[bytes, bytes]:
    """Return the environment as the process has it; to decode every text takes longer than all else of a look."""
    return dict(vars(os.environ)["_data"])


def _set_variables(before: Mapping[bytes, bytes]) -> None:
    os.environ.clear()
    os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in before.items()})


def _set_filters(before: Any) -> None:
    warnings.filters[:] = before  # type: ignore[index]


def _set_collector(before: tuple[bool, tuple[int, int, int]]) -> None:
    (gc.enable if before[0] else gc.disable)()
    gc.set_threshold(*before[1])


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        return 0


class _Threads(frozenset[int | None]):
    """Threads. Those that have ended by now are no change: a library ends one that has had nothing to do."""

    def __ne__(self, before: object) -> bool:
        return not (isinstance(before, _Threads) and self <= before)


def _threads() -> _Threads:
    """Return the threads, and of a pool the queue that its threads share: it may start more of them later."""
    pools = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
    return _Threads(id(pools[one]) if one in pools else one.ident for one in threading.enumerate())


def _limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(which) for name, which in _LIMITS.items()}


def _set_limits(before: Mapping[str, tuple[int, int]]) -> None:
    for name, limits in before.items():
        with contextlib.suppress(ValueError, OSError):  # a hard limit that was lowered stays low
            resource.setrlimit(_LIMITS[name], limits)


def _hooks() -> tuple[int, ...]:
    return tuple(map(id, (sys.excepthook, sys.unraisablehook, threading.excepthook, *sys.meta_path, *sys.path_hooks)))


def _timers() -> list[bool]:
    return [
        bool(signal.getitimer(which)[0]) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    ]


def _timeout() -> float | None:
    return socket.getdefaulttimeout() if (socket := sys.modules.get("socket")) else None


def _context() -> str:
    return repr(decimal.getcontext())


_LIMITS: Mapping[str, int] = {name: one for name, one in vars(resource).items() if name.startswith("RLIMIT_")}
_SIGNALS = [one for one in signal.Signals if one not in (signal.SIGKILL, signal.SIGSTOP)]
_PLAIN: State = {
    "Python's random numbers": (random.getstate, random.setstate),
    "the environment": (_variables, _set_variables),
    "the working directory": (os.getcwd, os.chdir),
    "the import path": (lambda: list(sys.path), lambda state: sys.path.__setitem__(slice(None), state)),
    "the handlers of signals": (_signals, _set_signals),
    "the filters of warnings": (
        lambda: list(warnings.filters),
        _set_filters,
    ),
    "the threads of Python": (_threads, None),
    "the cores that it may use": (lambda: os.sched_getaffinity(0), lambda state: os.sched_setaffinity(0, state)),
    "how the CPU rounds and flushes": (_arithmetic, _set_arithmetic),
    "the collector of garbage": (
        lambda: (gc.isenabled(), gc.get_threshold()),
        _set_collector,
    ),
    "the limit of recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the mask of new files": (_umask, os.umask),
    "the open files": (_files, None),
    "the context of decimals": (_context, None),
    "where it prints": (lambda: (id(sys.stdout), id(sys.stderr)), None),
    "the trace and profile functions": (lambda: (sys.gettrace(), sys.getprofile()), None),
    "the priority of the process": (lambda: os.getpriority(os.PRIO_PROCESS, 0), None),
    "the limits of the process": (_limits, _set_limits),
    "the timers of signals": (_timers, None),
    "the locale": (lambda: locale.setlocale(locale.LC_ALL), lambda state: locale.setlocale(locale.LC_ALL, state)),
    "how often threads take turns": (sys.getswitchinterval, sys.setswitchinterval),
    "which messages are logged": (lambda: logging.root.manager.disable, logging.disable),
    "the time limit of sockets": (_timeout, None),
    "the hooks of Python": (_hooks, None),
    "what runs at the end of Python": (atexit._ncallbacks, None),
    "Python's own functions": functions_of(builtins, math, time),
    "files or the network": (outside.done, None),
}
