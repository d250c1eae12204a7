"""Write an archive that the matrix runs from with no network: source, images, wheels, checksums."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.git import commit
from kernel_matrix.ci.packing import pack
from kernel_matrix.cli.options import add_matrix_options, load_project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which platforms, and where the archive goes."""
    add_matrix_options(parser)
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument(
        "--wheels",
        type=Path,
        required=True,
        help="the folder with the wheels of harness.txt and trends.txt in ci/locks",
    )
    parser.add_argument("--into", type=Path, help="the archive (build/kernel-matrix-COMMIT.tar)")


def main(options: argparse.Namespace) -> int:
    """Make the images and write the archive."""
    project = load_project(options)
    into = options.into or project.build / f"kernel-matrix-{commit(project.root)}.tar"
    platforms = dict.fromkeys(options.platform or project.matrix.platforms)
    pack(project.matrix, project.root, platforms, options.wheels, into, print)
    print(f"{into}: {into.stat().st_size / 1e9:.2f} GB")
    return 0
