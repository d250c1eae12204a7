"""The kind of machine that a target's rows go to, where matrix.yaml names several in the order of preference.

GitHub lists runners only to administrators. Without such a token it says which jobs wait, and which run on what: a
machine that was seen in the last report, and has no job now, is taken for idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kernel_matrix.base.models import Lenient
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_times import RowTime

FILE = "queue.json"


class Busy(Lenient):
    """A job of a run that goes on: the labels that it asks for, and its machine; none while it waits."""

    labels: tuple[str, ...]
    machine: str = ""


_LIST = TypeAdapter(tuple[Busy, ...])


def has_choice(matrix: Matrix) -> bool:
    """Return whether some target may go to machines of several kinds."""
    return any(len(kinds) > 1 for platform in matrix.platforms.values() for kinds in _kinds(platform.machines).values())


def read(folder: Path | None) -> tuple[Busy, ...] | None:
    """Return the jobs that waited or ran when the history was fetched; None where nobody asked."""
    path = folder / FILE if folder else None
    if path is None or not path.is_file():
        return None
    try:
        return _LIST.validate_json(path.read_bytes())
    except ValidationError:
        return None


def to_json(jobs: Iterable[Busy]) -> str:
    """Return the text of the file."""
    return _LIST.dump_json(tuple(jobs)).decode() + "\n"


def choose(
    matrix: Matrix, busy: Iterable[Busy] | None, seen: Iterable[RowTime]
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Return the kind of machine of each platform and target that has a choice, and a sentence for each.

    It is the first kind with an idle machine, else the first.
    """
    jobs, times = None if busy is None else list(busy), list(seen)
    kinds: dict[tuple[str, str], str] = {}
    sentences = []
    for name, platform in matrix.platforms.items():
        for target, named in _kinds(platform.machines).items():
            idle = [kind for kind in named if jobs is not None and _is_idle(kind, jobs, times)]
            if named:
                kinds[name, target] = (idle or named)[0]
                why = "the first with an idle machine" if idle else "the first: of no kind an idle machine is known"
                sentences.append(f"{name}/{target} goes to {kinds[name, target]}, of {', '.join(named)}: {why}")
    return kinds, sentences


def _kinds(machines: object) -> Mapping[str, list[str]]:
    return machines if isinstance(machines, dict) else {}


def _is_idle(kind: str, jobs: list[Busy], times: list[RowTime]) -> bool:
    """Return whether no job waits for the kind, and a machine of it that was seen has no job."""
    if any(kind in job.labels and not job.machine for job in jobs):
        return False
    machines = {time.machine for time in times if kind in time.labels and time.machine}
    return bool(machines - {job.machine for job in jobs})
