"""Rows in the words of the engines that start machines. The plan is only data, so an engine is one function."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML

from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row

NAMES = ("github", "gitlab", "buildkite")
_SETUP_MINUTES = 20  # to make environments and send results, beside the job's own time limit


def command(row: Row) -> str:
    """What every engine runs for a row, and what a person types."""
    return f"ci/nox -s test-{row.platform} -- --plan build/plan.json --row {row.id}"


def render(engine: str, matrix: Matrix, spread: RowPlan) -> str:
    """The rows for the engine of that name."""
    return {"github": github, "gitlab": gitlab, "buildkite": buildkite}[engine](matrix, spread)


def github(matrix: Matrix, spread: RowPlan) -> str:
    """One line of JSON for ``fromJSON``: the rows on hosted machines, and those on machines of one's own."""
    kinds: dict[str, list[dict[str, Any]]] = {"hosted": [], "own": []}
    for row in started(spread):
        kinds["own" if row.own else "hosted"].append(
            {"id": row.id, "platform": row.platform, "labels": list(row.labels), "minutes": minutes(matrix, row)}
        )
    return json.dumps(kinds, separators=(",", ":")) + "\n"


def gitlab(matrix: Matrix, spread: RowPlan) -> str:
    """A child pipeline: one job per row, its runner chosen by tags, its plan from the parent's artifact."""
    pipeline: dict[str, Any] = {
        "stages": ["test"],
        "variables": {"GIT_DEPTH": "1"},
        "workflow": {"rules": [{"if": "$CI_PIPELINE_SOURCE == 'parent_pipeline'"}]},
    }
    for row in started(spread):
        pipeline[row.id] = {
            "stage": "test",
            "tags": list(row.labels),
            "timeout": f"{minutes(matrix, row)} minutes",
            "needs": [{"pipeline": "$PARENT_PIPELINE_ID", "job": "plan"}],
            "script": [command(row)],
            "artifacts": {"when": "always", "paths": ["build/results/"], "expire_in": "30 days"},
        }
    return _yaml(pipeline)


def buildkite(matrix: Matrix, spread: RowPlan) -> str:
    """Steps for ``buildkite-agent pipeline upload``: an agent is chosen by one tag per label."""
    steps = [
        {
            "label": row.id,
            "key": "".join(char if char.isalnum() else "-" for char in row.id),
            "command": [f"buildkite-agent artifact download build/plan.json .\n{command(row)}"],
            "agents": _agent(row.labels),
            "timeout_in_minutes": minutes(matrix, row),
            "artifact_paths": "build/results/*.xml",
        }
        for row in started(spread)
    ]
    return _yaml({"steps": steps})


def _agent(labels: Sequence[str]) -> dict[str, str]:
    """``self-hosted`` is GitHub's word; the last label is the most particular one and names the queue."""
    return {"queue": labels[-1], **{label: "true" for label in labels[:-1] if label != "self-hosted"}}


def started(spread: RowPlan) -> list[Row]:
    """The rows that a machine is started for."""
    return [row for row in spread.rows if row.labels]


def minutes(matrix: Matrix, row: Row) -> int:
    """When the engine is to give a row up: later than the harness does, which then still says what it had."""
    return math.ceil(len(row.jobs) * matrix.limits.job / 60) + _SETUP_MINUTES


def _yaml(document: dict[str, Any]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed as its default, None
    yaml.width = 1000
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()
