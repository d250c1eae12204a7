"""Run a program behind the recorder: ``python start.py SETTINGS PROGRAM...``. Python alone is enough for it.

``PROGRAM`` is what would follow ``python``: a script, ``-m MODULE`` or ``-c TEXT``, with its arguments. When the
program has ended, the launches that it has made are written down and compiled. The exit status is the program's.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Record the program, compile its launches, and return the exit status of the program."""
    if not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        del sys.path[0]  # the folder of this file
    sys.path.insert(0, str(Path(__file__).resolve().parents[4]))
    from kernel_matrix.tools.launches.inside.recorder import session, user_program

    del sys.path[0]  # later imports of the harness look in its own folders, and the program sees nothing else there
    settings, *words = sys.argv[1:]
    recording = session.begin(Path(settings))
    status = user_program.run(words)
    recording.end(status)
    return int(status.code)


if __name__ == "__main__":
    sys.exit(main())
