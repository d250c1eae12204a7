"""Resolve the files that the locks of the toolchains are made from (*.in) anew, or those that are named."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load_unchecked
from kernel_matrix.config.locks import source_of
from kernel_matrix_adopt.lock import resolve


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which locks."""
    parser.add_argument("--matrix", type=Path, default=Path("matrix.yaml"), help="the configuration")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a lock, by its name without .txt; all by default")


def main(options: argparse.Namespace) -> int:
    """Write the locks, and say which. A lock that is not there yet is made."""
    matrix, root = load_unchecked(options.matrix), options.matrix.resolve().parent
    locks = {Path(name).stem: root / name for name in matrix.locks}
    for name in options.names or locks:
        if name not in locks:
            raise UserError(f"{name}: no toolchain has this lock. There are: {', '.join(locks)}.")
        source = source_of(locks[name])
        if not source.is_file():
            raise UserError(f"{source}: there is no such file. Write into it what {locks[name].name} is made from.")
        resolve(source, locks[name], matrix.installer)
        print(f"wrote {locks[name].relative_to(root)}")
    return 0
