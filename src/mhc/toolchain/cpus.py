"""CPUs of other architectures than x86: how compilers and the emulator name them, and which of them is not here."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cpu:
    """A CPU, or a set of instructions, that code is made for.

    ``machine`` is its architecture, as Linux names it. ``features`` are LLVM's names of what its code may use beyond
    the CPU ``model``. ``flags`` are GCC's, and ``emulated`` is the CPU that QEMU emulates: one with the same vectors.
    """

    machine: str
    model: str
    features: tuple[str, ...]
    abi: str
    flags: tuple[str, ...]
    emulated: str

    @property
    def llvm(self) -> dict[str, Any]:
        """Return TVM's description of the target."""
        target: dict[str, Any] = {"kind": "llvm", "mtriple": f"{self.machine}-linux-gnu", "mcpu": self.model}
        if self.features:
            target["mattr"] = [f"+{feature}" for feature in self.features]
        if self.abi:
            target["mabi"] = self.abi
        return target

    @property
    def is_here(self) -> bool:
        """Return whether this machine has the architecture: then its code runs without an emulator."""
        return platform.machine() == self.machine


_RV64GC = ("m", "a", "f", "d", "c")

CPUS = {
    "neoverse-n1": Cpu("aarch64", "neoverse-n1", (), "", ("-mcpu=neoverse-n1",), "neoverse-n1"),
    # GCC has the name from 13 on, and the instructions before; the emulator has no such CPU, and vectors of 128 bits.
    "neoverse-v2": Cpu(
        "aarch64",
        "neoverse-v2",
        (),
        "",
        ("-march=armv9-a+bf16+fp16fml+i8mm+rng+sve2-bitperm",),
        "max,sve-default-vector-length=16",
    ),
    # The extension V is Zve64d with registers of 128 bits at least. For a target with "+v" TVM makes vectors of unknown
    # length out of some loops of fixed length, and fails: probes/tvm/riscv_with_v.py.
    "rv64gcv": Cpu(
        "riscv64",
        "generic-rv64",
        (*_RV64GC, "zve64d", "zvl128b"),
        "lp64d",
        ("-march=rv64gcv", "-mabi=lp64d"),
        "rv64,v=true,vlen=128,elen=64",
    ),
}


def foreign(target: str | None) -> Cpu | None:
    """Return the CPU of that name if its architecture is not this machine's; else None."""
    cpu = CPUS.get(target or "")
    return None if cpu is None or cpu.is_here else cpu
