"""Folders of results -> the raw results that count, chosen without a look at those that the report has chosen.

A file counts if it can be read and is no copy: a job whose name, start and results are all there before counts once. A
file that the report says to have refused does not count: its sentence stands on the page. A file is a difference if the
audit cannot read it and the page says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kernel_matrix.audit.figures import Difference
from kernel_matrix.audit.raw import Raw, read

# The folders of a run's tables, or the files of the tables of many runs. The first names the run, or the set.
_TABLES = ("jobs", "cases", "outputs", "samples")
_JOURNALS = "journals"  # the folder of journals in place of tables
_FORMER = "former"  # the folder of the runs before the last ones
_Content = list[tuple[Any, ...]]


class Chosen(NamedTuple):
    """The project's raw results by case, the files that are missing on the page without a word, and others' results."""

    by_case: dict[str, list[Raw]]
    silent: tuple[Difference, ...]
    told: dict[str, list[Raw]]


def choose(results: Iterable[Path], problems: Iterable[str]) -> Chosen:
    """Return the results below folders, or of files. ``problems`` are the page's sentences about refused files."""
    found = list(dict.fromkeys(_found(results)))
    refused = _refused(found, problems)
    chosen = Chosen({}, (), {})
    silent: list[Difference] = []
    before: dict[tuple[str, str], list[_Content]] = {}
    for path in found:
        if path in refused:
            continue
        try:
            by_case = read([path])
        except Exception as error:
            silent.append((f"{path.name}", "nothing", f"a file that cannot be read ({error})"))
            continue
        copies = _copies(by_case, before)
        for case, raws in by_case.items():
            for raw in (raw for raw in raws if raw.run not in copies):
                (chosen.told if "told.by" in raw.job else chosen.by_case).setdefault(case, []).append(raw)
    return chosen._replace(silent=tuple(silent))


def _found(results: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of results: journals and XML of a folder before its runs, and nothing behind a link."""
    tables: list[Path] = []
    for folder in results:
        if not folder.is_dir():
            yield folder
            continue
        journals = (path for path in folder.rglob("*.jsonl") if path.parent.name == _JOURNALS)
        yield from (path for path in (*sorted(journals), *sorted(folder.rglob("*.xml"))) if _is_plain(path, folder))
        found = (path for path in folder.rglob("*.parquet") if _is_plain(path, folder))
        tables += sorted({jobs for path in found if (jobs := _table_of_jobs(path))})
    yield from tables


def _table_of_jobs(path: Path) -> Path | None:
    """Return the table of jobs that belongs to a table, of one run or of a set; it may be gone."""
    if path.parent.name in _TABLES:
        return path.parent.parent / _TABLES[0] / path.name
    return path.with_name(f"{_TABLES[0]}.parquet") if path.stem in _TABLES else None


def _is_plain(path: Path, folder: Path) -> bool:
    """Return whether a file below the folder is a plain one of the last runs, and behind no symbolic link."""
    below = path.relative_to(folder).parts
    return (
        _FORMER not in below
        and path.is_file()
        and not any(folder.joinpath(*below[: end + 1]).is_symlink() for end in range(len(below)))
    )


def _refused(found: Iterable[Path], problems: Iterable[str]) -> set[Path]:
    """Return the files that the page says to have refused.

    The page may have their paths from another folder. So it is the file whose path ends most like the page's, and at
    least with its name and its folder: a copy of the file elsewhere may be whole.
    """
    by_end: dict[tuple[str, ...], list[Path]] = {}
    for path in found:
        by_end.setdefault(_parts(path)[-2:], []).append(path)
    refused: set[Path] = set()
    for said in (_parts(text.partition(": ")[0]) for text in problems):
        alike = {path: _common_end(_parts(path), said) for path in by_end.get(said[-2:], ())}
        refused.update(path for path, parts in alike.items() if parts == max(alike.values()))
    return refused


def _parts(path: Path | str) -> tuple[str, ...]:
    """Return the parts of a path as the page writes it."""
    return Path("".join(char if char.isprintable() else "?" for char in str(path))).parts


def _common_end(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return with how many equal parts two paths end."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((number for number, (mine, yours) in enumerate(pairs) if mine != yours), min(len(one), len(other)))


def _copies(by_case: dict[str, list[Raw]], before: dict[tuple[str, str], list[_Content]]) -> set[str]:
    """Return the jobs of a file that are in files before it; keep the others for those behind it.

    Of a file of another kind than tables, all jobs are copies or none is.
    """
    jobs: dict[str, list[Raw]] = {}
    for raw in (raw for raws in by_case.values() for raw in raws):
        jobs.setdefault(raw.run, []).append(raw)
    copies: set[str] = set()
    for run, raws in jobs.items():
        # Another tool names no job: its results are never taken for copies.
        job, content = raws[0].job, _content(raws)
        former = before.setdefault((job.get("job", ""), job.get("started", "")), []) if "job" in job else []
        if content in former:
            copies.add(run)
        else:
            former.append(content)
    is_set = any(raw.file == "jobs.parquet" for raws in by_case.values() for raw in raws)
    return copies if is_set or len(copies) == len(jobs) else set()


def _content(raws: list[Raw]) -> _Content:
    """Return all that the results of a job say, in one order."""
    ordered = sorted(raws, key=lambda raw: (raw.case, raw.outcome, raw.action, raw.text, raw.seconds))
    return [(ordered[0].job,), *(tuple(raw)[1:-2] for raw in ordered)]
