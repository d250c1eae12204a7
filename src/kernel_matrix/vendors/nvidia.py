"""NVIDIA's GPUs: nvidia-smi lists them, nvcc compiles for them, and the NVIDIA container toolkit shares them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_matrix.job.ahead.targets import of_vendor, products
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.program import Program
from kernel_matrix.vendors.system import Answer, ask, is_on_pci_bus
from kernel_matrix.vendors.vendor import Device, Vendor

_PCI_ID = "0x10de"
_QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
_GPU = re.compile(r"(.+), (\d+)\.(\d+), ([^,]+)")


def detect() -> list[Device]:
    """Return the GPUs that nvidia-smi lists; none where it is absent, fails or does not answer."""
    answer = _nvidia_smi()
    lines = answer.output.splitlines() if answer and not answer.fault else []
    gpus = filter(None, map(_GPU.fullmatch, lines))
    return [Device("nvidia", gpu[1].strip(), (f"sm_{gpu[2]}{gpu[3]}",), gpu[4].strip()) for gpu in gpus]


def _nvidia_smi() -> Answer | None:
    return ask(_QUERY) if shutil.which("nvidia-smi") else None


def driver(devices: Sequence[Device]) -> Finding:
    """Look at the driver: its version, or why this machine's GPUs cannot be used."""
    versions = sorted({device.driver for device in devices})
    if versions:
        return VENDOR.found("good", ", ".join(versions))
    answer = _nvidia_smi()
    fault = "" if answer is None else answer.fault
    if answer is not None and not fault and answer.output.strip():
        fault = f"it says {answer.first_line!r}, which names no GPU"
    if is_on_pci_bus(_PCI_ID):
        text = f"an NVIDIA GPU is on the PCI bus, and nvidia-smi does not show it{f': {fault}' if fault else ''}"
        remedy = "install the driver (Debian: sudo apt-get install nvidia-driver), then look at nvidia-smi"
        return VENDOR.found("broken", text, remedy)
    if fault:
        return VENDOR.found("broken", f"nvidia-smi shows no GPU: {fault}", "look at nvidia-smi")
    return VENDOR.found("absent", "no NVIDIA GPU is here")


def container_options(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the options that give a container the GPUs of CUDA_VISIBLE_DEVICES, or all of them."""
    chosen = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    selection = {"device_ids": chosen} if chosen else {"count": -1}
    return {"device_requests": [{"capabilities": [["gpu"]], **selection}]}


def build_variables(targets: Sequence[str]) -> dict[str, str]:
    """Return the variables by which build systems take the targets: sm_90 is 9.0 and 90."""
    numbers = [match[1] for target in targets if (match := re.fullmatch(r"sm_(\d+a?)", target))]
    dotted = [re.sub(r"(\d)(a?)$", r".\1\2", number) for number in numbers]
    # Extensions of frameworks are built for CUDA only where a GPU is to be seen, unless they are told.
    return {"TORCH_CUDA_ARCH_LIST": ";".join(dotted), "CUDAARCHS": ";".join(numbers), "FORCE_CUDA": "1"}


VENDOR = Vendor(
    title="NVIDIA",
    kind="GPU",
    gpu=True,
    framework_device="cuda",
    build="cuda",
    detect=detect,
    docker_flags="--gpus all",
    container_options=container_options,
    image_flags={"apptainer": "--nv", "podman": "--device=nvidia.com/gpu=all"},
    driver=driver,
    build_variables=build_variables,
    variables=(
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
        "KERNEL_MATRIX_CUDA_HOME",
    ),
    programs=(
        Program(
            name="nvcc",
            install="install the CUDA toolkit, or set CUDA_HOME",
            reinstall="reinstall the CUDA toolkit, or take its folder from PATH",
            homes=("CUDA_HOME", "CUDA_PATH"),
            folder="/usr/local/cuda",
            wheels="nvidia/cu*/bin",
            version="release",
        ),
    ),
    names=products("sm_"),
    known=frozenset(of_vendor("sm_")),
)
