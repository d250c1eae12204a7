"""The table of the GPUs that code is made for: a line for each target, which all parts of the harness read.

A line has what people call the GPUs, and the published figures of the unit that runs a block. NVIDIA: the table of
technical specifications by compute capability in the CUDA programming guide; how registers are given out is in
``cuda_occupancy.h`` of the toolkit. AMD: the ISA reference guides, and ``IsaInfo`` in LLVM's ``AMDGPUBaseInfo.cpp``,
whose occupancy knows no granule of shared memory; from RDNA on a unit is a pair of compute units. gfx1250 has its
figures from LLVM's and Triton's tables.

No compiler checks what a launch can have. A launch would.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_KIB = 1024
_THREADS = 1024  # of a block, on every target
SCHEDULERS = 4  # of a unit


class Unit(NamedTuple):
    """A multiprocessor of NVIDIA, a compute unit or a pair of them of AMD."""

    waves: int  # of each of its four schedulers
    registers: int  # of each scheduler, of one lane
    granule: int  # of registers
    shared: int  # KiB
    blocks: int
    reserved: int = 0  # bytes of shared memory of each block that the system takes
    step: int = 1  # bytes of shared memory that are given out at once
    lanes: int = 32  # of a wave
    one_wave_is_free: bool = False  # a block of one wave needs no barrier, and does not count as a block


class LimitError(RuntimeError):
    """A target cannot launch a kernel that compiles for it."""

    stage = "compile"


@dataclass(frozen=True)
class Target:
    """A target by its name, such as ``sm_90`` or ``gfx942``. One that the table does not have has no ``unit``."""

    name: str
    products: str = ""  # the names that people have for its devices, as words
    unit: Unit | None = None
    of_block: int = 64  # KiB of shared memory that one block can have, on AMD
    emulated: bool = False  # an emulator of this project runs its code

    @property
    def backend(self) -> str:
        """Triton's name of the vendor's compiler."""
        return "cuda" if self.name.startswith("sm_") else "hip"

    @property
    def arch(self) -> int | str:
        """The architecture as Triton names it."""
        return int(self.name.removeprefix("sm_")) if self.backend == "cuda" else self.name

    @property
    def warp(self) -> int:
        """The threads of a warp."""
        return 64 if self.name.startswith("gfx9") else 32

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of NVIDIA: ``sm_90`` has 9.0; the generation of AMD: ``gfx942`` has 9.4."""
        if self.backend == "cuda":
            return divmod(int(self.name.removeprefix("sm_")), 10)
        return int(self.name[3:-2]), int(self.name[-2], 16)

    @property
    def shared(self) -> int | None:
        """The bytes of shared memory that a block can have; None for one of NVIDIA that the table does not have."""
        if self.backend == "hip":
            return self.of_block * _KIB
        return self.unit.shared * _KIB - self.unit.reserved if self.unit else None

    @property
    def limits(self) -> dict[str, int]:
        """The most that a block can have of a figure, by its name."""
        return {"threads": _THREADS} | ({} if self.shared is None else {"shared": self.shared})

    def hold(self, figures: Mapping[str, float]) -> None:
        """Check that the target can launch a kernel with these figures.

        Raises:
            LimitError: it cannot.
        """
        for names, words in (
            (("threads",), "a block has {} threads"),
            (("shared", "shared_bytes"), "a block needs {} bytes of shared memory"),
        ):
            most, figure = self.limits.get(names[0]), max(figures.get(name, 0) for name in names)
            if most is not None and figure > most:
                raise LimitError(f"{words.format(f'{figure:g}')}, and {self.name} has {most}")


def _nvidia(name: str, products: str, waves: int, shared: int, blocks: int, **more: bool) -> Target:
    reserved, step = (1024, 128) if int(name.removeprefix("sm_")) >= 80 else (0, 256)
    return Target(name, products, Unit(waves, 512, 8, shared, blocks, reserved, step), **more)


def _amd(name: str, products: str, unit: tuple[int, ...], of_block: int = 64, *, emulated: bool = False) -> Target:
    waves, registers, granule, shared, blocks, lanes = unit
    of_unit = Unit(waves, registers, granule, shared, blocks, lanes=lanes, one_wave_is_free=True)
    return Target(name, products, of_unit, of_block, emulated)


