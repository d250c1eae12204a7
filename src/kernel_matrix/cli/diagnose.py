"""Say the cause and the remedy of an error that is pasted or piped in."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.base.commands import here
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.diagnosis import STAGES, decoded, diagnose, in_words, rules_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the error is and whose rules are asked."""
    parser.add_argument("file", nargs="?", type=Path, help="a file with the error (standard input)")
    parser.add_argument("--stage", choices=STAGES, default="", help="where it happened, if known")
    parser.add_argument(
        "--matrix", type=Path, help="the configuration whose rules are asked first (matrix.yaml, if there is one)"
    )


def main(options: argparse.Namespace) -> int:
    """Print the diagnosis; return 1 when the error is not known."""
    try:
        text = decoded(options.file.read_bytes() if options.file else sys.stdin.buffer.read())
    except OSError as error:
        raise UserError(f"{options.file}: {error.strerror}. Name a file that holds the error.") from None
    matrix = options.matrix or Path("matrix.yaml")
    named = options.matrix is not None or matrix.exists()
    rules = rules_of(load(matrix), matrix.parent) if named else None
    diagnosis = diagnose(text, options.stage, rules=rules)
    print(here(in_words(diagnosis, text)))
    if diagnosis and diagnosis.link:
        print(f"  see: {diagnosis.link}")
    return int(diagnosis is None)
