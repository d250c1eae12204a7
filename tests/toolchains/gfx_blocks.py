"""Several products of matrices by one instruction of CDNA, against NumPy, in the layouts of AMD's matrix calculator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from gfx_execute import RESULT, encoded, executed, first

LANES, FIRST, SECOND = 64, 0, 8
KINDS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
SHAPES = ("4x4x{}_16b", "16x16x{}_4b", "32x32x{}_2b")
DEPTHS = {"f32": 1, "f16": 4, "bf16": 4, "i8": 4}


def in_lanes(factor: Any, lane: int) -> Any:
    """Return the numbers of a lane: one row of one block, with all of its depth."""
    blocks, rows, _ = factor.shape
    return factor[lane // rows % blocks, lane % rows]


def place_of(rows: int, register: int, lane: int) -> tuple[int, int, int]:
    """Return the block, the row and the column of a number of the result."""
    if rows == 4:
        return lane // 4, register, lane % 4
    each = rows * rows // LANES
    row = (
        8 * (register % each // 4) + 4 * (lane // 32) + register % 4 if rows == 32 else 4 * (lane // 16) + register % 4
    )
    return register // each, row, lane % rows


def multiplied(target: str, name: str) -> str:
    """Return where the results of one instruction are others than NumPy's: exact sums, rounded once."""
    rows, depth, blocks, kind = re.fullmatch(r"v_mfma_\w32_(\d+)x\d+x(\d+)_(\d+)b_(\w+)", name).groups()
    rows, depth, blocks, kind = int(rows), int(depth), int(blocks), KINDS[kind]
    draw, whole = np.random.default_rng(rows), kind is np.int8

    def drawn(*shape: int) -> Any:
        return draw.integers(-128, 128, shape) if whole else draw.standard_normal(shape).astype(np.float32)

    a, b = (drawn(blocks, rows, depth).astype(kind) for _ in range(2))
    added = drawn(blocks, rows, rows).astype(np.int32 if whole else np.float32)
    exact = np.einsum("bik,bjk->bij", a.astype(np.float64), b.astype(np.float64)) + added.astype(np.float64)
    wanted = exact.astype(added.dtype)
    registers = {}
    for start, one in ((FIRST, a), (SECOND, b)):
        words = np.array([in_lanes(one, lane) for lane in range(LANES)]).view(np.uint32)
        registers |= {start + k: words[:, k].copy() for k in range(words.shape[1])}
    count = rows * rows * blocks // LANES
    where = [[place_of(rows, k, lane) for lane in range(LANES)] for k in range(count)]
    put = RESULT - 16  # a result has up to 32 registers
    registers |= {put + k: np.array([added[at] for at in row]).view(np.uint32) for k, row in enumerate(where)}
    code = encoded(target, "VOP3P_MFMA", name, vdst=put, src0=256 + FIRST, src1=256 + SECOND, src2=256 + put)
    got = executed(target, code, registers)[put : put + count].view(added.dtype)
    right = np.array([[wanted[at] for at in row] for row in where])
    return first(got != right, got.ravel(), right.ravel())


def blocks() -> Iterator[tuple[str, str, str]]:
    """Yield each form, a target that has it, and what is wrong with it first."""
    for kind in KINDS:
        for shape in SHAPES:
            name = f"v_mfma_{'i' if kind == 'i8' else 'f'}32_{shape.format(DEPTHS[kind])}_{kind}"
            yield name, "gfx90a", multiplied("gfx90a", name)
