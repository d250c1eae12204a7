"""Cases as columns -> the columns of a file of cells as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.diagnosis import Diagnosis
from kernel_matrix.report.page_packed import Flags, Floats, Ints, Objects, kind_of, numbered, packed, places
from kernel_matrix.report.page_script import encoded

TEXTS = ("reason", "stale", "stage", "action", "message", "detail", "repeat")
MOST_CHARACTERS = 100_000  # of one text: the results have all of it


@dataclass(frozen=True)
class Outputs:
    """The outputs of some cases. Those of the case at a place are from ``first[place]`` to ``first[place + 1]``.

    ``name`` is the place of an output's name among ``names``. A figure that is NaN was not measured, apart from those
    of which ``absent`` says which were not: there, some results say NaN.
    """

    first: npt.NDArray[np.int64]
    names: Sequence[str]
    name: Ints
    figures: Mapping[str, Floats]
    absent: Mapping[str, Flags]

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        return {figure: kind_of(values) for figure, values in self.figures.items()}

    def number(self, start: int, end: int) -> int:
        """Return how many outputs the cases from ``start`` to ``end`` have."""
        return int(self.first[end] - self.first[start])

    def written(self, start: int, end: int) -> bytes:
        """Return the outputs of the cases from ``start`` to ``end`` as JSON."""
        rows = slice(self.first[start], self.first[end])
        names, name = numbered(self.name[rows])
        columns = {figure: self._column(figure, rows) for figure in self.figures}
        figures = b",".join(b"%b:%b" % (encoded(figure), text) for figure, text in columns.items() if text != b"null")
        return b'{"counts":%b,"names":%b,"name":%b,"figures":{%b}}' % (
            places(np.diff(self.first[start : end + 1])),
            encoded([self.names[place] for place in names]),
            places(name),
            figures,
        )

    def _column(self, figure: str, rows: slice) -> bytes:
        absent = self.absent.get(figure)
        return packed(self.figures[figure][rows], self._kinds[figure], None if absent is None else absent[rows])


@dataclass(frozen=True)
class Cases:
    """Cases in the order of the page, as columns.

    ``name`` is the place of a case's name among ``names``. The rows of ``text`` are those of ``TEXTS``, as places in
    ``texts``, whose first is empty. ``state`` and ``evidence`` are letters, as the overview explains them. -1 stands
    for no diagnosis and for no job. ``times`` and ``attempts`` are by the place of the case.
    """

    names: Sequence[str]
    name: Ints
    state: npt.NDArray[np.uint8]
    evidence: npt.NDArray[np.uint8]
    texts: Sequence[str]
    text: Ints
    diagnoses: Sequence[Diagnosis]
    diagnosis: Ints
    job: Ints
    seconds: Floats
    facts: Objects
    artifact: Objects
    times: Mapping[int, Mapping[str, float]]
    attempts: Mapping[int, Sequence[str]]
    outputs: Outputs

    def names_of(self, start: int, end: int) -> list[str]:
        """Return the names of the cases from ``start`` to ``end``."""
        return [self.names[place] for place in self.name[start:end].tolist()]

    def letters(self, start: int, end: int) -> str:
        """Return the letters of the states of the cases from ``start`` to ``end``."""
        return self.state[start:end].tobytes().decode()

    def written(self, start: int, end: int, jobs: Sequence[Mapping[str, str]]) -> bytes:
        """Return what a file has of the cases from ``start`` to ``end`` beside its cells; ``jobs`` are all jobs."""
        part = slice(start, end)
        names, name = numbered(self.name[part])
        # The texts of this file; the empty one is the first in every file.
        chosen, text = numbered(np.concatenate([[0], self.text[:, part].ravel()]))
        text = text[1:].reshape(len(TEXTS), -1)
        diagnoses, diagnosis = numbered(self.diagnosis[part], absent=-1)
        of_jobs, job = numbered(self.job[part], absent=-1)
        columns = {
            "names": encoded([self.names[place] for place in names]),
            "name": places(name),
            "state": encoded(self.letters(start, end)),
            "evidence": encoded(self.evidence[part].tobytes().decode()),
            **{key: places(text[row]) for row, key in enumerate(TEXTS)},
            "diagnosis": places(diagnosis),
            "job": places(job),
            "seconds": packed(self.seconds[part], "float64", np.zeros(end - start, np.bool_)),
            "facts": self.facts.written(start, end),
            "artifact": self.artifact.written(start, end),
            "times": encoded(_of_part(self.times, start, end)),
            "attempts": encoded(_of_part(self.attempts, start, end)),
            "outputs": self.outputs.written(start, end),
        }
        return b'"cases":{%b},"jobs":%b,"texts":%b,"diagnoses":%b' % (
            b",".join(b'"%b":%b' % (key.encode(), value) for key, value in columns.items()),
            encoded([dict(jobs[place]) for place in of_jobs]),
            encoded([shortened(self.texts[place]) for place in chosen]),
            encoded([asdict(self.diagnoses[place]) for place in diagnoses]),
        )


def _of_part(values: Mapping[int, Any], start: int, end: int) -> dict[str, Any]:
    """Return the values of the places from ``start`` to ``end``, by their places from there."""
    if not values:
        return {}
    return {str(place - start): values[place] for place in range(start, end) if place in values}


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text; of a very long one the beginning, and how much was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most} more characters are in the results."
