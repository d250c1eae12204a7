"""A shell or a command in a platform's container, as a job sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.diagnosis import with_cause
from kernel_matrix.run import job_command
from kernel_matrix.run.decide import device_for
from kernel_matrix.run.docker.container import Containers
from kernel_matrix.run.docker.interpreter import ContainerInterpreter
from kernel_matrix.run.docker.terminal import attach
from kernel_matrix.run.executors import InstallError, MachineError, Request, UnavailableError
from kernel_matrix.vendors.machine import Machine


def request_for(
    matrix: Matrix,
    root: Path,
    build: Path,
    machine: Machine,
    platform: str,
    toolchain: str | None,
    say: Callable[[str], None],
) -> Request:
    """Return the request for a job without cases, of this toolchain or of the platform's first one.

    Raises:
        UserError: there is no such platform, or it has no such toolchain.
    """
    if platform not in matrix.platforms:
        raise unknown("", "platform", platform, matrix.platforms)
    section = matrix.platforms[platform]
    names = [entry.toolchain for entry in section.entries]
    toolchain = toolchain or names[0]
    if toolchain not in names:
        raise unknown("--toolchain", f"toolchain on {platform}", toolchain, names)
    device = device_for(matrix, platform, toolchain, section.targets, machine)
    return Request(root, build, matrix, Job(platform, toolchain, ()), device, say)


@contextmanager
def container_for(request: Request) -> Iterator[ContainerInterpreter]:
    """Prepare the platform's container for one command, and hold the job's lock as long.

    Raises:
        UserError: the container cannot be had, or a run works at the job.
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
    """Run a command and return its exit status. Python looks into the folder ``packages`` last."""
    folder = PurePosixPath(interpreter.python).parent
    environment = {**job_command.environment(request, interpreter), "PATH": f"{folder}:{interpreter.search_path}"}
    environment["PYTHONPATH"] = ":".join(filter(None, (environment["PYTHONPATH"], packages)))
    return attach(interpreter, words, environment)
