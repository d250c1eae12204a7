"""Keep the kernel's process from setting limits of other processes: a limit of CPU time would end the harness.

prlimit(2) is no signal, so Landlock does not see it. A filter of system calls (seccomp(2)) refuses it where it names a
process and a new limit. A process may still set its own limits, and those that its children begin with.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

_FILTERING = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "ppc64le": 358}  # the number of seccomp(2), by machine
# The numbers of prlimit64(2), each behind the architecture that the system names. A process may have programs of a
# second one: of 32 bits.
_LIMITING = (
    (0xC000003E, 302),  # x86_64
    (0xC000003E, 0x40000000 | 302),  # x32
    (0x40000003, 340),  # i386
    (0xC00000B7, 261),  # aarch64
    (0x40000028, 369),  # arm
    (0xC00000F3, 261),  # riscv64
    (0xC0000015, 325),  # ppc64le
)
_SET_FILTER, _KEEP_SPECULATION = 1, 1 << 2  # the second one: no process becomes slower by its filter
_SET_NO_NEW_PRIVS = 38  # prctl(2)
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # instructions of bpf(4) on 32 bits
_NUMBER, _ARCHITECTURE, _PID, _NEW_LIMIT = 0, 4, 16, 32  # where they are in what a filter sees
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def keep_limits() -> None:
    """Keep this process, and all that it starts, from the limits of other processes, for ever, where Linux can."""
    number = _FILTERING.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return
    program = b"".join(_refusal(*call) for call in _LIMITING) + _instruction(_RETURN, _ALLOW)
    described = struct.pack("@HP", len(program) // 8, ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p).value)
    linux = ctypes.CDLL(None)
    for _ in range(2):
        if linux.syscall(ctypes.c_long(number), _SET_FILTER, _KEEP_SPECULATION, described) == 0:
            return
        linux.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # root may at once; another user gives up setuid programs


def _refusal(architecture: int, number: int) -> bytes:
    """Return the instructions that refuse a call on another process with a new limit; all else goes on behind them."""
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE),
            _instruction(_IF_EQUAL, architecture, otherwise=9),
            _instruction(_LOAD, _NUMBER),
            _instruction(_IF_EQUAL, number, otherwise=7),
            _instruction(_LOAD, _PID),
            _instruction(_IF_EQUAL, 0, then=5),
            _instruction(_LOAD, _NEW_LIMIT),
            _instruction(_IF_EQUAL, 0, otherwise=2),
            _instruction(_LOAD, _NEW_LIMIT + 4),
            _instruction(_IF_EQUAL, 0, then=1),
            _instruction(_RETURN, _REFUSE),
        )
    )


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
