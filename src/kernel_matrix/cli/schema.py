"""Print the JSON Schema of matrix.yaml or of compat.json."""

from __future__ import annotations

import argparse

from kernel_matrix.config.schema import schema


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option: of which file."""
    parser.add_argument("--of", choices=("matrix", "compat"), default="matrix", help="the file that it describes")


def main(options: argparse.Namespace) -> int:
    """Print it."""
    if options.of == "compat":
        from kernel_matrix.report import document  # beside the configuration's it takes long to import

        print(document.schema(), end="")
    else:
        print(schema(), end="")
    return 0
