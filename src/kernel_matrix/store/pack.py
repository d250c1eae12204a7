"""Many runs -> one packed set: a file for each table, small enough to be kept in git.

A set has the rows of the runs as they were: their facts, figures and samples, and so their identities. What persons
outside the project have signed is copied as it is, in its folder.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import names
from kernel_matrix.store.load import collect
from kernel_matrix.store.names import TABLES, JobFiles, printable
from kernel_matrix.store.record import TOLD_INVENTORY, Record
from kernel_matrix.store.rows import tables, write_table
from kernel_matrix.store.validation import STREAMED

_LEVEL = 19  # of zstd: a set is written seldom, and kept long
_MEASURED = ("pass", "fail", "error")  # other outcomes say that nothing was tried
_TOLD = "told"  # the folder of what persons have signed

Runs = Mapping[str, Sequence[Record]]  # the records by run


@dataclass(frozen=True)
class Packed:
    """A packed set: its runs, the runs that newer ones have replaced, and the folders that were copied."""

    files: JobFiles
    runs: Runs
    replaced: Runs
    told: tuple[Path, ...]

    @property
    def results(self) -> int:
        """The number of results in the set."""
        return sum(map(len, self.runs.values()))

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(path.stat().st_size for path in self.files.paths)


def pack(folders: Sequence[Path], into: Path) -> Packed:
    """Put the runs below some folders, and those that are in ``into``, into one packed set there.

    Of the runs in ``into`` no other files are left. Nothing is written if a result cannot be carried.

    Raises:
        UserError: a folder does not exist, or something in it cannot be packed.
    """
    if into.name in TABLES:
        raise UserError(f"--into {into}: a folder of this name has one table of many runs. Choose another name.")
    known = [*folders, *([into] if into.is_dir() and into not in folders else [])]
    by_run, told = _read(known)
    runs, replaced = _newest(by_run)
    files = JobFiles(into, "")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=into) as name:
        _write(JobFiles(Path(name), ""), runs)
        _check(Path(name), runs)
        copied = tuple(_copy(folder, into) for folder in told)
        for path in reversed(JobFiles(Path(name), "").paths):  # the table of jobs comes last
            os.replace(path, into / path.name)
    _remove_single(into)
    return Packed(files, runs, replaced, copied)


def _read(folders: Sequence[Path]) -> tuple[dict[str, list[Record]], list[Path]]:
    """Return the records below folders by run, and the folders of what persons have signed.

    Raises:
        UserError: something is no table, no journal and nothing signed, or cannot be used.
    """
    found = collect(folders, bounds=STREAMED)
    told = [path for path in found.files if (path.parent.parent / TOLD_INVENTORY).exists()]
    others = [path for path in found.files if not (names.is_table(path) or names.is_journal(path))]
    faults = [*found.broken, *(f"{printable(path)}: this is JUnit XML, which has no place in tables." for path in others)]
    if faults:
        raise UserError("Nothing was packed.\n" + "\n".join(faults))
    by_run: dict[str, list[Record]] = {}
    for record in found.records:
        by_run.setdefault(record.run, []).append(record)
    if not by_run and not told:
        raise UserError(f"{', '.join(map(str, folders))}: there are no results to pack.")
    return by_run, sorted({path.parent.parent for path in told})


def _newest(by_run: Mapping[str, list[Record]]) -> tuple[Runs, Runs]:
    """Return the runs that stay, in the order of their names, and those whose every result a newer run has again.

    A run of which a part was measured anew stays as a whole: its canaries and its other results belong together.
    """
    newest: dict[tuple[str, ...], tuple[str, str]] = {}
    for run, records in by_run.items():
        for key in _measured(records):
            newest[key] = max(newest.get(key, ("", "")), (records[0].job.get("started", ""), run))

    def is_replaced(run: str) -> bool:
        now = by_run[run][0].job.get("started", "")
        return all(newest.get(_key(record), ("", ""))[0] > now for record in by_run[run])

    order = sorted(by_run, key=lambda run: names.name_of(by_run[run][0].job.get("job", ""), run))
    replaced = [run for run in order if is_replaced(run)]
    return {run: by_run[run] for run in order if run not in replaced}, {run: by_run[run] for run in replaced}


def _measured(records: Iterable[Record]) -> Iterator[tuple[str, ...]]:
    """Yield what results are of that say how a case ended."""
    yield from (_key(record) for record in records if record.outcome in _MEASURED)


def _key(record: Record) -> tuple[str, ...]:
    """Return what a result is of: the same in a newer run replaces it. Another device or action replaces nothing."""
    action = record.action if record.outcome in _MEASURED else ""
    facts = (record.job.get(fact, "") for fact in ("platform", "toolchain", "device"))
    return record.case, action, *facts


def _write(files: JobFiles, runs: Runs) -> None:
    """Write the four files of a set."""
    parts: dict[str, list[pa.Table]] = {table: [] for table in TABLES}
    for run, records in runs.items():
        for table, content in tables(run, records[0].job, records):
            parts[table].append(content)
    for table, contents in parts.items():
        write_table(files.path(table), pa.concat_tables(contents), _LEVEL)


def _check(folder: Path, runs: Runs) -> None:
    """Read a set as every report does.

    Raises:
        UserError: it cannot be used, or has other runs: no file of it may be kept.
    """
    again = collect([folder], bounds=STREAMED)
    if again.broken or {record.run for record in again.records} != {*runs}:
        reason = "; ".join(again.broken) or "another run is read than was written."
        raise UserError(f"Nothing was packed: {reason} Pack fewer runs into one set.")


def _copy(folder: Path, into: Path) -> Path:
    """Copy the folder of what a person has signed.

    Raises:
        UserError: another one of its name is there.
    """
    target = into / _TOLD / folder.name
    if not target.exists():
        shutil.copytree(folder, target)
    elif not target.samefile(folder):
        paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
        if filecmp.cmpfiles(folder, target, [*map(str, paths)], shallow=False)[0] != [*map(str, paths)]:
            raise UserError(f"{target}: there is another file of this name already.")
    return target


def _remove_single(folder: Path) -> None:
    """Delete the files of single runs in a folder: its set has what they had."""
    for files in names.find(folder):
        for path in () if files.packed else files.paths:
            path.unlink()
    for path in names.journals(folder):
        if not (path.parent.parent / TOLD_INVENTORY).exists():
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and path.name in (*TABLES, names.JOURNALS) and not any(path.iterdir()):
            path.rmdir()
