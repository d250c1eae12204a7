"""Print the labels of this machine as a runner, from its hardware."""

from __future__ import annotations

import argparse
import platform

from kernel_matrix.base.errors import UserError
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.registry import vendor_named

# What runners call operating systems and processors, by what Python calls them.
_SYSTEMS = {"Darwin": "macos"}
_PROCESSORS = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no options."""


def main(_: argparse.Namespace) -> int:
    """Print the labels, separated by commas."""
    print(",".join(labels(detect(), platform.machine(), platform.system())))
    return 0


def labels(machine: Machine, processor: str, system: str = "Linux") -> list[str]:
    """Return what matrix.yaml asks for: ``self-hosted, linux, x64``, and with GPUs their vendor and target.

    Raises:
        UserError: the machine has GPUs of more than one kind, so no label says what a job finds.
    """
    gpus = {
        (device.vendor, target)
        for device in machine.devices
        if vendor_named(device.vendor).gpu
        for target in device.targets
    }
    if len(gpus) > 1:
        named = ", ".join(f"{vendor} {target}" for vendor, target in sorted(gpus))
        raise UserError(f"this machine has GPUs of several kinds: {named}. Give each kind a runner of its own.")
    general = ("self-hosted", _SYSTEMS.get(system, system.lower()), _PROCESSORS.get(processor, processor))
    return [*general, *(label for gpu in gpus for label in gpu)]
