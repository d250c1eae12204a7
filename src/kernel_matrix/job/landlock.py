"""Keep the kernel's process from what the harness remembers of its runs, and from other processes (landlock(7)).

The harness keeps in a folder of the user how far the journal of each job is proven (:mod:`kernel_matrix.run.proven`).
The kernel's process runs as this user, also as root, and can neither read nor write what is there.

Landlock has rules that allow, and none that forbid. What is made later in a folder on the way there cannot be read or
written either. So the folder is not the build folder but one below ``/var/tmp``, where nothing else is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import tempfile
from pathlib import Path

_FOLDER = Path("/var/tmp")  # noqa: S108 (it outlives a restart of the machine; the folder in it is the user's alone)

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # landlock(7), the same on all architectures of today
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _READ_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 13, 1 << 14
_OF_FOLDERS = sum(1 << bit for bit in range(4, 13))  # to remove and to make what is in a folder
_LEAST_ABI, _ABI_OF_TRUNCATE, ABI_OF_SIGNALS = 2, 3, 6  # version 1 forbids every rename from one folder to another
_SCOPE_SIGNALS = 1 << 1
_SET_NO_NEW_PRIVS = 38  # prctl(2)


def folder() -> Path:
    """Return the folder of this user."""
    return _FOLDER.resolve() / f"kernel-matrix-{os.getuid()}"


def abi() -> int:
    """Return the version of Landlock; -1 where there is none."""
    return _syscall(_CREATE_RULESET, None, 0, _VERSION) if sys.platform == "linux" else -1


def can_be_kept_away() -> bool:
    """Return whether :func:`keep_away` works here: with Landlock, and temporary files in a folder off the way."""
    if abi() < _LEAST_ABI:
        return False
    return Path(tempfile.gettempdir()).resolve() not in folder().parents


def keep_away() -> None:
    """Keep this process, and all that it starts, from the folder and from other processes, for ever.

    It can neither read nor write what is in the folder, nor the memory of other processes; from Linux 6.12 on it cannot
    end them. It may write to ``/proc``: CUDA does not begin where it cannot name its threads there.
    Only the thread that calls this is kept away, so no other one may run yet.
    """
    if not can_be_kept_away():
        return
    version = abi()
    of_files = _READ_FILE | _WRITE_FILE | (_TRUNCATE if version >= _ABI_OF_TRUNCATE else 0)
    way = [path for path in reversed(folder().parents) if path.exists()]
    siblings = [path for place in way for path in place.iterdir() if path not in (*way, folder())]
    attributes = struct.pack("=QQQ", of_files | _OF_FOLDERS | _REFER, 0, _SCOPE_SIGNALS)
    attributes = attributes if version >= ABI_OF_SIGNALS else attributes[:8]
    rules = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(rules, Path("/"), _REFER)
        for path in siblings:
            if not path.is_symlink():
                _allow(rules, path, of_files | _OF_FOLDERS if path.is_dir() else of_files)
        if _syscall(_RESTRICT_SELF, rules, 0) != 0:  # root may at once; another user has to give up setuid programs
            ctypes.CDLL(None).prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            _syscall(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, access: int) -> None:
    """Allow an access to a path and to all below it."""
    with contextlib.suppress(OSError):  # it has gone meanwhile
        file = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", access, file), 0)
        finally:
            os.close(file)


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    """Call Linux; -1 is an error."""
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *longs))
