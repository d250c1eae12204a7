"""Start pytest in a job. The harness's modules are last on the import path, so they hide nothing of the environment.

The file lies in a copy of what a job imports (``kernel_matrix/job``), and is run as a program.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def import_harness(folder: Path) -> None:
    """Take ``kernel_matrix`` from ``folder``, whatever else has that name, and put the folder behind all others."""
    script = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != script]  # Python put it first
    sys.path.insert(0, str(folder))
    import kernel_matrix.job  # noqa: F401  # later imports from the package look in the same folder

    sys.path.append(sys.path.pop(0))


def main() -> int:
    """Run pytest with the arguments of this program, and return its exit status; or be the kernel's process."""
    import_harness(Path(__file__).resolve().parents[2])
    if sys.flags.optimize:
        sys.exit("Python runs without assertions (PYTHONOPTIMIZE, -O), and the checks of a suite are assertions")
    if sys.argv[1:2] == ["--kernel"]:
        from kernel_matrix.job.landlock import keep_away
        from kernel_matrix.job.seccomp import keep_limits

        keep_limits()
        keep_away()  # before NumPy starts threads
        from kernel_matrix.job import worker

        del sys.argv[1]
        return worker.main()
    from kernel_matrix.job import handed
    from kernel_matrix.job.processes import hide_memory

    hide_memory()
    handed.receive()
    # Compilers keep many objects. By default Python looks through them so often that it takes a twentieth of a job.
    gc.set_threshold(50_000, 20, 50)
    import pytest

    try:
        status = int(pytest.main())
    except SystemExit as error:  # by a conftest.py, before there is a plugin. An exception in it has the same words
        sys.exit(f"E   SystemExit: {error}")
    gc.freeze()  # else Python looks through all objects several times as it ends
    return status


if __name__ == "__main__":
    sys.exit(main())
