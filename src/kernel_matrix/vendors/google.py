"""Google's TPUs: found by their device files; the toolchain brings an interpreter of one, and a compiler for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.vendors import software
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import is_on_pci_bus, texts_in
from kernel_matrix.vendors.vendor import Device, Vendor

INTERPRETER = "interpreter"
_PCI_ID = "0x1ae0"

# The PCI device ids of the chips, as JAX lists them, with the targets that they are.
_TARGETS = {"0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e", "0x0076": "tpu7x"}


def detect(pci: Path = Path("/sys/bus/pci/devices"), dev: Path = Path("/dev")) -> list[Device]:
    """Return the kinds of chips on the PCI bus that are targets, where a driver has made their device files."""
    if not files(dev):
        return []
    chips = texts_in(sorted(pci.glob("*")), "vendor", "device")
    counts = Counter(_TARGETS[chip] for vendor, chip in chips if vendor == _PCI_ID and chip in _TARGETS)
    return [Device("google", f"Google TPU {target} ({count} chips)", (target,)) for target, count in counts.items()]


def files(dev: Path) -> list[Path]:
    """Return the device files of chips: the older driver's, or VFIO's."""
    return [file for pattern in ("accel[0-9]*", "vfio/[0-9]*") for file in sorted(dev.glob(pattern))]


def stand_in(devices: Sequence[Device], target: str) -> Device | None:
    """Return the interpreter that Pallas has for a TPU, which is no architecture; None for a target that is one."""
    if target != INTERPRETER:
        return None
    name = software.stand_in(devices, target).name.removeprefix("software on ")
    return Device("google", f"Pallas' interpreter of a TPU on {name}", (target,), emulated=True)


def driver(devices: Sequence[Device]) -> Finding:
    """Say which TPUs are here, or that there are none, and that kernels are compiled and interpreted all the same."""
    if devices:
        return VENDOR.found("good", ", ".join(device.name for device in devices))
    if is_on_pci_bus(_PCI_ID):
        text = "a device of Google's is on the PCI bus, and it is no TPU that is a target or has no device file"
    else:
        text = "no TPU is here: libtpu compiles for every target, and Pallas' interpreter runs the kernels"
    return VENDOR.found("absent", text)


VENDOR = Vendor(
    title="Google",
    kind="TPU",
    gpu=False,
    framework_device="cpu",
    detect=detect,
    why_no_flags="the interpreter runs on the CPU; a TPU needs a privileged container, so its jobs run in environments",
    driver=driver,
    variables=(
        *("TPU_VISIBLE_CHIPS", "TPU_ACCELERATOR_TYPE", "TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS"),
        *("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "TPU_SKIP_MDS_QUERY"),
    ),
    stand_in=stand_in,
    stood_in_for=frozenset({INTERPRETER}),
    names={
        "v5e": "TPU-v5e v5-lite",
        "v5p": "TPU-v5p",
        "v6e": "TPU-v6e Trillium",
        "tpu7x": "TPU-v7 Ironwood",
    },
)
