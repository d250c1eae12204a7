"""Watch processes through Linux's /proc: memory, and children that nobody waits for. Elsewhere nothing is known."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_GENERATIONS = 16  # the children of an orphan are orphans when it has ended
_NO_LIMIT = 1 << 62  # version 1 of cgroups writes the largest number of whole pages where there is no limit
_TEXT_BYTES = 1 << 16  # of a text of the kernel: the ids of some thousand children
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36  # prctl(2)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends: such a process is seen then."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep the other processes of this user from reading or writing the memory of this process."""
    _prctl(_SET_DUMPABLE, 0)


def orphans_of(kernel: int | None) -> list[str]:
    """End all children of this process but ``kernel``, and return the names of those that were running."""
    names: list[str] = []
    for _ in range(_GENERATIONS):
        orphans = [(pid, name) for pid, name in _children(os.getpid()) if pid != kernel]
        if not orphans:
            break
        for pid, name in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            names.append(name)
    return names


def run_delay(pid: int) -> float:
    """Return the seconds that the threads of a process waited for a core, together; 0 where that is not known."""
    return sum(waited for _, waited in _scheduled(pid).values())


def scheduled_below(pid: int) -> dict[int, tuple[float, float]]:
    """Return for each thread of a process and of those below it the seconds that it ran, and waited for a core."""
    threads = _scheduled(pid)
    for child in _child_ids(pid):
        threads |= scheduled_below(child)
    return threads


def work_below(pid: int) -> list[int]:
    """Return numbers that change when a process below this one starts, works or ends; none where they are not known.

    A child that has ended has left its parent the number of its page faults.
    """
    try:
        work = [int(_read(f"{_PROC}/{pid}/stat").rpartition(")")[2].split()[8])]
    except OSError:  # it has ended
        return []
    for child in sorted(_child_ids(pid)):
        work += [child, *(round(1e9 * ran) for ran, _ in _scheduled(child).values()), *work_below(child)]
    return work


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, of its threads and of all processes below it; 0 where that is not known."""
    try:
        numbers = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    own = sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")  # its own, and of children that it has waited for
    return own + sum(map(cpu_seconds, _child_ids(pid)))


def anonymous_memory(pid: int) -> int | None:
    """Return the bytes of memory that a process holds for itself; None where that is not known."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssAnon:", "RssShmem:"))]
    return sum(kibibytes) * 1024 if kibibytes else None


def memory_limit_kills() -> int:
    """Return how many processes of this container were killed because it had reached its memory limit.

    A container sees its own cgroup: version 2 at the root of the mount, version 1 (and a hybrid of both) in the folder
    of the controller. Version 1 counts since Linux 4.13.
    """
    for file in ("memory.events", "memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError):
            return int(dict(line.split() for line in (_CGROUP / file).read_text().splitlines()).get("oom_kill", 0))
    return 0


def memory_limit() -> int | None:
    """Return the memory that this container may use, in bytes; None where it has no limit or none is known."""
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError):
            limit = (_CGROUP / file).read_text().strip()
            return int(limit) if limit.isdecimal() and int(limit) < _NO_LIMIT else None
    return None


def _children(parent: int) -> list[tuple[int, str]]:
    """Return the ids and names of the children of a process that still run."""
    children = []
    for pid in _child_ids(parent):
        try:
            before, _, after = (_PROC / str(pid) / "stat").read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        if after.split()[0] != "Z":
            children.append((pid, before.partition("(")[2]))
    return children


def _child_ids(parent: int) -> list[int]:
    """Return the ids of the children of all threads of a process; none where the kernel does not list them."""
    return [int(child) for _, text in _of_threads(parent, "children") for child in text.split()]


def _scheduled(pid: int) -> dict[int, tuple[float, float]]:
    """Return for each thread of a process the seconds that it ran, and that it waited for a core."""
    threads = {}
    for thread, text in _of_threads(pid, "schedstat"):
        with contextlib.suppress(ValueError):  # the system counts nothing
            ran, waited, _ = map(int, text.split())
            threads[thread] = ran / 1e9, waited / 1e9
    return threads


def _of_threads(pid: int, name: str) -> list[tuple[int, str]]:
    """Return the text that the kernel has of each thread of a process under this name, in the order of the threads.

    A job asks before and after each run. Paths of pathlib, and files of ``open``, take several times as long.
    """
    folder, texts = f"{_PROC}/{pid}/task", []
    with contextlib.suppress(OSError):  # the process has ended
        for thread in sorted(map(int, os.listdir(folder))):  # noqa: PTH208
            with contextlib.suppress(OSError):  # the thread has ended, or there is no such text
                texts.append((thread, _read(f"{folder}/{thread}/{name}")))
    return texts


def _read(path: str) -> str:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _TEXT_BYTES).decode()
    finally:
        os.close(file)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
