"""Theoretical occupancy: the share of the waves that a compute unit can hold which the code of a kernel lets it hold.

The figures of a target are published. NVIDIA: the table of technical specifications by compute capability in the CUDA
programming guide; how registers are given out is in ``cuda_occupancy.h`` of the toolkit. AMD: ``IsaInfo`` in LLVM's
``AMDGPUBaseInfo.cpp``, whose occupancy knows no granule of shared memory either; from RDNA on a unit is a pair of
compute units. A launch that asks for more shared memory than its code names has less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


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


SCHEDULERS = 4  # of a unit


def _nvidia(waves: int, shared: int, blocks: int, reserved: int = 1024, step: int = 128) -> Unit:
    return Unit(waves, 512, 8, shared, blocks, reserved, step)


def _amd(waves: int, registers: int, granule: int, shared: int, blocks: int, lanes: int) -> Unit:
    return Unit(waves, registers, granule, shared, blocks, lanes=lanes, one_wave_is_free=True)


_CDNA, _RDNA = (8, 512, 8, 64, 16, 64), (16, 1024, 16, 128, 32, 32)
_RDNA_WITH_MORE_REGISTERS = (16, 1536, 24, 128, 32, 32)
UNITS: Mapping[str, Unit] = {
    "sm_75": _nvidia(8, 64, 16, 0, 256),
    "sm_80": _nvidia(16, 164, 32),
    "sm_86": _nvidia(12, 100, 16),
    "sm_89": _nvidia(12, 100, 24),
    **dict.fromkeys(("sm_90", "sm_100", "sm_103"), _nvidia(16, 228, 32)),
    "sm_110": _nvidia(12, 228, 24),
    **dict.fromkeys(("sm_120", "sm_121"), _nvidia(12, 100, 24)),
    **dict.fromkeys(("gfx906", "gfx908"), _amd(10, 256, 4, 64, 16, 64)),
    **dict.fromkeys(("gfx90a", "gfx942"), _amd(*_CDNA)),
    "gfx950": _amd(8, 512, 8, 160, 16, 64),
    **dict.fromkeys(("gfx1030", "gfx1150"), _amd(*_RDNA)),
    **dict.fromkeys(("gfx1100", "gfx1151", "gfx1200", "gfx1201"), _amd(*_RDNA_WITH_MORE_REGISTERS)),
    "gfx1250": _amd(16, 1024, 16, 320, 16, 32),
}
