"""Tell how long processes waited for a core that others used: a time limit does not count this."""

from __future__ import annotations

import contextlib
from pathlib import Path


def delays_below(pid: int) -> dict[int, float]:
    """Return for a process and each below it the seconds that its first thread was ready to run and had no core."""
    delays: dict[int, float] = {}
    folder = Path("/proc", str(pid))
    with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended, or the system counts nothing
        delays[pid] = int((folder / "schedstat").read_text().split()[1]) / 1e9
        for child in (folder / "task" / str(pid) / "children").read_text().split():
            delays |= delays_below(int(child))
    return delays
