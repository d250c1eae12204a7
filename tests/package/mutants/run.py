"""Put the mutants of a table into copies of the backend, run the suite's cases on them, and say what kills each.

It runs in the environment of the table's toolchain; ``ci/mutants.py`` starts it, and gives it the job: the cases of
the plan, and the rules of the budget. A mutant counts as killed if the comparison with the golden, a property or the
watch over the kernel's process finds it. One that does not compile, or that the copy's text does not hold, is an error
of the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SUITE, PACKAGE = ROOT / "tests" / "mhc", ROOT / "src" / "mhc"
sys.path[:0] = [str(SUITE), str(ROOT / "tests" / "package")]

from conforming import conform  # noqa: E402

from kernel_matrix.job.case import RunningCase  # noqa: E402
from kernel_matrix.job.journal import Journal  # noqa: E402
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcess, KernelProcessError  # noqa: E402
from kernel_matrix.kit import MisbehavedError  # noqa: E402

NOT_RUN = ("import", "lower", "compile")  # stages in which a kernel that fails has computed nothing


@dataclass(frozen=True)
class Mutant:
    """One edit of a kernel's source: ``old`` becomes ``new`` in ``file``, a path below the package."""

    name: str
    op: str
    direction: str
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Verdict:
    """The killer of a mutant, with its case and tier; ``killed_by`` is None where all cases passed."""

    mutant: Mutant
    killed_by: str | None
    case: str = ""
    tier: str = ""


class TableError(Exception):
    """A mutant of the table cannot be judged. The text says which, and why."""


def read(table: Path) -> list[Mutant]:
    """Return the mutants of a table.

    Raises:
        TableError: two have one name, or the text that one edits is not in its file once.
    """
    mutants = [Mutant(**entry) for entry in tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]]
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        count = (PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old)
        if count != 1:
            raise TableError(f"{table.name}: {mutant.name!r} edits a text that is {count} times in {mutant.file}")
        if names.count(mutant.name) > 1:
            raise TableError(f"{table.name}: {mutant.name!r} is the name of several mutants")
    return mutants


class Judge:
    """One job whose kernel's process gets the backend of one mutant after the other."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self._job, self._folder = job, folder
        self._process = KernelProcess(SUITE, folder / "kernel.log")
        self._copies = 0

    def close(self) -> None:
        """End the kernel's process."""
        self._process.close()

    def verdict(self, mutant: Mutant) -> Verdict:
        """Run the cases on the backend with the mutant until one kills it.

        Raises:
            TableError: it does not compile, or there is no case for it.
        """
        cases = self._cases(mutant.op, mutant.direction)
        if not cases:
            raise TableError(f"{mutant.name!r}: the job has no case of {mutant.op} {mutant.direction}")
        try:
            self._use(mutant)
            for case in cases:
                if killed_by := self._attempt(case):
                    return Verdict(mutant, killed_by, case["name"], case["tier"])
        except KernelProcessError as error:
            raise TableError(f"{mutant.name!r} does not run: {error.text}\n{error.detail}") from None
        return Verdict(mutant, None)

    def check_untouched(self, verdicts: Iterable[Verdict]) -> None:
        """Run the cases that killed a mutant on the backend as it is.

        Raises:
            TableError: one fails: it would kill every mutant.
        """
        killing = {(verdict.mutant.op, verdict.mutant.direction, verdict.case) for verdict in verdicts}
        try:
            self._use(None)
            for case in self._job["cases"]:
                if (case["op"], case["direction"], case["name"]) in killing and (failure := self._attempt(case)):
                    raise TableError(f"the kernel without a mutant fails {case['id']}: {failure}")
        except KernelProcessError as error:
            raise TableError(f"the kernel without a mutant does not run: {error.text}\n{error.detail}") from None

    def _cases(self, op: str, direction: str) -> list[dict[str, Any]]:
        return [case for case in self._job["cases"] if (case["op"], case["direction"]) == (op, direction)]

    def _use(self, mutant: Mutant | None) -> None:
        """Copy the backend, with the edit, and have the kernel's process take the copy."""
        backend, self._copies = self._job["backend"], self._copies + 1
        folder = self._folder / str(self._copies)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE / "backends" / backend, folder / "backends" / backend, ignore=ignored)
        shared = None  # the module that is edited, where backends share it
        if mutant is not None:
            text, file = (PACKAGE / mutant.file).read_text(encoding="utf-8"), folder / mutant.file
            file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            shared = file.stem if file.parent == folder / "backends" else None
        where = {"backend": backend, "folder": str(folder / "backends"), "shared": shared}
        source, _ = self._process.call("mutants.side:use", {}, where, lambda _: None)
        if not str(source).startswith(str(folder)):
            raise TableError(f"the kernel's process took the backend from {source}")

    def _attempt(self, case: dict[str, Any]) -> str | None:
        """Run one case as a job does, and return what the suite says against the kernel; None if it passes.

        Raises:
            KernelProcessError: the kernel did not come to run.
        """
        running = RunningCase(self._job, case, Journal(self._folder / "journal.jsonl"), self._process)
        try:
            conform(running)
        except AssertionError as error:
            return str(error).splitlines()[0]
        except MisbehavedError as error:
            return str(error)
        except KernelProcessError as error:
            if error.stage in NOT_RUN or isinstance(error, DeviceMissingError):
                raise
            return f"{error.stage}: {error.text.splitlines()[0]}"
        return None


def main(arguments: Sequence[str]) -> int:
    """Judge the mutants of a table and write the verdicts; return 1 if one survives, and 2 if the table is wrong."""
    parser = argparse.ArgumentParser(description="Judge the mutants of a table.")
    parser.add_argument("table", type=Path)
    parser.add_argument("--job", type=Path, required=True, help="the job's specification (JSON)")
    parser.add_argument("--out", type=Path, help="where the verdicts go (JSON)")
    parser.add_argument("--only", action="append", default=[], help="judge the mutants whose name holds this text")
    options = parser.parse_args(arguments)
    job = json.loads(options.job.read_text(encoding="utf-8"))
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        judge = Judge(job, Path(name))
        try:
            for mutant in read(options.table):
                if not options.only or any(text in mutant.name for text in options.only):
                    verdicts.append(verdict := judge.verdict(mutant))
                    print(
                        f"{mutant.op} {mutant.direction}: {mutant.name} | {verdict.killed_by or 'SURVIVES'}", flush=True
                    )
            judge.check_untouched(verdict for verdict in verdicts if verdict.killed_by)
        except TableError as error:
            print(error, file=sys.stderr)
            return 2
        finally:
            judge.close()
    if options.out:
        options.out.write_text(json.dumps([_record(verdict) for verdict in verdicts], indent=1), encoding="utf-8")
    return 1 if any(verdict.killed_by is None for verdict in verdicts) else 0


def _record(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    return {
        "name": mutant.name,
        "op": mutant.op,
        "direction": mutant.direction,
        "file": mutant.file,
        "killed_by": verdict.killed_by,
        "case": verdict.case,
        "tier": verdict.tier,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
