"""Compare moves between lanes with the rules of AMD's ISA documents: DPP, v_permlane and v_writelane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gfx_execute import RESULT, differ, encoded, executed, first

IS_DPP, MOVE = 0xFA, 0x7E000000 | RESULT << 17 | 1 << 9  # in place of the source; v_mov_b32
NOWHERE = -1  # the lane that gives the value is not in the row
PLACE = 8  # of the register that names lanes
LISTS = 0x7531ECA8, 0x0246FDB9  # of the lanes in a row, four bits each


def within(lane: int, place: int) -> int:
    """Return a lane of the same row of 16."""
    return lane & ~15 | place if 0 <= place < 16 else NOWHERE


Source = Callable[[int, int], int]  # the lane that gives a value, of the lane and of the number in the control
ANY: dict[int, tuple[range, Source]] = {
    0x000: (range(0, 256, 9), lambda lane, n: lane & ~3 | n >> 2 * (lane & 3) & 3),
    0x100: (range(1, 16), lambda lane, n: within(lane, (lane & 15) + n)),
    0x110: (range(1, 16), lambda lane, n: within(lane, (lane & 15) - n)),
    0x120: (range(1, 16), lambda lane, n: within(lane, (lane - n) & 15)),
    0x140: (range(1), lambda lane, _: within(lane, ~lane & 15)),
    0x141: (range(1), lambda lane, _: lane & ~7 | ~lane & 7),
}
RDNA: dict[int, tuple[range, Source]] = {
    0x150: (range(16), lambda lane, n: within(lane, n)),
    0x160: (range(16), lambda lane, n: lane ^ n),
}


def moves() -> Iterator[tuple[str, str, str]]:
    for target, lanes in (("gfx942", 64), ("gfx1100", 32), ("gfx1201", 32)):
        controls = ANY if target == "gfx942" else ANY | RDNA
        told = (moved(target, lanes, kind + n, [source(lane, n) for lane in range(lanes)])
                for kind, (numbers, source) in controls.items() for n in numbers)  # fmt: skip
        yield "move dpp", target, next(filter(None, told), "")
    for target in ("gfx1100", "gfx1201"):
        for name, other in (("v_permlane16_b32", 0), ("v_permlanex16_b32", 16)):
            yield f"move {name}", target, permuted(target, name, other)
    for target in ("gfx1201", "gfx1250"):
        for name, other in (("v_permlane16_var_b32", 0), ("v_permlanex16_var_b32", 16)):
            yield f"move {name}", target, permuted(target, name, other)
    for target, rows in (("gfx950", 16), ("gfx950", 32), ("gfx1250", 16)):
        name = f"v_permlane{rows}_swap_b32"
        yield f"move {name}", target, swapped(target, name, rows)


def moved(target: str, lanes: int, control: int, sources: list[int]) -> str:
    """Move by DPP: a lane whose source is nowhere gets zero, or keeps what it has."""
    given, old = numbers(lanes)
    for bound in (0, 1):
        code = MOVE | IS_DPP | (control << 8 | bound << 19 | 0xFF << 24) << 32
        right = [
            given[source] if source != NOWHERE else 0 if bound else old[lane] for lane, source in enumerate(sources)
        ]
        got = executed(target, code.to_bytes(16, "little"), {0: given, RESULT: old})[RESULT]
        if told := first(got != np.array(right, np.uint32), np.arange(lanes), got, np.array(right)):
            return f"control {control:#x}, bound {bound}: {told}"
    return ""


def permuted(target: str, name: str, other: int) -> str:
    """Take lanes of a row that two scalars name, or a register of which four bits count."""
    given, old = numbers(32)
    lanes, is_by_register = np.arange(32), "var" in name
    named = np.array([(LISTS[0] | LISTS[1] << 32) >> 4 * (lane & 15) & 15 for lane in range(32)])
    places = {"src1": 256 + PLACE, "src2": 0} if is_by_register else {"src1": 4, "src2": 6}
    code = encoded(target, "VOP3", name, vdst=RESULT, src0=256, **places)
    registers = {0: given, RESULT: old, PLACE: (named + 16 * lanes).astype(np.uint32)}
    got = executed(target, code, registers, scalars={4: LISTS[0], 6: LISTS[1]})[RESULT]
    right = given[lanes & 16 ^ other | named]
    return first(got != right, lanes, got, right)


def swapped(target: str, name: str, rows: int) -> str:
    """Exchange each second row of the result with each first row of the source."""
    lanes = 64 if target == "gfx950" else 32
    given, old = numbers(lanes)
    code = encoded(target, "VOP1", name, vdst=RESULT, src0=256)
    got = executed(target, code, {0: given, RESULT: old})
    of_source, of_result = (one.reshape(-1, 2, rows).copy() for one in (given, old))
    of_source[:, 0], of_result[:, 1] = old.reshape(-1, 2, rows)[:, 1], given.reshape(-1, 2, rows)[:, 0]
    wrong = differ(got[0], of_source.ravel()) | differ(got[RESULT], of_result.ravel())
    return first(wrong, np.arange(lanes), got[0], got[RESULT])


def numbers(lanes: int) -> Any:
    return np.random.default_rng(lanes).integers(0, 2**32, (2, lanes), np.uint32)
