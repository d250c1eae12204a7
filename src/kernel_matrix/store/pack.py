"""Many runs -> one packed set: a file for each table, small enough to be kept in git.

A set has the rows of the runs as they were: their facts, figures and samples, and so their identities. What persons
outside the project have signed is copied as it is, in its folder.
"""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.store import names
from kernel_matrix.store.load import collect
from kernel_matrix.store.names import TABLES, JobFiles, printable
from kernel_matrix.store.record import TOLD_INVENTORY, Record
from kernel_matrix.store.rows import tables, write_table
from kernel_matrix.store.validation import STREAMED
from kernel_matrix.store.write import facts_by_run

_LEVEL = 19  # of zstd: a set is written seldom, and kept long
_MEASURED = ("pass", "fail", "error")  # other outcomes say that nothing was tried
_TOLD = "told"  # the folder of what persons have signed


@dataclass(frozen=True)
class Run:
    """The facts of a run of a job, and its records: none of a job that tried nothing."""

    facts: Mapping[str, str]
    records: tuple[Record, ...]

    @property
    def started(self) -> str:
        """When it began, as its machine says it."""
        return self.facts.get("started", "")


Runs = Mapping[str, Run]  # by the identity of the run


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
        return sum(len(run.records) for run in self.runs.values())

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(path.stat().st_size for path in self.files.paths)


def pack(folders: Sequence[Path], into: Path, *, former: bool = False) -> Packed:
    """Put the runs below some folders into one packed set.

    Runs that lie in the folder ``into`` go into the set. Of these, and of those below it where it is one of the
    folders, no other file is left. Of the set that is there, a run goes when the runs that come to it have all of its
    results anew; with ``former`` it goes into the set ``former`` below it, and takes the place of an earlier one there.
    Nothing is written if a result cannot be carried.

    Raises:
        UserError: a folder does not exist, or something in it cannot be packed.
    """
    if into.name in TABLES:
        raise UserError(f"--into {into}: a folder of this name has one table of many runs. Choose another name.")
    files, own = JobFiles(into, ""), _lying_in(into)
    is_named = any(folder.resolve() == into.resolve() for folder in folders)
    found, told = _read([*folders, *own])
    come = {run for path in found.paths if is_named or path not in files.paths for run in _runs_in(path)}
    runs, replaced = _newest(found.runs, come)
    new = [folder for folder in told if _is_new(folder, into)]
    before = _before(into / names.FORMER, replaced) if former and replaced else {}
    with _written(runs) as part:
        if before:
            with _written(before) as older:
                _move(older, JobFiles(into / names.FORMER, ""))
        for folder in new:
            shutil.copytree(folder, into / _TOLD / folder.name)
        _move(part, files)
    below = [path for path in found.paths if is_named and into.resolve() in path.resolve().parents]
    _remove({*own, *below}, files)
    return Packed(files, runs, replaced, tuple(into / _TOLD / folder.name for folder in told))


def _lying_in(folder: Path) -> list[Path]:
    """Return the tables of single runs and of a set, and the journals that lie in a folder."""
    runs = [files for files in names.find(folder) if files.folder == folder]
    tables = [path for files in runs for path in files.paths if path.exists()]
    return [*tables, *(path for path in names.journals(folder) if path.parent.parent == folder)]


class _Found(NamedTuple):
    """The runs of some folders, and the files that they were read from."""

    runs: Runs
    paths: tuple[Path, ...]


def _read(folders: Sequence[Path]) -> tuple[_Found, list[Path]]:
    """Return the runs below folders, and the folders of what persons have signed.

    Raises:
        UserError: something is no table, no journal and nothing signed, or cannot be used.
    """
    found = collect(folders, bounds=STREAMED)
    told = {path.parent.parent for path in found.files if (path.parent.parent / TOLD_INVENTORY).exists()}
    others = [path for path in found.files if not (names.is_table(path) or names.is_journal(path))]
    faults = [*found.broken, *(f"{printable(path)}: JUnit XML has no place in tables." for path in others)]
    if faults:
        raise UserError("\n".join(["nothing was packed.", *faults]))
    records: dict[str, list[Record]] = {}
    for record in found.records:
        records.setdefault(record.run, []).append(record)
    runs: dict[str, Run] = {}
    for path in found.files:
        if path.parent.parent not in told:
            runs |= {run: Run(facts, tuple(records.get(run, ()))) for run, facts in facts_by_run(path).items()}
    if not runs and not told:
        raise UserError(f"{', '.join(map(str, folders))}: there are no results to pack.")
    return _Found(runs, tuple(path for path in found.paths if path.parent.parent not in told)), sorted(told)


