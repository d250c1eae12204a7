"""The executor ``container``: a container of the platform's image, which holds an environment of every toolchain."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from kernel_matrix.run.container import images, places
from kernel_matrix.run.container.build import Image
from kernel_matrix.run.container.built_image import built
from kernel_matrix.run.container.engine import Engine, connect, sweep
from kernel_matrix.run.container.interpreter import ContainerInterpreter
from kernel_matrix.run.container.recipe import Source, source_of
from kernel_matrix.run.container.sandbox import Sandbox
from kernel_matrix.run.executors import InstallError, Request, UnavailableError

_RESULTS = 64 << 20  # bytes that a job's folder must have room for


@dataclass
class Containers:
    """The engine and its images, for one run."""

    engine: Engine | None = None
    made: dict[tuple[str, str], Image | InstallError] = field(default_factory=dict)

    def __enter__(self) -> Callable[[Request], ContainerInterpreter]:
        return self.prepare

    def __exit__(self, *_: object) -> None:
        if self.engine is not None:
            self.engine.client.close()

    def prepare(self, request: Request) -> ContainerInterpreter:
        """Look at what the job needs, and make the platform's image or find it.

        Raises:
            UnavailableError: this machine lacks something; the text says what.
            InstallError: the image cannot be made, or the package cannot be built in it; the words of the engine or of
                the build.
        """
        lock = request.lock
        source = source_of(request.matrix, request.root, request.job.platform, gpu=request.gpu)
        if source is None:
            raise UnavailableError(f"matrix.yaml names no container for {request.job.platform}")
        _demand_device(request)
        _demand_driver(request)
        if self.engine is None:
            self.engine = connect(start=True)
            sweep(self.engine.client)
        request.folder.mkdir(parents=True, exist_ok=True)
        _demand_room(request.folder, _RESULTS, "for a job's results")
        image = self._image(self.engine, request, source)
        sandbox = Sandbox(request, image.id, self.engine.cpus, self.engine.rootless)
        interpreter = ContainerInterpreter(self.engine, sandbox, places.python_of(lock), image.reference)
        if request.gpu:
            interpreter.demand_device()
        return built(interpreter) if request.matrix.package.build_commands else interpreter

    def _image(self, engine: Engine, request: Request, source: Source) -> Image:
        """Return the platform's image; a failed build is not tried again."""
        key, disk = (source.platform, source.kind), int(request.matrix.container.disk * (1 << 30))
        if key not in self.made:
            try:
                self.made[key] = images.build(
                    engine.client, source, request.say, lambda: _demand_room(engine.folder, disk, "to make an image")
                )
            except InstallError as error:
                self.made[key] = error
        image = self.made[key]
        if isinstance(image, InstallError):
            raise image
        return image


def _demand_device(request: Request) -> None:
    """Check that a container can be given the GPU of the platform at all."""
    if request.gpu and not request.vendor.in_containers:
        raise UnavailableError(
            f"no container can be given the GPU of {request.job.platform}: {request.vendor.why_no_flags}"
        )


def _demand_driver(request: Request) -> None:
    """Check that the driver is as new as the image needs it."""
    needed, device = request.platform.driver, request.device
    if request.gpu and needed and device and device.driver and Version(device.driver) < Version(needed):
        raise UnavailableError(
            f"the image of {request.job.platform} needs driver {needed} or newer, and {device.name} has {device.driver}"
        )


def _demand_room(folder: Path, needed: int, purpose: str) -> None:
    """Check that so many bytes are free in the folder."""
    if not folder.exists():  # the engine's folder may be on another side of a container or virtual machine
        return
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UnavailableError(f"{folder} has {free >> 20} MiB free, and {needed >> 20} MiB are needed {purpose}")
