"""Labels of a pull request -> the one target that they ask for: ``matrix: gfx942`` or ``matrix: cuda sm_90``.

A label is a text of a person. It is compared with the names of matrix.yaml, and nothing else is done with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Job

_LABEL = re.compile(r"matrix:\s*(\S.*)")


def asked_for(matrix: Matrix, labels: str) -> str:
    """Return the words after ``matrix:`` of the label that has them; empty if none has. ``labels`` is a list as JSON.

    Raises:
        UserError: it is no list of texts, several labels ask for something, or one names what matrix.yaml has not.
    """
    try:
        listed = json.loads(labels or "null") or []  # a workflow engine may write no labels as nothing
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(label, str) for label in listed):
        raise UserError("--labels: give the names of the labels as a list in JSON.")
    asked = [match[1].strip() for label in listed if (match := _LABEL.fullmatch(label))]
    if len(asked) > 1:
        raise UserError(f"--labels: {len(asked)} labels begin with 'matrix:'. Leave that of one target.")
    for word in asked[0].split() if asked else ():
        if word not in (names := _names(matrix)):
            raise unknown("the label 'matrix:'", "platform, target or toolchain in matrix.yaml", word, names)
    return " ".join(asked[0].split()) if asked else ""


def _names(matrix: Matrix) -> list[str]:
    targets = (target for platform in matrix.platforms.values() for target in platform.targets)
    return list(dict.fromkeys([*targets, *matrix.platforms, *matrix.toolchains]))


def only(jobs: Sequence[Job], words: str) -> list[Job]:
    """Return the jobs with only the cases whose platform, target and toolchain have all the words.

    Raises:
        UserError: no case has them.
    """
    asked = set(words.split())
    kept = [replace(job, cases=tuple(case for case in job.cases if asked <= _of(case))) for job in jobs]
    kept = [job for job in kept if job.cases]
    if not kept:
        raise UserError(f"no case is left: the label 'matrix: {words}' names things that no cell has together.")
    return kept


def _of(case: Case) -> set[str]:
    return {case.cell.platform, case.cell.target, case.cell.toolchain}
