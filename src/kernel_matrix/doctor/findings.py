"""Examine this machine, or a platform's image from inside: what is there, what is not, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.model import Matrix, Platform
from kernel_matrix.doctor import image_checks, machine_checks
from kernel_matrix.doctor.build_checks import build_findings
from kernel_matrix.doctor.reachable import programs_needed, purpose_of
from kernel_matrix.vendors.builds import CPU
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named, vendors
from kernel_matrix.vendors.vendor import Vendor

PLATFORM = "KERNEL_MATRIX_PLATFORM"  # by this variable a platform's image says whose it is


def examine(matrix: Matrix, root: Path, build: Path, machine: Machine) -> list[Finding]:
    """Look at everything that matters here: on a machine, or in a platform's image.

    Nothing is changed, and what is written is deleted again.
    """
    name = os.environ.get(PLATFORM, "")
    if not name:
        return list(_on_machine(matrix, root, build, machine))
    platform = matrix.platforms.get(name)
    if platform is None:
        text = f"{PLATFORM}={name}, and matrix.yaml has no such platform"
        remedy = f"unset {PLATFORM}, or take an image of this matrix.yaml"
        return [machine_checks.python(), Finding("image", "broken", text, remedy, needed=True)]
    return list(_in_image(matrix, root, name, platform, machine))


def _on_machine(matrix: Matrix, root: Path, build: Path, machine: Machine) -> Iterator[Finding]:
    yield machine_checks.python()
    installer = machine_checks.installer()
    yield installer
    yield from _devices(machine)
    for name, vendor in vendors().items():
        yield from _programs(vendor, matrix, matrix.platforms.values())
        yield from _driver(name, machine)
    yield machine_checks.docker_engine()
    yield machine_checks.room(build, len(matrix.locks))
    yield from machine_checks.writable_folders(build)
    yield machine_checks.authorities()
    index = machine_checks.index(installer)
    yield index
    if index.status == "good":
        yield from build_findings(matrix, root)


def _in_image(matrix: Matrix, root: Path, name: str, platform: Platform, machine: Machine) -> Iterator[Finding]:
    """Look at what an image is for: its environments are in it already, and nothing is fetched there."""
    yield machine_checks.python()
    yield Finding("image", "good", f"the image of {name}; all that its jobs need is in it")
    kinds = (CPU, vendor_named(platform.device).build)
    named = dict.fromkeys(matrix.lock_of(name, toolchain) for toolchain in platform.by_toolchain)
    for lock in named:  # an image has the environments of one kind of builds
        yield image_checks.environment([lock_file(root, lock, kind) for kind in dict.fromkeys(kinds)], name)
    yield from _devices(machine)
    image_vendor = vendor_named(platform.device)
    # What launches kernels compiles launchers for the CPU, which matrix.yaml does not name for each toolchain.
    launches = any(entry.runs for entry in platform.entries)
    for vendor in vendors().values():
        if vendor is image_vendor or not vendor.gpu:  # a GPU's code is made with the compilers of the CPU too
            yield from _programs(vendor, matrix, matrix.platforms.values() if launches else [platform])
    for finding in _driver(platform.device, machine):
        remedy = (
            f"start the container with {image_vendor.flags_in_words}"  # a container has only the GPUs that it is given
        )
        yield replace(finding, remedy=remedy) if finding.status == "broken" else finding


def _devices(machine: Machine) -> Iterable[Finding]:
    return (Finding(f"{d.vendor} device", "good", f"{d.name}: {', '.join(d.targets)}") for d in machine.devices)


def _programs(vendor: Vendor, matrix: Matrix, platforms: Iterable[Platform]) -> Iterable[Finding]:
    needed = {name for platform in platforms for name in programs_needed(platform)}
    for program in vendor.programs:
        expected = program.expected and program.name in needed  # the lack of what nobody needs is no fault
        yield replace(program, expected=expected).examine(purpose_of(matrix, program.name))


def _driver(name: str, machine: Machine) -> Iterable[Finding]:
    driver = vendor_named(name).driver
    return [] if driver is None else [driver(machine.of(name))]
