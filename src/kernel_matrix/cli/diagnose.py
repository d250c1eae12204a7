"""Say the cause and the remedy of an error that is pasted or piped in."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.diagnosis import Stage, diagnose, in_words


def arguments(parser: argparse.ArgumentParser) -> None:
    """Where the error is."""
    parser.add_argument("file", nargs="?", type=Path, help="a file with the error (standard input)")
    parser.add_argument("--stage", choices=Stage.__args__, default="", help="where it happened, if known")  # type: ignore[attr-defined]


def main(options: argparse.Namespace) -> int:
    """Print the diagnosis; 1 when the error is not known."""
    try:
        text = options.file.read_text(encoding="utf-8", errors="replace") if options.file else sys.stdin.read()
    except OSError as error:
        raise UserError(f"{options.file}: {error.strerror}. Name a file that holds the error.") from None
    found = diagnose(text, options.stage)
    print(in_words(found))
    if found and found.link:
        print(f"  see: {found.link}")
    return int(found is None)
