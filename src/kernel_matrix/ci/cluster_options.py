"""The options of a command that may run its jobs on a cluster. Nothing here takes long to import."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path

ENGINES = tuple(
    sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).with_name("engines"))]) if module.ispkg)
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options: where the rows are submitted, and what is done with those that were submitted before."""
    parser.add_argument("--on", choices=ENGINES, help="submit the rows of the plan to this engine, and follow them")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--detach", action="store_true", help="with --on: submit, and do not wait")
    what.add_argument("--attach", action="store_true", help="follow what was submitted before")
    what.add_argument("--cancel", action="store_true", help="cancel what was submitted before")
