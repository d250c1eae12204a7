"""GitLab CI: a child pipeline with one job per row, and the report."""

from __future__ import annotations

from typing import Any

from kernel_matrix.ci.services import PLAN, block_style, command_of, minutes, report_command, started
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_plan import RowPlan


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return the child pipeline. Tags choose the runner of a job; the plan is the artifact of the parent pipeline.

    A parent pipeline cannot fetch its child's artifacts, so the child makes the report. With ``needs`` the report would
    get no artifacts but those it names, of at most 50 jobs: it stands in a later stage, and gets all jobs' artifacts.
    The child's own job ``plan`` fetches the plan, so that the report has it also if no row lives to hand it on.
    """
    pipeline: dict[str, Any] = {
        "stages": ["plan", "test", "report"],
        "variables": {"GIT_DEPTH": "1"},
        "workflow": {"rules": [{"if": "$CI_PIPELINE_SOURCE == 'parent_pipeline'"}]},
        "plan": {
            "stage": "plan",
            "tags": [matrix.ci.hosted],
            "variables": {"GIT_STRATEGY": "none"},
            "needs": [{"pipeline": "$PARENT_PIPELINE_ID", "job": "plan"}],
            "script": [f"test -f {PLAN}"],
            "artifacts": {"paths": [PLAN], "expire_in": "30 days"},
        },
    }
    for row in started(row_plan):
        pipeline[row.id] = {
            "stage": "test",
            "tags": list(row.labels),
            "timeout": f"{minutes(matrix, row)} minutes",
            "needs": ["plan"],
            "script": [command_of(row)],
            "artifacts": {"when": "always", "paths": ["build/results/"], "expire_in": "30 days"},
        }
    pipeline["report"] = {
        "stage": "report",
        "when": "always",
        "tags": [matrix.ci.hosted],
        "script": [report_command()],
        "artifacts": {"when": "always", "paths": ["build/site/"], "expire_in": "30 days"},
    }
    return block_style(pipeline)
