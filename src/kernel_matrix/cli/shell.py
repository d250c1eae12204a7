"""Open a shell, or run a command, in a platform's container as a job sees it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path, PurePosixPath

from kernel_matrix import process
from kernel_matrix.cli.selection import add_matrix_options, build_folder
from kernel_matrix.errors import UserError, did_you_mean
from kernel_matrix.executors import InstallError, MachineError, Request, UnavailableError
from kernel_matrix.load import load
from kernel_matrix.locking import BusyError, locked
from kernel_matrix.machine import detect
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Job


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which container, and what to run in it."""
    add_matrix_options(parser)
    parser.add_argument("platform", help="the platform")
    parser.add_argument("--toolchain", help="whose environment comes first on PATH (the platform's first toolchain)")
    parser.set_defaults(words=[])
    parser.epilog = "After -- stands a command to run instead of a shell."


def main(options: argparse.Namespace) -> int:
    """The exit status of the shell or command."""
    # Its pseudo-terminal is of no use to the other commands.
    from kernel_matrix.executors.attach import attach
    from kernel_matrix.executors.container import Containers

    matrix = load(options.matrix)
    request = _request(matrix, options)
    try:
        with locked(request.build / "jobs" / f"{request.job.id}.lock"), Containers() as containers:
            interpreter = containers.prepare(request)
            own = PurePosixPath(interpreter.python).parent
            environment = {**process.environment(request, interpreter), "PATH": f"{own}:{interpreter.search_path}"}
            request.say(f"{interpreter.reference} as a job of {request.job.toolchain} sees it")
            return attach(interpreter, options.words or ["bash"], environment)
    except (UnavailableError, InstallError, MachineError) as error:
        raise UserError(str(error)) from None
    except BusyError:
        raise UserError(f"{request.folder}: a run is at it. Wait for its end, or give --build FOLDER.") from None


def _request(matrix: Matrix, options: argparse.Namespace) -> Request:
    """A job of the platform without cases.

    Raises:
        UserError: there is no such platform, or it has no such toolchain.
    """
    platform = matrix.platforms.get(options.platform)
    if platform is None:
        raise UserError(
            f"{options.platform}: there is no such platform.{did_you_mean(options.platform, matrix.platforms)}"
        )
    names = [lane.toolchain for lane in platform.lanes]
    toolchain = options.toolchain or names[0]
    if toolchain not in names:
        raise UserError(
            f"--toolchain {toolchain}: {options.platform} has no such toolchain.{did_you_mean(toolchain, names)}"
        )
    machine = detect()
    device = next((d for target in platform.targets if (d := machine.device_for(platform.device, target))), None)
    root = Path(options.matrix).parent.resolve()
    job = Job(options.platform, toolchain, ())
    return Request(root, build_folder(options), matrix, job, device, lambda text: print(text, file=sys.stderr))
