"""The toolchains, and the platforms that they compile for."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.config.model.fields import Driver, Name, ProgramName, ScalarOrList, Section, Target, VendorName
from kernel_matrix.vendors.builds import distribution
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named
from kernel_matrix.vendors.vendor import Device


class Installer(Section):
    """uv's environment variables for a distribution that has another build for each kind of machine.

    PyTorch needs no such section: the harness knows its builds.
    """

    builds_of: str = Field(default=distribution(), description="The distribution that has several builds.")
    cpu: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of uv that choose the build without a GPU."
    )
    gpu: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables of uv that choose the build for this machine's GPU. "
        "'UV_TORCH_BACKEND: auto' is the build of the platform's kind, which its lock is made for.",
    )


class Versions(Section):
    """The versions of one distribution in which a toolchain is tried. No job of the matrix reads them."""

    versions: list[str] = Field(min_length=1, description="Published versions, or ranges such as '3.6.0..3.9.0'.")
    environment: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the tries; {packages} is where packages lie."
    )


class Toolchain(Section):
    """A backend with pinned versions."""

    backend: Name = Field(
        default="suite", description="The backend of the package that this toolchain compiles, if the package has any."
    )
    kernel: str = Field(
        default="",
        pattern=r"^([A-Za-z_{][\w.{}]*:[A-Za-z_{][\w.{}]*)?$",
        description="The kernel of operators that are described by kernel_matrix.kit, as 'package.module:function'. "
        "'{op}', '{backend}' and axes of the case may stand in it.",
    )
    uses: list[Name] = Field(
        default_factory=list, description="Other backends whose code its backend calls; a change of theirs concerns it."
    )
    lock: str = Field(description="The lock file that its environment is made from.")
    requires: list[str] = Field(
        default_factory=list, description="What an already provisioned interpreter must have (PEP 508)."
    )
    python: str = Field(
        default="", description="The Pythons that its packages are for, such as '<3.12' (PEP 440); all by default."
    )
    ahead_of_time: bool = Field(default=False, description="Whether it compiles for a GPU that is not there.")
    ops: list[str] | None = Field(
        default=None, description="The operators that its backend has, as 'op' or 'op.direction'; all by default."
    )
    versions: dict[str, list[str] | Versions] = Field(
        default_factory=dict, description="By distribution, the versions that `toolchains sweep` tries its cases in."
    )


class PlatformToolchain(Section):
    """One toolchain on one platform, where it differs from the rest.

    A toolchain may have several entries with different targets, operators, cases and needs. They are one job.
    """

    toolchain: Name
    targets: list[Target] | None = Field(default=None, description="Only these of the platform's targets.")
    ops: list[str] | None = Field(default=None, description="Only these operators, as 'op' or 'op.direction'.")
    cases: dict[str, ScalarOrList] = Field(
        default_factory=dict,
        description="Only the cases whose axes have these values; an operator without such an axis keeps all of its. "
        "It does not choose among timed cases ('timed' of an operator).",
    )
    quick: dict[str, ScalarOrList] | list[dict[str, ScalarOrList]] = Field(
        default_factory=dict,
        description="The same for the quick tier alone; the full tier has all that 'cases' leaves. Of a list, the "
        "first choice that leaves an operator's direction a case holds for it.",
    )
    runs: bool = Field(default=True, description="False: compiled only, also where the hardware is.")
    emulated: bool = Field(default=False, description="What runs here is an emulator or interpreter.")
    emulator: str | None = Field(
        default=None,
        description="The folder of what runs its code where the platform's GPUs are not. No other jobs read it. The "
        "toolchain's backend gets tensors on the CPU then, and the name of the target.",
    )
    needs: dict[ProgramName, Evidence] = Field(
        default_factory=dict,
        description="Programs of the machine, each with the evidence that this toolchain stays at without it.",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Environment variables of the job.")
    lock: str | None = Field(
        default=None,
        description="The lock of the environment where the platform needs more packages than the toolchain's own lock "
        "has, such as the runtime of its device.",
    )

    @property
    def quick_choices(self) -> list[dict[str, ScalarOrList]]:
        """The choices for the quick tier, in their long form."""
        choices = self.quick if isinstance(self.quick, list) else [self.quick]
        return choices or [{}]


class Platform(Section):
    """A vendor's toolchain, and the architectures that it is asked for."""

    title: str = Field(description="The name that people read.")
    device: VendorName = Field(
        description="Whose hardware runs it; 'software' is a device that comes with the toolchain and emulates one."
    )
    container: str | None = Field(default=None, description="The Dockerfile of the platform's image.")
    driver: Driver | None = Field(default=None, description="The oldest driver that the image's runtime works with.")
    runner: list[str] = Field(
        min_length=1,
        description="Labels of the machines that run its jobs; '{target}' stands for the target.",
    )
    machines: list[Target] | dict[Target, list[Target]] | None = Field(
        default=None,
        description="Targets that have a machine with these labels; a self-hosted one has the target's as well. "
        "A target may have several kinds of machines, each with a label more: 'sm_90: [h200, h100]', the best first. "
        "The other targets are compiled on a hosted machine. By default none, and of a CPU all: every machine has one.",
    )
    targets: list[Target] = Field(min_length=1, description="Architectures, as the vendor writes them.")
    toolchains: list[Name | PlatformToolchain] = Field(min_length=1)

    @cached_property  # a copy with other toolchains would keep this: make a new Platform instead
    def entries(self) -> tuple[PlatformToolchain, ...]:
        """The toolchains in their long form."""
        return tuple(
            PlatformToolchain(toolchain=entry) if isinstance(entry, str) else entry for entry in self.toolchains
        )

    @cached_property
    def by_toolchain(self) -> dict[str, PlatformToolchain]:
        """The toolchains in their long form, by name; of several entries of one toolchain the first."""
        entries: dict[str, PlatformToolchain] = {}
        for entry in self.entries:
            entries.setdefault(entry.toolchain, entry)
        return entries

    def device_on(self, machine: Machine, target: str, toolchain: str = "") -> Device | None:
        """Return the machine's device for a target; a GPU is emulated only for toolchains that name an emulator."""
        device = machine.device_for(self.device, target)
        if device is None or not (device.emulated and vendor_named(self.device).gpu):
            return device
        entries = [self.by_toolchain[toolchain]] if toolchain else self.entries
        return device if any(entry.emulator for entry in entries) else None

    def labels(self, target: str, kind: str = "") -> tuple[str, ...]:
        """Return the labels of a machine for ``target``: the platform's own, and the target where '{target}' stands.

        Where no label has '{target}', a self-hosted machine has the target as its last label. Before it stands its
        ``kind``, of a target that has several.
        """
        labels = [label.replace("{target}", target) for label in self.runner]
        if labels == self.runner and "self-hosted" in labels:
            labels.append(target)
        return (*labels[:-1], *filter(None, [kind]), labels[-1])
