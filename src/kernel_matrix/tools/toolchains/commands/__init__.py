"""The commands of the group ``toolchains``."""

from __future__ import annotations

import argparse

from kernel_matrix.cli.options import add_matrix_options


def add_subject_options(parser: argparse.ArgumentParser, *, needs_package: bool = True) -> None:
    """Add the options of a command that tries versions of a package."""
    add_matrix_options(parser)
    number = None if needs_package else "?"
    parser.add_argument("package", nargs=number, help="the package whose versions are tried")
    parser.add_argument("--probe", action="append", help="only this probe (repeatable); all that apply by default")
    parser.add_argument(
        "--case", action="append", help="run this case or cell in each version; * stands for any text (repeatable)"
    )
    parser.add_argument("--discard", action="store_true", help="delete each environment when it was tried")
