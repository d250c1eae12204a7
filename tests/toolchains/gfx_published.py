"""Results of single instructions that LLVM's own tests publish: it folds constants of AMD's instructions.

The numbers are from llvm/llvm-project: ``Transforms/InstCombine/AMDGPU/amdgcn-intrinsics.ll`` of its tests at commit
009c445c, and ``fract.ll`` of ``Transforms/InstSimplify/ConstProp/AMDGPU`` at 64f42c79. Operands and results are bits.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

NAN, INF, LEAST, MOST = 0x7FC00000, 0x7F800000, 1, 0x7F7FFFFF  # of fp32; LEAST is subnormal
SMALL = 0x00800000  # the least normal number
NAN64, INF64, LEAST64, MOST64 = 0x7FF8 << 48, 0x7FF0 << 48, 1, (0x7FF0 << 48) - 1


def f32(*values: float) -> tuple[int, ...]:
    return tuple(struct.unpack("I", struct.pack("f", value))[0] for value in values)


def f64(value: float) -> int:
    return int(struct.unpack("Q", struct.pack("d", value))[0])


ONE, HALF, MINUS = *f32(1.0), *f32(0.5), 1 << 31
# The operands of each call, and the result.
PUBLISHED: Mapping[str, Sequence[tuple[int, ...]]] = {
    "v_rcp_f32": [f32(1, 1), f32(0.5, 2), (*f32(43), 0x3CBE82FA)],
    "v_frexp_mant_f32": [
        *[(0, 0), (MINUS, MINUS), (ONE, HALF), (ONE | MINUS, HALF | MINUS), (NAN, NAN), (INF, INF)],
        *[(INF | MINUS, INF | MINUS), (MOST, 0x3F7FFFFF), (LEAST, HALF)],
    ],
    "v_frexp_exp_i32_f32": [
        *[(0, 0), (MINUS, 0), (*f32(1024), 11), (*f32(-1024), 11), (*f32(2**-10), -9), (NAN, 0), (INF, 0)],
        *[(INF | MINUS, 0), (MOST, 128), (LEAST, -148)],
    ],
    "v_frexp_exp_i32_f64": [
        *[(0, 0), (1 << 63, 0), (f64(1024), 11), (f64(-1024), 11), (f64(2**-10), -9), (NAN64, 0), (INF64, 0)],
        *[(INF64 | 1 << 63, 0), (MOST64, 1024), (LEAST64, -1073)],
    ],
    "v_fract_f32": [
        *[(0, 0), (MINUS, 0), f32(1, 0), f32(-1, 0), f32(2.25, 0.25), f32(-6.125, 0.875), (SMALL, SMALL)],
        *[(SMALL | MINUS, 0x3F7FFFFF), (INF, NAN), (INF | MINUS, NAN), (NAN, NAN)],
    ],
    "v_cvt_pkrtz_f16_f32": [
        (0, 0, 0), (*f32(2, 4), 0x44004000), (*f32(65535, 65535), 0x7BFF7BFF), (*f32(5, 3), 0x42004500),
    ],
    # Of place and width five bits count.
    "v_bfe_u32": [
        *[(0, 0, 0, 0), (2**32 - 1, 5, 7, 127), (2**32 - 1, 3, 0, 0), (0xABCDEF, 0, 3, 7), (0xABCD, 3, 4, 9)],
        *[(0xABCD, 3, 1, 1), (0xABCD, 3, 32, 0), (0xABCD, 3, 33, 1), (0xABCD, 33, 4, 6), (0xABCD, 133, 4, 14)],
    ],
    "v_bfe_i32": [(2**32 - 1, 5, 7, -1)],
    # Left out is fmed3(0, 1, NaN): LLVM folds it to 1, and AMD's text says 0, the least of the others.
    "v_med3_f32": [
        *[f32(0.5, -1, 4, 0.5), f32(0.5, 4, -1, 0.5), f32(-1, 0.5, 4, 0.5), f32(4, 0.5, -1, 0.5), f32(-1, 4, 0.5, 0.5)],
        *[f32(4, -1, 0.5, 0.5), (NAN, 0, ONE, 0), (0, NAN, ONE, 0), (ONE, NAN, NAN, ONE), (NAN, NAN, ONE, ONE)],
    ],
}  # fmt: skip
