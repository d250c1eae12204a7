"""The keys that journals are signed with: where they lie, and how the kernel's process is kept from them.

A later process needs the key of a journal: ``--resume``, or the page of a run that goes on. So it is in a file of the
user, and a kernel runs as this user. Linux's Landlock keeps the kernel's process from the file, also if the user is
root. Landlock has rules that allow, and none that forbid. What is made later beside a folder on the way to the keys
cannot be read either. So they are not in the build folder but below ``/var/tmp``, where nothing else is made.
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
_BUILD = ".build"  # the file beside the keys with the path of their build folder

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # landlock(7), the same on all architectures of today
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _REFER = 1 << 2, 1 << 13
_LEAST_ABI = 2  # version 1 forbids every rename from one folder to another
_SET_NO_NEW_PRIVS = 38  # prctl(2)


def folder() -> Path:
    """Return the folder of this user's keys."""
    return _FOLDER.resolve() / f"kernel-matrix-keys-{os.getuid()}"


def key_file(build: Path, job: str) -> Path:
    """Return the file of a job's key, whose folder is there; in the build folder where there can be no other."""
    with contextlib.suppress(OSError):
        folder().mkdir(mode=0o700, exist_ok=True)
        facts = folder().lstat()
        if facts.st_uid == os.getuid() and facts.st_mode & 0o170777 == 0o040700:
            own = folder() / hashlib.sha256(os.fsencode(build.resolve())).hexdigest()[:16]
            own.mkdir(exist_ok=True)
            (own / _BUILD).write_text(str(build.resolve()))
            return own / job
    (build / "keys").mkdir(parents=True, exist_ok=True, mode=0o700)
    return build / "keys" / job


def remove_old() -> None:
    """Remove the keys of build folders that are gone."""
    for own in folder().glob("*"):
        with contextlib.suppress(OSError):  # another process has removed them, or makes them now
            if not Path((own / _BUILD).read_text()).exists():
                shutil.rmtree(own, ignore_errors=True)


def can_be_kept_away() -> bool:
    """Return whether :func:`keep_away` works here: with Landlock, and temporary files in a folder off the way."""
    if sys.platform != "linux" or _syscall(_CREATE_RULESET, None, 0, _VERSION) < _LEAST_ABI:
        return False
    return Path(tempfile.gettempdir()).resolve() not in folder().parents


def keep_away() -> None:
    """Keep this process, and all that it starts, from the keys and from the memory of other processes, for ever."""
    if not can_be_kept_away():
        return
    way = [path for path in reversed(folder().parents) if path.exists()]
    siblings = [path for place in way for path in place.iterdir() if path not in (*way, folder())]
    attributes = struct.pack("=Q", _READ_FILE | _REFER)
    rules = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(rules, Path("/"), _REFER)
        for path in siblings:
            if not path.is_symlink():
                _allow(rules, path, _READ_FILE)
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
