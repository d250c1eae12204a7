"""Device functions that the forward and the backward share: equations, and products in each precision."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sigmoid(value):
    # exp is the hardware's approximation of 2^x on NVIDIA; the slope of the sigmoid leaves 1e-7 of its error at most.
    return tl.div_rn(1.0, 1.0 + tl.exp(-value))


@triton.jit
def reciprocal_rms(squares, WIDTH: tl.constexpr, NORM_EPS: tl.constexpr):
    """Return the reciprocal of the root mean square of tokens, from their sums of squares.

    Root and quotient are rounded to nearest: the fast ones are two units off, and the error would scale all of m.
    """
    return tl.div_rn(1.0, tl.sqrt_rn(squares / WIDTH + NORM_EPS))


@triton.jit
def gates(alpha, mixes, STREAMS: tl.constexpr, MIXES: tl.constexpr):
    """Return the element of ``alpha`` that scales each mix; ``mhc_head`` has one for all."""
    gate = tl.load(alpha + tl.zeros_like(mixes))
    if MIXES > STREAMS:
        gate = tl.where(mixes < STREAMS, gate, tl.where(mixes < 2 * STREAMS, tl.load(alpha + 1), tl.load(alpha + 2)))
    return gate


@triton.jit
def to_tf32(value):
    """Round fp32 to TF32, to nearest and to even; infinities and NaN stay.

    The tensor cores ignore the low bits of an operand. To leave the rounding to them would lose twice as much, and
    always towards zero.
    """
    bits = value.to(tl.int32, bitcast=True)
    rounded = ((bits + 4095 + ((bits >> 13) & 1)) & -8192).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(value) < float("inf"), rounded, value)


@triton.jit
def halves(value):
    """Return the two bf16 numbers whose sum is nearest to an fp32 number: 16 of its 24 bits; and what is left."""
    high = value.to(tl.bfloat16)
    rest = value - high.to(tl.float32)
    middle = rest.to(tl.bfloat16)
    return high, middle, rest - middle.to(tl.float32)


@triton.jit
def plus(total, product):
    """Add a product of matrices to a running total, in fp32 registers.

    Written as ``+``, the compiler would let the product itself go on from the total. The accumulator of a tensor core
    keeps fewer bits than fp32, and a long chain of fused multiplications and additions rounds more than short ones.
    """
    return tl.fma(product, 1.0, total)


@triton.jit
def store_normed(value, normed, scales, rows, real, first, HIDDEN: tl.constexpr, POWERS: tl.constexpr):
    """Store columns of tokens, [tokens, columns] from ``first`` on, in fp8 where there are ``scales``."""
    TOKENS: tl.constexpr = value.shape[0]
    COLUMNS: tl.constexpr = value.shape[1]
    d = first + tl.arange(0, COLUMNS)
    if scales is not None:
        GROUPS: tl.constexpr = COLUMNS // 128
        value, scale = quantised(tl.reshape(value, [TOKENS * GROUPS, 128]).to(tl.float32), POWERS)
        value = tl.reshape(value.to(normed.dtype.element_ty, bitcast=True), [TOKENS, COLUMNS])
        group = first // 128 + tl.arange(0, GROUPS)
        some = real[:, None] & (group < HIDDEN // 128)[None, :]
        tl.store(
            scales + rows[:, None] * (HIDDEN // 128) + group[None, :], tl.reshape(scale, [TOKENS, GROUPS]), mask=some
        )
    tl.store(normed + rows[:, None] * HIDDEN + d[None, :], value, mask=real[:, None] & (d < HIDDEN)[None, :])


@triton.jit
def quantised(value, POWERS: tl.constexpr):
    """Return groups [groups, 128] of fp32 as bytes of fp8 (e4m3), and their scales.

    All is made of bits: a GPU that has no such conversion, and the interpreter, round as one that has it. No quotient
    is above 448 but NaN, whose bits are above those of all numbers.
    """
    size = value.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    largest = tl.maximum(tl.max(size, axis=1), 0x38D1B717)  # 1e-4
    scale = tl.div_rn(largest.to(tl.float32, bitcast=True), 448.0)
    if POWERS:
        bits = scale.to(tl.int32, bitcast=True)
        scale = tl.where(bits < 0x7F800000, (bits + 0x7FFFFF) & 0x7F800000, bits).to(tl.float32, bitcast=True)
    quotient = tl.div_rn(value, scale[:, None])
    bits = quotient.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    usual = (size - (120 << 23) + 0x7FFFF + ((size >> 20) & 1)) >> 20
    small = (tl.abs(quotient) + 16384.0).to(tl.int32, bitcast=True) - 0x46800000  # below 2^-6: 16384 has its spacing
    code = tl.minimum(tl.where(size < 0x3C800000, small, usual), 0x7F)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8), scale
