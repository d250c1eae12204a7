"""Write an archive that the matrix runs from with no network: source, images, wheels, checksums."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.base.git import commit
from kernel_matrix.cli.selection import add_matrix_options, build_folder
from kernel_matrix.config.load import load
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run.docker import bundle, images
from kernel_matrix.run.docker.engine import connect
from kernel_matrix.run.executors import InstallError, UnavailableError


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add_matrix_options(parser)
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--wheels", type=Path, required=True, help="the folder with the wheels of ci/locks/harness.txt")
    parser.add_argument("--into", type=Path, help="the archive (build/kernel-matrix-COMMIT.tar)")


def main(options: argparse.Namespace) -> int:
    """Make the images and write the archive."""
    matrix, root = load(options.matrix), options.matrix.resolve().parent
    for name in options.platform or ():
        if name not in matrix.platforms:
            raise UserError(f"--platform {name}: there is no such platform.{did_you_mean(name, matrix.platforms)}")
    carried = []
    try:
        client = connect().client
        for name, platform in matrix.platforms.items():
            if platform.container is None or name not in (options.platform or matrix.platforms):
                continue
            locks = [root / matrix.toolchains[lane.toolchain].lock for lane in platform.entries]
            dockerfile = root / platform.container
            image = images.build(client, root, name, dockerfile, locks, gpu=False, say=print)
            content = images.content(dockerfile, locks, gpu=False)
            carried.append(bundle.Carried(name, content, image.reference, image.id))
        revision = commit(root)
        into = options.into or build_folder(options) / f"kernel-matrix-{revision}.tar"
        bundle.write(client, root, revision, carried, options.wheels, into, print)
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from error
    except UnavailableError as error:
        raise UserError(str(error)) from error
    print(f"{into}: {into.stat().st_size / 1e9:.2f} GB")
    return 0
