"""The theoretical occupancy of code, counted a second time; :mod:`kernel_matrix.job.ahead.targets` has its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernel_matrix.job.ahead.targets import SCHEDULERS, TARGETS


def occupancy(target: str, code: Mapping[str, float]) -> float | None:
    """Return the occupancy that the figures of an artifact allow; None where the target or a figure is not known."""
    registers, threads = int(code.get("registers", 0)), int(code.get("threads", 0))
    unit = TARGETS[target].unit if target in TARGETS else None
    if unit is None or registers <= 0 or threads <= 0 or code.get("occupancy"):
        return None
    waves = math.ceil(threads / unit.lanes)
    most = SCHEDULERS * unit.waves
    by_registers = unit.registers // (math.ceil(registers / unit.granule) * unit.granule)
    blocks = [most // waves, SCHEDULERS * min(unit.waves, by_registers) // waves]
    if not (waves == 1 and unit.one_wave_is_free):
        blocks.append(unit.blocks)
    shared = code.get("shared_bytes", code.get("shared", 0)) + unit.reserved
    if shared > 0:
        blocks.append(int(unit.shared * 1024 // (math.ceil(shared / unit.step) * unit.step)))
    return min(blocks) * waves / most
