"""RowPlan -> what is submitted: the rows that ask a cluster for the same, and for how long. Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from kernel_matrix.ci.engines.state import Batch
from kernel_matrix.ci.event_plan import Known
from kernel_matrix.ci.services import minutes, started
from kernel_matrix.config.model import Ask, Matrix, Slurm
from kernel_matrix.config.plan import Case
from kernel_matrix.config.suite import stands_for_all
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.results.history import lane_id

MOST_ROWS = 1000  # of one array; by default Slurm takes 1001
_SLOWER = 4  # times that a node may be slower than the machine that was measured
_LEAST_MINUTES = 5
_SETUP_SECONDS = 600.0  # for environments, where no report says how long a row takes beside its cases


def batches(matrix: Matrix, row_plan: RowPlan, known: Known) -> tuple[Batch, ...]:
    """Return the rows that ask for the same node, together, with the most minutes that one of them asks for."""
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in started(row_plan):
        kinds[row.labels[-1] if row.own else ""].append(row)
    made: list[Batch] = []
    for target, alike in kinds.items():
        device = matrix.platforms[alike[0].platform].device if target else ""
        ask = ask_of(matrix.ci.slurm or Slurm(), target)
        measured = [asked_minutes(matrix, row, known) for row in alike]
        most = max(asked or minutes(matrix, row) for row, asked in zip(alike, measured, strict=True))
        batch = Batch(
            rows=tuple(row.id for row in alike),
            target=target,
            device=device,
            ask=ask,
            minutes=min(most, ask.minutes or most),
            measured=None not in measured,
        )
        made += parts(batch, MOST_ROWS)
    return tuple(made)


def parts(batch: Batch, most: int) -> Iterator[Batch]:
    """Yield a batch in parts of at most so many rows."""
    for first in range(0, len(batch.rows), most):
        yield batch.model_copy(update={"rows": batch.rows[first : first + most]})


def ask_of(slurm: Slurm, target: str) -> Ask:
    """Return what a row of a target asks for: what all rows ask for, where the target's own entry says nothing else.

    Rows without a target take any node, and ask for no device.
    """
    common = {name: getattr(slurm, name) for name in Ask.model_fields}
    own = slurm.targets[target].model_dump(exclude_unset=True) if target else {"gres": ""}
    return Ask(**{**common, **own})


def asked_minutes(matrix: Matrix, row: Row, known: Known) -> int | None:
    """Return the minutes that a row asks for, from measured times; None where a case of it was never measured."""
    seconds = 0.0
    for case in (case for job in row.jobs for case in job.cases if not case.exclusion):
        measured = _measured(case, known.seconds)
        if measured is None:
            return None
        seconds += measured
    setup = known.setup.get(row.platform, _SETUP_SECONDS)
    return min(minutes(matrix, row), _LEAST_MINUTES + math.ceil((_SLOWER * seconds + 2 * setup) / 60))


def _measured(case: Case, seconds: Mapping[str, float]) -> float | None:
    """Return the seconds of a case; of one that stands for all tests of a lane, of all that the lane had."""
    if not stands_for_all(case.cell):
        return seconds.get(case.id)
    lane = lane_id(case.id)
    of_lane = [value for name, value in seconds.items() if name.startswith(f"{lane}/")]
    return sum(of_lane) if of_lane else None
