"""Change the order of a kernel's blocks in its PTX: each block does the work of another one.

A block of a sound kernel does not care which others have ended. The hardware begins blocks by their numbers, so a
kernel whose blocks depend on each other may be right by this alone.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

_READ = re.compile(r"^(\s*(?:@!?%\w+\s+)?)mov\.[bus]32\s+(%\w+),\s*%ctaid\.([xyz]);", re.MULTILINE)
_MOST = 2**32


class UnknownFormError(Exception):
    """The PTX asks for its block in a form that is not known here."""


def reordered(ptx: str, grid: Sequence[int], order: str) -> str:
    """Return PTX whose blocks are in an order: ``straight``, ``reversed``, or a number that draws a random one.

    Raises:
        UnknownFormError: its blocks cannot be given other numbers.
    """
    if order == "straight":
        return ptx
    changed, count = _READ.subn(lambda found: _read(found, grid, order), ptx)
    if ptx.count("%ctaid") != count or "%clusterid" in ptx:
        raise UnknownFormError("the PTX asks for its block in a form that is not known here")
    return changed


def _read(found: re.Match[str], grid: Sequence[int], order: str) -> str:
    """Return what reads the number of a block, and makes another number of it."""
    guard, register, axis = found.groups()
    size = grid["xyz".index(axis)]
    lines = [found[0]]
    if order == "reversed":
        lines.append(f"{guard}sub.s32 {register}, {size - 1}, {register};")
    elif size > 1:
        factor, step = _drawn(size, f"{order}{axis}")
        lines.append(f"{guard}mad.lo.u32 {register}, {register}, {factor}, {step};")
        lines.append(f"{guard}rem.u32 {register}, {register}, {size};")
    return "\n".join(lines)


def _drawn(size: int, seed: str) -> tuple[int, int]:
    """Return the factor and the step of a permutation of so many numbers, which does not overflow."""
    draw = random.Random(f"{size}{seed}")  # noqa: S311  no secret
    most = max(2, min(size, (_MOST - size) // size))
    factors = [one for one in (draw.randrange(1, most) for _ in range(64)) if math.gcd(one, size) == 1]
    return max(factors, default=1), draw.randrange(size)
