"""A container of the platform's image, which holds an environment of every toolchain."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker.errors
from packaging.version import Version

from kernel_matrix.run.docker import images
from kernel_matrix.run.docker.build import Image
from kernel_matrix.run.docker.engine import ERRORS, Engine, answering, connect, explained, remove, sweep
from kernel_matrix.run.docker.sandbox import Sandbox
from kernel_matrix.run.executors import Child, InstallError, MachineError, Prepare, Request, UnavailableError

_RESULTS = 64 << 20  # bytes that a job's folder must have room for
_INTO_LOG = 'exec "$@" >>"$0" 2>&1'


@dataclass
class Containers:
    """The engine and its images, for one run."""

    engine: Engine | None = None
    made: dict[tuple[str, bool], Image | InstallError] = field(default_factory=dict)

    def __enter__(self) -> Containers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.engine is not None:
            self.engine.client.close()

    def prepare(self, request: Request) -> ContainerInterpreter:
        """Look at what the job needs, and make the platform's image or find it.

        Raises:
            UnavailableError: this machine lacks something, and what.
            InstallError: the image cannot be made; the engine's words.
        """
        dockerfile = request.platform.container
        if dockerfile is None:
            raise UnavailableError(f"matrix.yaml names no container for {request.job.platform}")
        _demand_device(request)
        _demand_driver(request)
        if self.engine is None:
            self.engine = connect()
            sweep(self.engine.client)
        request.folder.mkdir(parents=True, exist_ok=True)
        _demand_room(request.folder, _RESULTS, "for a job's results")
        image = self._image(self.engine, request, dockerfile)
        sandbox = Sandbox(request, image.id, self.engine.cpus)
        interpreter = ContainerInterpreter(self.engine, sandbox, images.python_of(request.lock), image.reference)
        if request.gpu:
            interpreter.demand_device()
        return interpreter

    def _image(self, engine: Engine, request: Request, dockerfile: str) -> Image:
        """The platform's image; one that cannot be made is tried once."""
        key = (request.job.platform, request.gpu)
        if key not in self.made:
            lanes = request.platform.entries
            locks = [request.root / request.matrix.toolchains[lane.toolchain].lock for lane in lanes]
            try:
                self.made[key] = images.build(
                    engine.client,
                    request.root,
                    request.job.platform,
                    request.root / dockerfile,
                    list(dict.fromkeys(locks)),
                    installer=request.matrix.installer,
                    gpu=request.gpu,
                    say=request.say,
                    before=lambda: _demand_room(
                        engine.folder, int(request.matrix.container.disk * (1 << 30)), "to make an image"
                    ),
                )
            except InstallError as error:
                self.made[key] = error
        image = self.made[key]
        if isinstance(image, InstallError):
            raise image
        return image


@contextlib.contextmanager
def executor() -> Iterator[Prepare]:
    """Every platform gets its image, made or found once per run."""
    with Containers() as containers:
        yield containers.prepare


def _demand_device(request: Request) -> None:
    if request.gpu and not request.vendor.in_containers:
        raise UnavailableError(
            f"no container can be given the GPU of {request.job.platform}: {request.vendor.why_no_flags}"
        )


def _demand_driver(request: Request) -> None:
    needed, device = request.platform.driver, request.device
    if request.gpu and needed and device and device.driver and Version(device.driver) < Version(needed):
        raise UnavailableError(
            f"the image of {request.job.platform} needs driver {needed} or newer, and {device.name} has {device.driver}"
        )


def _demand_room(folder: Path, needed: int, purpose: str) -> None:
    if not folder.exists():  # the engine's, seen from a container or a virtual machine's other side
        return
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UnavailableError(f"{folder} has {free >> 20} MiB free, and {needed >> 20} MiB are needed {purpose}")


@dataclass(frozen=True)
class ContainerInterpreter:
    """A Python of an image."""

    engine: Engine
    sandbox: Sandbox
    python: str
    reference: str

    @property
    def facts(self) -> Mapping[str, str]:
        """Which image it is."""
        return {"image": self.reference}

    @property
    def search_path(self) -> str:
        """Where the image finds programs."""
        with answering("to describe an image"):
            image = self.engine.client.images.get(self.sandbox.image)
        variables = dict(text.split("=", 1) for text in image.attrs["Config"]["Env"] or ())
        return str(variables.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))

    def seen(self, path: Path) -> str:
        """Where the path is mounted."""
        return self.sandbox.seen(path)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path) -> Child:
        """Start it in a container of its own, which writes its output itself: that is kept whatever becomes of both."""
        self.sandbox.prepare()
        container = self.create(
            ["sh", "-c", _INTO_LOG, self.seen(log), self.python, *arguments], environment, working_dir=self.seen(cwd)
        )
        try:
            with answering("to start a container"):
                container.start()
        except MachineError:
            remove(container)
            raise
        return ContainerChild(container, self.sandbox)

    def create(self, command: Sequence[str], environment: Mapping[str, str], **more: Any) -> Any:
        """A container in the job's sandbox that has not started."""
        options = {**self.sandbox.options(environment), **more}
        with answering("to create a container"):
            return self.engine.client.containers.create(entrypoint=[command[0]], command=list(command[1:]), **options)

    def demand_device(self) -> None:
        """Start a container with the device, to see that the engine can give it one.

        Raises:
            UnavailableError: it cannot; the engine's words.
        """
        container = None
        try:
            container = self.create(["true"], {})
            container.start()
        except (*ERRORS, MachineError) as error:
            platform = self.sandbox.request.platform
            raise UnavailableError(
                f"the engine gives no {platform.title} device to a container: {explained(error)}. "
                "Set up the vendor's container support, or take --executor venv"
            ) from None
        finally:
            if container is not None:
                remove(container)


class ContainerChild:
    """A running container."""

    def __init__(self, container: Any, sandbox: Sandbox) -> None:
        self.why = ""
        self._container, self._sandbox = container, sandbox
        self._status: int | None = None
        self._fault: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        """One long question to the engine instead of many short ones; it breaks off when the engine dies."""
        try:
            self._container.wait(timeout=None)
        except ERRORS as error:
            self._fault = error
        finally:
            self._over.set()

    def poll(self) -> int | None:
        """Its exit status, once the container is gone."""
        if self._status is None and self._over.is_set():
            if self._fault is not None:
                raise MachineError(f"the Docker engine was lost: {explained(self._fault)}")
            self._status = self._end()
        return self._status

    def _end(self) -> int:
        """Ask how it ended, and remove it."""
        state = {"Status": "removing"}
        try:
            with contextlib.suppress(docker.errors.NotFound):
                self._container.reload()
                state = self._container.attrs["State"]
        except ERRORS as error:
            raise MachineError(f"the Docker engine was lost: {explained(error)}") from error
        if state["Status"] == "removing":
            raise MachineError("somebody else removed the job's container")
        remove(self._container)
        self._sandbox.settle()
        status = int(state["ExitCode"])
        if state["OOMKilled"] and status == 137:
            limit = self._sandbox.request.matrix.container.memory
            self.why = f"it reached the container's memory limit of {limit:g} GiB"
        return 128 - status if 128 < status < 128 + 65 else status  # as a shell says a signal

    def kill(self) -> None:
        """Ask it to stop, end it when it does not, and remove it."""
        if self._status is not None:
            return
        with answering("to stop a container"), contextlib.suppress(docker.errors.NotFound):
            self._container.stop(timeout=self._sandbox.request.matrix.container.grace)
        remove(self._container)
        self._sandbox.settle()
        self._status = -9
