"""The cause and the remedy of the errors of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernel_matrix.diagnosis import Diagnosis, Rules, diagnose_all, not_known
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.states import State
from kernel_matrix.store.record import versions_of

DIAGNOSED: tuple[State, ...] = ("fail", "error", "known")
Error = tuple[int, str, str, str, str, str]  # job, outcome, stage, message and detail of a record; a verdict's reason


@dataclass
class Diagnoses:
    """The diagnoses that were made; equal errors of one job are looked up once."""

    judged: Judged
    rules: Rules
    _known: dict[tuple[int, str, str], Diagnosis] = field(default_factory=dict)

    def of(self, errors: Sequence[Error]) -> list[Diagnosis]:
        """Return the diagnosis of each error. To ask for many at once takes hardly longer than for one."""
        keys = [*map(_key, errors)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        versions = {job: tuple(sorted(versions_of(self.judged.jobs[job]).items())) for job, *_ in new}
        asked = [(text, stage, versions[job]) for job, stage, text in new]
        made = diagnose_all(asked, self.rules()) if new else []
        self._known |= {key: one for key, one in zip(new, made, strict=True) if one}
        unknown = [key for key in new if key not in self._known]
        sentences = not_known([text for *_, text in unknown]) if unknown else []
        self._known |= {key: Diagnosis("", one, "", "") for key, one in zip(unknown, sentences, strict=True)}
        return [self._known[key] for key in keys]


def _key(error: Error) -> tuple[int, str, str]:
    """Return the job, the stage and the text of an error.

    A record that says pass and is not believed has no error of its own: the verdict says what is against it.
    """
    job, outcome, stage, message, detail, reason = error
    return (job, "", reason) if outcome == "pass" else (job, stage or outcome, f"{message}\n{detail}")