_GCN, _CDNA = (10, 256, 4, 64, 16, 64), (8, 512, 8, 64, 16, 64)
_RDNA, _MORE_REGISTERS = (16, 1024, 16, 128, 32, 32), (16, 1536, 24, 128, 32, 32)
_TABLE = (  # NVIDIA: waves of a scheduler, KiB of shared memory and blocks of a multiprocessor
    _nvidia("sm_70", "V100 Titan-V Volta", 16, 96, 32),
    _nvidia("sm_75", "T4 RTX-2080 Turing", 8, 64, 16),
    _nvidia("sm_80", "A100 A30 Ampere", 16, 164, 32, emulated=True),
    _nvidia("sm_86", "A10 A40 A6000 RTX-3090 Ampere", 12, 100, 16, emulated=True),
    _nvidia("sm_87", "Orin Jetson Ampere", 12, 164, 16),
    _nvidia("sm_89", "L4 L40 L40S RTX-4090 Ada Lovelace", 12, 100, 24, emulated=True),
    _nvidia("sm_90", "H100 H200 H800 H20 GH200 Hopper", 16, 228, 32, emulated=True),
    _nvidia("sm_100", "B100 B200 GB200 Blackwell", 16, 228, 32),
    _nvidia("sm_103", "B300 GB300 Blackwell Ultra", 16, 228, 32),
    _nvidia("sm_110", "Thor Jetson Blackwell", 12, 228, 24),
    _nvidia("sm_120", "RTX-5090 RTX-PRO-6000 Blackwell", 12, 100, 24),
    _nvidia("sm_121", "GB10 DGX-Spark Blackwell", 12, 100, 24),
    _amd("gfx906", "MI50 MI60 Radeon-VII Vega", _GCN, emulated=True),
    _amd("gfx908", "MI100 CDNA1", _GCN, emulated=True),
    _amd("gfx90a", "MI210 MI250 MI250X CDNA2", _CDNA, emulated=True),
    _amd("gfx942", "MI300 MI300A MI300X MI325X CDNA3", _CDNA, emulated=True),
    _amd("gfx950", "MI350X MI355X CDNA4", (8, 512, 8, 160, 16, 64), 160, emulated=True),
    _amd("gfx1030", "RX-6800 RX-6900 W6800 RDNA2", _RDNA, emulated=True),
    _amd("gfx1100", "RX-7900 W7900 RDNA3", _MORE_REGISTERS, emulated=True),
    _amd("gfx1150", "Strix-Point Radeon-890M RDNA3.5", _RDNA, emulated=True),
    _amd("gfx1151", "Strix-Halo Radeon-8060S RDNA3.5", _MORE_REGISTERS, emulated=True),
    _amd("gfx1200", "RX-9060 RDNA4", _MORE_REGISTERS, emulated=True),
    _amd("gfx1201", "RX-9070 R9700 RDNA4", _MORE_REGISTERS, emulated=True),
    _amd("gfx1250", "MI455X CDNA5", (16, 1024, 16, 320, 16, 32), 320, emulated=True),
)
TARGETS: Mapping[str, Target] = {one.name: one for one in _TABLE}


def of_vendor(prefix: str) -> dict[str, Target]:
    """Return the targets of a vendor by the beginning of their names, ``sm_`` or ``gfx``."""
    return {name: one for name, one in TARGETS.items() if name.startswith(prefix)}


def products(prefix: str) -> dict[str, str]:
    """Return the names that people have for the devices of a vendor's targets."""
    return {name: one.products for name, one in of_vendor(prefix).items()}


def emulated(targets: Iterable[Target]) -> tuple[str, ...]:
    """Return the names of those targets that an emulator of this project has."""
    return tuple(one.name for one in targets if one.emulated)


def target_named(name: str) -> Target:
    """Return a target, with what the table knows of it.

    Raises:
        ValueError: the name is none of an NVIDIA or AMD GPU.
    """
    if not re.fullmatch(r"sm_\d{2,3}|gfx[0-9a-f]{3,4}", name):
        raise ValueError(f"{name!r} is no target of NVIDIA (sm_90) or AMD (gfx942)")
    return TARGETS.get(name) or Target(name)


def hold(name: str, figures: Mapping[str, float]) -> None:
    """Check that a target can launch a kernel with these figures; of a target that is not in the table nobody knows.

    Raises:
        LimitError: it cannot.
    """
    if name in TARGETS:
        TARGETS[name].hold(figures)
