"""The journal of a job: one JSON object a line, flushed as it is written, so that a dead process loses nothing said.

The plugin writes ``job`` once per process, ``start`` and ``end`` around each case with a ``stage`` for every step in
between, and ``broken`` when the suite itself does not import. Whoever watches the process (``run``) writes the ``end``
that a process killed, hung or crashed could not.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Journal:
    """Append to a journal, and read it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # bytes that new_events has given

    def write(self, event: str, **fields: Any) -> None:
        """Append one event and make sure that it outlives this process."""
        line = json.dumps({"event": event, "time": time.time(), **fields}, default=str) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def new_events(self) -> Iterator[Event]:
        """The events since the last call; a last line that is not whole yet is left for the next one."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                try:
                    event = json.loads(line)
                except ValueError:  # cut short by a death, and then written on
                    continue
                if isinstance(event, dict) and "event" in event:
                    yield event
