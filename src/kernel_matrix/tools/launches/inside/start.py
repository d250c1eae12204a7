"""Run a program behind the recorder: ``python start.py SETTINGS PROGRAM...``. It needs triton, torch and nothing else.

``PROGRAM`` is what would follow ``python``: a script, ``-m MODULE`` or ``-c TEXT``, with its arguments. When the
program has ended, the launches that it has made are written down and compiled. The exit status is the program's.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Record the program, compile its launches, and return the exit status of the program."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from recorder import program, session  # type: ignore[import-not-found]  # from the folder of this file

    settings, *words = sys.argv[1:]
    sys.path[:2] = []  # the folder of this file, which Python has added too: the program must not see it
    recording = session.begin(Path(settings))
    status = program.run(words)
    recording.end(status)
    return int(status.code)


if __name__ == "__main__":
    sys.exit(main())
