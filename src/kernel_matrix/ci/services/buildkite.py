"""Buildkite: one step per row, for ``buildkite-agent pipeline upload``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_matrix.ci.services import PLAN, block_style, command_of, minutes, report_command, started
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_plan import RowPlan

RESULTS = ("build/results/*/*.parquet", "build/results/*/*.jsonl")


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return the steps. One tag per label chooses the agent of a step. The last step makes the report of all rows."""
    fetch = f"buildkite-agent artifact download {PLAN} ."
    steps: list[dict[str, Any]] = [
        {
            "label": row.id,
            "key": "".join(char if char.isalnum() else "-" for char in row.id),
            "command": [fetch, command_of(row)],
            "agents": agents(row.labels),
            "timeout_in_minutes": minutes(matrix, row),
            "artifact_paths": list(RESULTS),
        }
        for row in started(row_plan)
    ]
    # The agent fails if there is no such file: of results none need be there.
    results = [f"buildkite-agent artifact download '{pattern}' . || true" for pattern in RESULTS]
    # The build's page shows the summary, also where the report is red.
    tells = "trap 'buildkite-agent annotate --context kernel-matrix < build/site/summary.md' EXIT"
    report = {
        "label": "report",
        "key": "report",
        "command": [fetch, "mkdir -p build/results", *results, tells, report_command()],
        "agents": agents((matrix.ci.hosted,)),
        "artifact_paths": ["build/site/**/*"],
    }
    return block_style({"steps": [*steps, {"wait": None, "continue_on_failure": True}, report]})


def agents(labels: Sequence[str]) -> dict[str, str]:
    """Return the tags of an agent. The last label is the most particular one and names the queue."""
    return {"queue": labels[-1], **{label: "true" for label in labels[:-1] if label != "self-hosted"}}  # GitHub's own
