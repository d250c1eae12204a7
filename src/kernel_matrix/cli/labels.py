"""Print the labels of this machine as a runner, from its hardware."""

from __future__ import annotations

import argparse
import platform

from kernel_matrix.base.errors import UserError
from kernel_matrix.vendors.machine import Machine, detect

_PROCESSORS = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def arguments(_: argparse.ArgumentParser) -> None:
    """It takes none."""


def main(_: argparse.Namespace) -> int:
    """Print them, separated by commas."""
    print(",".join(labels(detect(), platform.machine())))
    return 0


def labels(machine: Machine, processor: str) -> list[str]:
    """What matrix.yaml asks for: ``self-hosted, linux, x64``, and with GPUs their vendor and architecture.

    Raises:
        UserError: the machine has GPUs of more than one kind, so no label says what a job finds.
    """
    gpus = {
        (device.vendor, target) for device in machine.devices if device.vendor != "cpu" for target in device.targets
    }
    if len(gpus) > 1:
        named = ", ".join(f"{vendor} {target}" for vendor, target in sorted(gpus))
        raise UserError(f"this machine has GPUs of several kinds: {named}. Give each kind a runner of its own.")
    return ["self-hosted", "linux", _PROCESSORS.get(processor, processor), *(word for gpu in gpus for word in gpu)]
