"""The keys that journals are signed with: where they lie, and how the kernel's process is kept from them.

The harness gives the key to the process that compares through a pipe. A later process needs it too: ``--resume``, or
the page of a run that goes on. So where Linux has Landlock, the key is in a file of the user as well: the kernel's
process runs as this user, also as root, and can neither read nor write that file. Elsewhere there is no such file.

Landlock has rules that allow, and none that forbid. What is made later in a folder on the way to the keys cannot be
read or written either. So they are not in the build folder but below ``/var/tmp``, where nothing else is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

_FOLDER = Path("/var/tmp")  # noqa: S108 (it outlives a restart of the machine; the folder in it is the user's alone)
_BUILD = ".build"  # the file next to the keys that has the path of their build folder

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # landlock(7), the same on all architectures of today
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _READ_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 13, 1 << 14
_OF_FOLDERS = sum(1 << bit for bit in range(4, 13))  # to remove and to make what is in a folder
_LEAST_ABI, _ABI_OF_TRUNCATE, ABI_OF_SIGNALS = 2, 3, 6  # version 1 forbids every rename from one folder to another
_SCOPE_SIGNALS = 1 << 1
_SET_NO_NEW_PRIVS = 38  # prctl(2)


def folder() -> Path:
    """Return the folder of this user's keys."""
    return _FOLDER.resolve() / f"kernel-matrix-keys-{os.getuid()}"


def key_file(build: Path, job: str) -> Path:
    """Return the file of a job's key, which need not be there."""
    return folder() / hashlib.sha256(os.fsencode(build.resolve())).hexdigest()[:16] / job


def held_key(build: Path, job: str) -> str:
    """Return the key of a job's journal; empty where none is held, or where a kernel could have put it there."""
    with contextlib.suppress(OSError):
        if _is_safe():
            return key_file(build, job).read_text(encoding="utf-8")
    return ""


def hold(build: Path, job: str, key: str) -> None:
    """Keep the key of a job's journal for later processes, where the kernel's process can be kept from it."""
    with contextlib.suppress(OSError):
        folder().mkdir(mode=0o700, exist_ok=True)
        if not _is_safe():
            return
        file = key_file(build, job)
        file.parent.mkdir(exist_ok=True)
        (file.parent / _BUILD).write_text(str(build.resolve()))
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(key)


def _is_safe() -> bool:
    """Return whether the folder is this user's alone, and a kernel's process can be kept from it."""
    facts = folder().lstat()
    return facts.st_uid == os.getuid() and facts.st_mode & 0o170777 == 0o040700 and can_be_kept_away()


def remove_old() -> None:
    """Remove the keys of build folders that are gone."""
    for own in folder().glob("*"):
        with contextlib.suppress(OSError):  # another process has removed them, or makes them now
            if not Path((own / _BUILD).read_text()).exists():
                shutil.rmtree(own, ignore_errors=True)


def abi() -> int:
    """Return the version of Landlock; -1 where there is none."""
    return _syscall(_CREATE_RULESET, None, 0, _VERSION) if sys.platform == "linux" else -1


def can_be_kept_away() -> bool:
    """Return whether :func:`keep_away` works here: with Landlock, and temporary files in a folder off the way."""
    if abi() < _LEAST_ABI:
        return False
    return Path(tempfile.gettempdir()).resolve() not in folder().parents


def keep_away() -> None:
    """Keep this process, and all that it starts, from the keys and from other processes, for ever.

    It can neither read nor write the keys, nor the memory of other processes; from Linux 6.12 on it cannot end them.
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
