"""Keep a small run of the present version of the tables, as single files and as a packed set, for the tests of readers.

Run it after ``VERSION`` was raised: PYTHONPATH=src:tests/support .venv/bin/python tests/store/versions/keep.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from common import write_results
from records import BAD, GOOD, JOB, record_with_sample

from kernel_matrix.store.pack import pack
from kernel_matrix.store.schema import FIGURES, VERSION

HERE = Path(__file__).parent
OTHER = {**JOB, "job": "here.other", "toolchain": "other", "started": "2026-11-23T11:52:42Z"}
# Every figure that has a column, and one that has none.
FULL = {"elements": 8.0, **{f"out.{name}": float(place) for place, name in enumerate(FIGURES)}, "out.unusual": 3.0}
RECORDS = (record_with_sample(job=JOB), GOOD, BAD, replace(GOOD, case=f"{GOOD.case}-all", metrics=FULL, job=JOB))


def main() -> None:
    """Write the run and the set."""
    folder = HERE / str(VERSION)
    write_results(folder / "run", RECORDS)
    write_results(folder / "part", [replace(GOOD, case="here/any/other/double.forward/tokens1-fp32", job=OTHER)])
    pack([folder / "part"], folder / "set")
    for path in (path for path in sorted((folder / "part").rglob("*"), reverse=True)):
        path.unlink() if path.is_file() else path.rmdir()
    (folder / "part").rmdir()


if __name__ == "__main__":
    main()
