"""The model of a vendor and of its devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.vendors.builds import CPU
from kernel_matrix.vendors.finding import Finding, Status
from kernel_matrix.vendors.program import Program


@dataclass(frozen=True)
class Device:
    """Something that kernels run on: its vendor, its name, and the targets whose code it runs.

    ``emulated`` says that software stands in for it.
    """

    vendor: str
    name: str
    targets: tuple[str, ...]
    driver: str = ""
    emulated: bool = False


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """All that the harness knows of a vendor. Each vendor has to fill the fields without a default.

    title: The name that people read, such as ``NVIDIA``.
    kind: What its devices are, in a sentence: ``GPU``.
    gpu: Whether its devices are GPUs: one job at a time uses them, after a preflight, with the builds for GPUs.
    framework_device: The package's word for such a device: the ``device`` of a job.
    build: The kind of the builds that its devices need (``builds.toml``). ``own``: no index here has them, so there is
        no lock of them, and jobs run in an environment that is there already.
    detect: Return this machine's devices. It never fails: what does not answer is no device, and ``driver`` says why.
        By default there are none.
    docker_flags: What a person types to give the devices to ``docker run``; empty where nothing is to be given.
    why_no_flags: Why ``docker_flags`` is empty.
    container_options: Return the same for the engine's interface (keyword arguments of the Docker SDK).
    image_flags: The same for each program that runs an image without a daemon: ``apptainer``, ``podman``.
    in_containers: Whether a container can have the devices.
    hosted: Whether the machines of every CI service have such a device.
    driver: Look whether this machine's devices can be used; None where no driver is needed.
    programs: What toolchains start to make code for the devices.
    variables: The environment variables that a job gets from the shell: they choose devices, or say where software is.
        None of them may change a result.
    build_variables: Return the variables by which build systems take the targets.
    with_device: The best evidence where a device is.
    without_device: The best evidence where none is. ``planned``: without a device there is nothing to compile.
    limit: Why there is no better evidence than ``with_device``, where that is less than ``ran``.
    lacking: What is lacking where no device is; a device for the targets if empty.
    stand_in: Make a device of software that runs code for a target without its hardware; it returns None where there
        is none for the target. None where no target has one. Only the job can find out whether it works on a machine.
    stood_in_for: The targets that may have such a device, on some machine; empty means all or none.
    names: By target, the names that people have for its devices, as words: the search of the page knows them.
    known: The targets that this version knows, where it has a table of them; empty where any name may be one.
    """

    title: str
    kind: str
    gpu: bool
    framework_device: str
    build: str = CPU
    detect: Callable[[], list[Device]] = list
    docker_flags: str = ""
    why_no_flags: str = ""
    container_options: Callable[[], Mapping[str, Any]] = dict
    image_flags: Mapping[str, str] = field(default_factory=dict)
    in_containers: bool = True
    hosted: bool = False
    driver: Callable[[Sequence[Device]], Finding] | None = None
    programs: tuple[Program, ...] = ()
    variables: tuple[str, ...] = ()
    build_variables: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}
    with_device: Evidence = "ran"
    without_device: Evidence = "compiled"
    limit: str = ""
    lacking: str = ""
    stand_in: Callable[[Sequence[Device], str], Device | None] | None = None
    stood_in_for: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    @property
    def driver_finding(self) -> str:
        """Return the name of the finding of :attr:`driver`."""
        return f"{self.title} driver"

    def found(self, status: Status, text: str, remedy: str = "") -> Finding:
        """Return the finding of :attr:`driver`."""
        return Finding(self.driver_finding, status, text, remedy)

    @property
    def emulates(self) -> bool:
        """Return whether its devices emulate others."""
        return self.with_device == "emulated"

    @property
    def compiles_without_device(self) -> bool:
        """Return whether there is something to compile where no device is."""
        return self.without_device != "planned"

    @property
    def flags_in_words(self) -> str:
        """Return the flags of ``docker run``, or that there are none and why."""
        return self.docker_flags or f"none ({self.why_no_flags})"