def _runs_in(path: Path) -> Iterable[str]:
    """Return the runs in a file that has their facts."""
    return facts_by_run(path) if names.is_journal(path) or path == names.files_of(path).path("jobs") else ()


def _newest(runs: Runs, come: Collection[str]) -> tuple[Runs, Runs]:
    """Return the runs that stay, in the order of their names, and those whose every result is in newer ones that come.

    A run of which a part was measured anew stays as a whole: its canaries and its other results belong together. Runs
    that come together all stay: which of their results counts is the judge's question.
    """
    newest: dict[Key, str] = {}
    for run in (runs[name] for name in come):
        for key in _replaces(run):
            newest[key] = max(newest.get(key, ""), run.started)

    def is_replaced(run: Run) -> bool:
        return all(newest.get(_key(run, record), "") > run.started for record in run.records or [None])

    order = sorted(runs, key=lambda name: names.name_of(runs[name].facts.get("job", ""), name))
    replaced = {name: runs[name] for name in order if name not in come and is_replaced(runs[name])}
    return {name: runs[name] for name in order if name not in replaced}, replaced


Key = tuple[str, ...]  # what a result is of: the same in a newer run replaces it


def _replaces(run: Run) -> Iterator[Key]:
    """Yield what a run has anew: what it measured, and of every case that nothing is known."""
    yield _key(run, None)
    for record in run.records:
        yield _key(run, record)
        yield _key(run, replace(record, outcome="missing"))


def _key(run: Run, record: Record | None) -> Key:
    """Return what a result is of, or a run without any. What was measured is only replaced by the same device."""
    place = run.facts.get("platform", ""), run.facts.get("toolchain", "")
    if record is None:
        return run.facts.get("job", ""), *place
    measured = record.outcome in _MEASURED
    return record.case, *place, *((record.action, run.facts.get("device", "")) if measured else ())


def _before(folder: Path, replaced: Runs) -> Runs:
    """Return the former runs of a set: those that were replaced now, and of the earlier ones those that stay."""
    kept = _read([folder])[0].runs if names.find(folder) else {}
    return _newest({**kept, **replaced}, [*replaced])[0]


@contextmanager
def _written(runs: Runs) -> Iterator[JobFiles]:
    """Write a set of runs where it is checked before it goes to its place."""
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-pack-") as name:
        part = JobFiles(Path(name), "")
        _write(part, runs)
        _check(part, runs)
        yield part


def _move(part: JobFiles, files: JobFiles) -> None:
    """Put a set into its place: the table of jobs comes last."""
    files.folder.mkdir(parents=True, exist_ok=True)
    for table in reversed(TABLES):
        write_atomically(files.path(table), part.path(table).read_bytes())


def _write(files: JobFiles, runs: Runs) -> None:
    """Write the four files of a set."""
    parts: dict[str, list[pa.Table]] = {table: [] for table in TABLES}
    for name, run in runs.items():
        for table, content in tables(name, run.facts, run.records):
            parts[table].append(content)
    for table, contents in parts.items():
        write_table(files.path(table), pa.concat_tables(contents), _LEVEL)


def _check(files: JobFiles, runs: Runs) -> None:
    """Read a set as every report does.

    Raises:
        UserError: it cannot be used, or has other runs: no file of it may be kept.
    """
    again = collect([files.folder], bounds=STREAMED)
    if again.broken or facts_by_run(files.path("jobs")).keys() != runs.keys():
        reason = "; ".join(again.broken) or "another run is read than was written."
        raise UserError(f"nothing was packed: {reason} Pack fewer runs into one set.")


def _is_new(folder: Path, into: Path) -> bool:
    """Return whether what a person has signed is not in the set's folder yet.

    Raises:
        UserError: something else of its name is there.
    """
    target = into / _TOLD / folder.name
    if target.exists():
        paths = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        if filecmp.cmpfiles(folder, target, paths, shallow=False)[0] != paths:
            raise UserError(f"nothing was packed: {target}: something else of this name is there already.")
    return not target.exists()


def _remove(paths: Collection[Path], files: JobFiles) -> None:
    """Delete files of runs that are in the set now, and the folders that are empty then."""
    for path in {*paths}.difference(files.paths):
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths} - {files.folder}:  # jobs, cases and so on
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
