"""Make the image of a platform once, for all machines of a run that work on the platform."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.ci.packing import pack_image
from kernel_matrix.cli.options import add_matrix_options, load_project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which platform, and where its image goes."""
    add_matrix_options(parser)
    parser.add_argument("--platform", required=True, help="the platform")
    parser.add_argument(
        "--into",
        type=Path,
        help="the folder (bundle, where a run in a checkout of the same commit looks for it)",
    )


def main(options: argparse.Namespace) -> int:
    """Make the image and write it with its checksum, if an engine answers."""
    project = load_project(options)
    into = options.into or project.root / "bundle"
    if pack_image(project.matrix, project.root, options.platform, into, print):
        print(f"{into}: {sum(path.stat().st_size for path in into.iterdir()) / 1e9:.2f} GB")
    return 0
