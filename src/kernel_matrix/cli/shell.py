"""Open a shell, or run a command, in a platform's container as a job sees it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.cli.selection import add_matrix_options, build_folder
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run import job_command as process
from kernel_matrix.run.docker.container import ContainerInterpreter, Containers
from kernel_matrix.run.executors import InstallError, MachineError, Request, UnavailableError
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which container, and what to run in it."""
    add_matrix_options(parser)
    parser.add_argument("platform", help="the platform")
    parser.add_argument("--toolchain", help="whose environment comes first on PATH (the platform's first toolchain)")
    parser.set_defaults(words=[])
    parser.epilog = "After -- stands a command to run instead of a shell."


def main(options: argparse.Namespace) -> int:
    """The exit status of the shell or command."""
    request = request_of(load(options.matrix), options, options.platform, options.toolchain)
    with container_of(request) as interpreter:
        request.say(f"{interpreter.reference} as a job of {request.job.toolchain} sees it")
        return run_in(request, interpreter, options.words or ["bash"])


@contextmanager
def container_of(request: Request) -> Iterator[ContainerInterpreter]:
    """The platform's image, for one command as a job sees it.

    Raises:
        UserError: it cannot be had, or a run is at the job.
    """
    try:
        with locked(request.build / "jobs" / f"{request.job.id}.lock"), Containers() as containers:
            yield containers.prepare(request)
    except InstallError as error:
        raise UserError(with_cause(str(error), "build")) from None
    except (UnavailableError, MachineError) as error:
        raise UserError(str(error)) from None
    except BusyError:
        raise UserError(f"{request.folder}: a run is at it. Wait for its end, or give --build FOLDER.") from None


def run_in(request: Request, interpreter: ContainerInterpreter, words: Sequence[str], packages: str = "") -> int:
    """The exit status of a command; Python finds what lies in the folder ``packages`` last."""
    # Its pseudo-terminal is of no use to the other commands.
    from kernel_matrix.run.docker.terminal import attach

    own = PurePosixPath(interpreter.python).parent
    environment = {**process.environment(request, interpreter), "PATH": f"{own}:{interpreter.search_path}"}
    environment["PYTHONPATH"] = ":".join(filter(None, (environment["PYTHONPATH"], packages)))
    return attach(interpreter, words, environment)


def request_of(matrix: Matrix, options: argparse.Namespace, name: str, toolchain: str | None) -> Request:
    """A job of the platform without cases, of this toolchain or the platform's first one.

    Raises:
        UserError: there is no such platform, or it has no such toolchain.
    """
    platform = matrix.platforms.get(name)
    if platform is None:
        raise UserError(f"{name}: there is no such platform.{did_you_mean(name, matrix.platforms)}")
    names = [lane.toolchain for lane in platform.entries]
    toolchain = toolchain or names[0]
    if toolchain not in names:
        raise UserError(f"--toolchain {toolchain}: {name} has no such toolchain.{did_you_mean(toolchain, names)}")
    machine = detect()
    device = next((d for target in platform.targets if (d := machine.device_for(platform.device, target))), None)
    root = Path(options.matrix).parent.resolve()
    job = Job(name, toolchain, ())
    return Request(root, build_folder(options), matrix, job, device, lambda text: print(text, file=sys.stderr))
