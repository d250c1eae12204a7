"""Compare samples of outputs with the figures of the same outputs, and say where one of them must be wrong."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from kernel_matrix.judge.plan_tables import KEY, enter_rows
from kernel_matrix.judge.tables import REASON
from kernel_matrix.results.ulp import stacked
from kernel_matrix.store.database import Connection, rows
from kernel_matrix.store.record import Sample
from kernel_matrix.store.records import Jobs
from kernel_matrix.store.sampled import Samples

_QUESTION = """
    SELECT record, a.job, "case", key, stale > 0, digest, output, max_abs, largest
    FROM accepted a JOIN (SELECT record, "case" FROM cases) USING (record) JOIN outputs USING (record)
    WHERE outcome = 'pass' AND action IN ('run', 'emulate') AND isfinite(max_abs) AND isfinite(largest)
      AND job IN (SELECT job FROM jobs WHERE list_contains($1::VARCHAR[], run))
    ORDER BY record, place
"""
_Member = tuple[int, str, Sample, float, float]  # a record, an output, its sample, its largest error and value


def enter_wrong_samples(connection: Connection, samples: Samples, jobs: Jobs) -> None:
    """Make ``wrong_samples``: the records that say they passed, and have samples that their largest error excludes.

    The golden is at most the largest error away from every element. So no element is larger than the golden's largest
    value by more than that, and where most other results say that the golden is below or above, it is there.
    """
    groups: dict[tuple[object, ...], list[_Member]] = defaultdict(list)
    for record, job, case, key, is_stale, digest, output, *figures in rows(connection, _QUESTION, [samples.runs]):
        if sample := samples.find(jobs.run(job), case).get(output):
            alone = "" if digest else record  # nobody knows whether the others had the same inputs
            form = sample.dtype, sample.shape
            groups[key, is_stale, digest, alone, output.partition("@")[0], *form].append(
                (record, output, sample, *figures)
            )
    wrong: dict[int, tuple[str, str]] = {}
    for members in groups.values():
        for record, *fault in _wrong(members):
            wrong.setdefault(record, (fault[0], fault[1]))
    found = [(record, {"code": code, "arguments": [output]}) for record, (code, output) in wrong.items()]
    enter_rows(connection, "wrong_samples", {"record": KEY, "fault": REASON}, found)


def _wrong(members: list[_Member]) -> list[tuple[int, str, str]]:
    """Return the records whose samples of an output cannot be, each with the code of the reason and the output."""
    records, outputs, samples, errors, largest = zip(*members, strict=True)
    values = stacked(samples).astype(np.float64)
    # A little for the rounding of the golden, which each machine computes.
    error = np.array(errors)[:, None] * (1 + 1e-6) + np.array(largest)[:, None] * 1e-9
    beyond = ~(np.abs(values) <= np.array(largest)[:, None] + error).all(axis=1)
    low, high = values - error, values + error
    first = [records.index(record) for record in dict.fromkeys(records)]  # the variants of a record have one voice
    if len(first) >= 3:
        half = (len(first) - 1) // 2
        most_high = np.sort(high[first], axis=0)[half]
        most_low = np.sort(low[first], axis=0)[-1 - half]
        far = ((low > most_high) | (high < most_low)).any(axis=1)
    else:
        far = np.zeros(len(members), bool)
    codes = np.where(beyond, "samples_cannot_be", np.where(far, "unusual_samples", ""))
    return [(record, str(code), output) for record, output, code in zip(records, outputs, codes, strict=True) if code]
