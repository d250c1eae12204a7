"""Hold the workflow files against the rules that keep machines and results safe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.machines.policy import violations


def arguments(parser: argparse.ArgumentParser) -> None:
    """Whose files."""
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="the repository's root")


def main(options: argparse.Namespace) -> int:
    """Every violation on a line; 1 if there is one."""
    found = violations(read(options.root))
    print("\n".join(found) or "the workflow files keep every rule", file=sys.stderr if found else sys.stdout)
    return int(bool(found))


def read(root: Path) -> dict[str, str]:
    """The workflow files and the repository's own actions, by their paths.

    Raises:
        UserError: there are none.
    """
    folder = root / ".github"
    paths = [*folder.glob("workflows/*.y*ml"), *folder.glob("actions/**/action.y*ml")]
    if not paths:
        raise UserError(f"{folder}: there are no workflow files here. Name the repository's root.")
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(paths)}
