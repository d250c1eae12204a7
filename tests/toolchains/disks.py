"""Commands that stand before the kernel's process: its cache is read-only or on a small disk, or it waits for another.

The process gets mounts of its own, so that nothing else sees them, and so that root too cannot write.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


class NoMountsError(Exception):
    """This machine allows a process no mounts of its own; the text says why."""


_OWN_MOUNTS = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))
_PAGE = 4096  # the least size of a disk in memory; 0 would be no limit
_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
_SMALL = 'mount -t tmpfs -o size={room} tmpfs "$0"'
# Ten seconds, then it goes on alone: the other one may have ended before it began.
_MEET = 'touch "$0/$$"; for _ in $(seq 1000); do [ $(ls "$0" | wc -l) -gt 1 ] && break; sleep 0.01; done'


def read_only(folder: Path) -> list[str]:
    """Return the words for a process that cannot write below the folder.

    Raises:
        NoMountsError: this machine does not allow it.
    """
    return _with_mounts(_READ_ONLY, folder)


def small(folder: Path, room: int) -> list[str]:
    """Return the words for a process that has an empty folder with room for so many bytes.

    Raises:
        NoMountsError: this machine does not allow it.
    """
    return _with_mounts(_SMALL.format(room=max(_PAGE, room)), folder)


def meeting(folder: Path) -> list[str]:
    """Return the words for a process that waits until another one is at the same point; the folder is empty."""
    return _before(_MEET, folder)


def _with_mounts(mount: str, folder: Path) -> list[str]:
    return [*_unshare(), *_before(mount, folder)]


def _before(script: str, folder: Path) -> list[str]:
    return ["sh", "-c", f'{{ {script}; }} && exec "$@"', str(folder)]


@functools.cache
def _unshare() -> Sequence[str]:
    """Return the command that gives a process mounts of its own, after it has been tried.

    Raises:
        NoMountsError: no such command works here.
    """
    said = ""
    for command in _OWN_MOUNTS:
        with tempfile.TemporaryDirectory(prefix="kernel-matrix-") as name:
            folder = Path(name)
            for mount, works in ((_READ_ONLY, '! touch "$1/a" 2>&-'), (_SMALL.format(room=_PAGE), 'touch "$1/a"')):
                words = [*command, *_before(mount, folder), "sh", "-c", works, "sh", name]
                try:
                    done = subprocess.run(words, capture_output=True, text=True, check=False)
                except OSError as error:
                    raise NoMountsError(f"this machine has no {command[0]}: {error.strerror}") from None
                said = said or done.stderr.strip().splitlines()[-1] if done.stderr.strip() else said
                if done.returncode or (folder / "a").exists():
                    break
            else:
                return command
    raise NoMountsError(f"this machine allows a process no mounts of its own: {said or 'the mount has no effect'}")
