"""Ask GitHub what became of each row's job of this workflow run, and wait until that is settled."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.selection import add_matrix_options, load_plan
from kernel_matrix.machines import job_status as lookout
from kernel_matrix.machines import row_plan as spread


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which plan, and where the answer goes."""
    add_matrix_options(parser)
    parser.add_argument("--plan", type=Path, required=True, help="the plan's file")
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="where the answer goes")


def main(options: argparse.Namespace) -> int:
    """Look until all jobs have ended, or have waited too long for a machine."""
    matrix, planned = load_plan(options)
    rows = spread.from_json(options.plan, planned)
    where = [os.environ.get(name, "") for name in ("GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")]
    if not all(where):
        raise UserError("GITHUB_REPOSITORY, GITHUB_RUN_ID and GITHUB_RUN_ATTEMPT are not set: this runs in a workflow.")
    repository, run, attempt = where
    seen = lookout.wait(
        lambda: lookout.statuses(rows, lookout.ask_github(repository, run, attempt)), 60 * matrix.ci.queue_minutes
    )
    options.write.parent.mkdir(parents=True, exist_ok=True)
    options.write.write_text(lookout.to_json(seen), encoding="utf-8")
    for status in seen:
        print(f"{status.row}: {status.status} {status.conclusion} {status.machine}".rstrip())
    return 0
