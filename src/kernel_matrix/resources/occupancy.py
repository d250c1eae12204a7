"""Theoretical occupancy: the share of the waves that a compute unit can hold which the code of a kernel lets it hold.

The figures of a target are published. NVIDIA: the table of technical specifications by compute capability in the CUDA
programming guide; how registers are given out is in ``cuda_occupancy.h`` of the toolkit. AMD: ``IsaInfo`` in LLVM's
``AMDGPUBaseInfo.cpp``, whose occupancy knows no granule of shared memory either; from RDNA on a unit is a pair of
compute units. A launch that asks for more shared memory than its code names has less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple


class _Unit(NamedTuple):
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


_SCHEDULERS = 4


def _nvidia(waves: int, shared: int, blocks: int, reserved: int = 1024, step: int = 128) -> _Unit:
    return _Unit(waves, 512, 8, shared, blocks, reserved, step)


def _amd(waves: int, registers: int, granule: int, shared: int, blocks: int, lanes: int) -> _Unit:
    return _Unit(waves, registers, granule, shared, blocks, lanes=lanes, one_wave_is_free=True)


_CDNA, _RDNA = (8, 512, 8, 64, 16, 64), (16, 1024, 16, 128, 32, 32)
_RDNA_WITH_MORE_REGISTERS = (16, 1536, 24, 128, 32, 32)
UNITS: Mapping[str, _Unit] = {
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


def occupancy(target: str, code: Mapping[str, float]) -> float | None:
    """Return the occupancy that the figures of an artifact allow; None where the target or a figure is not known."""
    registers, threads = int(code.get("registers", 0)), int(code.get("threads", 0))
    if target not in UNITS or registers <= 0 or threads <= 0 or code.get("occupancy"):
        return None
    unit = UNITS[target]
    waves = math.ceil(threads / unit.lanes)
    most = _SCHEDULERS * unit.waves
    by_registers = unit.registers // (math.ceil(registers / unit.granule) * unit.granule)
    blocks = [most // waves, _SCHEDULERS * min(unit.waves, by_registers) // waves]
    if not (waves == 1 and unit.one_wave_is_free):
        blocks.append(unit.blocks)
    shared = code.get("shared_bytes", code.get("shared", 0)) + unit.reserved
    if shared > 0:
        blocks.append(int(unit.shared * 1024 // (math.ceil(shared / unit.step) * unit.step)))
    return min(blocks) * waves / most


def sql(target: str, figures: str) -> str:
    """Return the same as an expression for DuckDB and ClickHouse, of a text and of the figures of a case."""

    def of_unit(name: str) -> str:
        values: dict[int, list[str]] = {}
        for one, unit in UNITS.items():
            values.setdefault(int(getattr(unit, name)), []).append(f"'{one}'")
        cases = " ".join(f"WHEN {target} IN ({', '.join(names)}) THEN {value}" for value, names in values.items())
        return f"(CASE {cases} ELSE 1 END)"

    def figure(name: str) -> str:
        return f"coalesce({figures}['artifact.{name}'], 0)"

    waves = f"ceil({figure('threads')} / {of_unit('lanes')})"
    most = f"({_SCHEDULERS} * {of_unit('waves')})"
    granule, step = of_unit("granule"), of_unit("step")
    by_registers = f"floor({of_unit('registers')} / (ceil({figure('registers')} / {granule}) * {granule}))"
    shared = f"(greatest({figure('shared_bytes')}, {figure('shared')}) + {of_unit('reserved')})"
    free = f"{waves} = 1 AND {of_unit('one_wave_is_free')} = 1"
    by_shared = f"floor({of_unit('shared')} * 1024 / (ceil({shared} / {step}) * {step}))"
    blocks = (
        f"floor({most} / {waves})",
        f"floor({_SCHEDULERS} * least({of_unit('waves')}, {by_registers}) / {waves})",
        f"CASE WHEN {free} THEN {most} ELSE {of_unit('blocks')} END",
        f"CASE WHEN {shared} > 0 THEN {by_shared} ELSE {most} END",
    )
    names = ", ".join(f"'{name}'" for name in UNITS)
    known = f"{target} IN ({names}) AND {figure('registers')} > 0 AND {figure('threads')} > 0"
    return f"CASE WHEN {known} AND {figure('occupancy')} = 0 THEN least({', '.join(blocks)}) * {waves} / {most} END"
