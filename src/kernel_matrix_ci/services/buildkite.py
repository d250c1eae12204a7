"""Buildkite: one step per row, for ``buildkite-agent pipeline upload``."""

from __future__ import annotations

from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix_ci.services import block_style, command_of, minutes, started


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return the steps. One tag per label chooses the agent of a step.

    The last label is the most particular one and names the queue; ``self-hosted`` is GitHub's.
    """
    steps = [
        {
            "label": row.id,
            "key": "".join(char if char.isalnum() else "-" for char in row.id),
            "command": [f"buildkite-agent artifact download build/plan.json .\n{command_of(row)}"],
            "agents": {
                "queue": row.labels[-1],
                **{label: "true" for label in row.labels[:-1] if label != "self-hosted"},
            },
            "timeout_in_minutes": minutes(matrix, row),
            "artifact_paths": ["build/results/*/*.parquet", "build/results/*/*.jsonl"],
        }
        for row in started(row_plan)
    ]
    return block_style({"steps": steps})
