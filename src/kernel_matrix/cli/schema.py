"""Print matrix.yaml's JSON Schema."""

from __future__ import annotations

import argparse

from kernel_matrix.config.schema import schema


def arguments(_: argparse.ArgumentParser) -> None:
    """It takes none."""


def main(_: argparse.Namespace) -> int:
    """Print it."""
    print(schema(), end="")
    return 0
