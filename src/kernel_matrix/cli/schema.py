"""Print matrix.yaml's JSON Schema."""

from __future__ import annotations

import argparse

from kernel_matrix.config.schema import schema


def arguments(_: argparse.ArgumentParser) -> None:
    """Add no option."""


def main(_: argparse.Namespace) -> int:
    """Print the schema."""
    print(schema(), end="")
    return 0
