"""The CI services that start machines. A service is a module of this package that has ``render``."""

from __future__ import annotations

import importlib
import io
import math
import pkgutil
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from kernel_matrix.base.commands import command, line_here
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
PLAN = "build/plan.json"  # the file of the rows, which every job of a service has
_FEWEST_ROWS = 3  # for which an image is passed on: saving, sending, fetching and loading it takes minutes, too
_SETUP_MINUTES = 20  # for environments and the upload of results, which the job's own limit does not count


def render(name: str, matrix: Matrix, row_plan: RowPlan) -> str:
    """Return the rows in the format of one of the services ``NAMES``."""
    text: str = importlib.import_module(f"{__name__}.{name}").render(matrix, row_plan)
    return text


def command_of(row: Row, plan: str = PLAN, options: Sequence[str] = (), *, installed: bool = False) -> str:
    """Return the command that every service runs for a row, as the harness was started here: a person types it too.

    ``installed``: the harness is started by its name, as inside of an image that has it.
    """
    words = ["run", "--platform", row.platform, "--plan", plan, "--row", row.id]
    return command([*words, *options]) if installed else line_here(command(words), options)


def report_command() -> str:
    """Return the command that makes the report of all rows."""
    return line_here(command(["report", "--plan", PLAN, "build/results"]))


def started(row_plan: RowPlan) -> list[Row]:
    """Return the rows that a machine is started for."""
    return [row for row in row_plan.rows if row.labels]


def images(matrix: Matrix, row_plan: RowPlan) -> dict[str, int]:
    """Return the platforms whose image one hosted machine makes for the others, and the number of their rows."""
    hosted = Counter(row.platform for row in started(row_plan) if not row.own)
    return {name: rows for name, rows in hosted.items() if rows >= _FEWEST_ROWS and matrix.platforms[name].container}


def minutes(matrix: Matrix, row: Row) -> int:
    """Return the time limit of a row. The harness's own limit ends first, so that it can still write its results."""
    return math.ceil(len(row.jobs) * matrix.limits.job / 60) + _SETUP_MINUTES


def block_style(document: Mapping[str, Any]) -> str:
    """Return the YAML of a document, one key a line, in the document's order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed as its default, None
    yaml.width = 1000
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()
