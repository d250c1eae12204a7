"""The device code that ends every backward of ``mhc_pre`` and ``mhc_head``: partial sums over tokens are added up.

With S_o of :mod:`~mhc.backends.triton.mhc_pre.backward`, whose chunks are added up in their order, and dz and m there::

    dphi_o = gamma · S_o    dgamma = Σₒ phi_o · S_o    dbias_o = Σₜ dz_o    dalpha = Σₜ Σₒ dz_o · m_o    (o of one gate)
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_alpha_bias(
    partial, grad_alpha, grad_bias, result, programs, STREAMS: tl.constexpr, MIXES: tl.constexpr, BLOCK: tl.constexpr
):
    """Add up one bias, and after those one alpha: its rows of ``partial`` lie one after the other."""
    result = result.to(tl.int64)
    gate = result - MIXES
    rows = tl.where(gate == 2, MIXES - 2 * STREAMS, STREAMS)
    first = tl.where(gate < 0, result, MIXES + gate * STREAMS) * programs
    length = tl.where(gate < 0, 1, rows) * programs
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, length, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        sums += tl.load(partial + first + offsets, mask=offsets < length, other=0.0)
    total = tl.sum(sums, axis=0)
    # Two stores, as Triton's compiler for AMD fails on a choice between two pointers.
    if grad_bias is not None:
        tl.store(grad_bias + result, total, mask=gate < 0)
    if grad_alpha is not None:
        tl.store(grad_alpha + gate, total, mask=gate >= 0)


@triton.jit
def add_phi_gamma(
    phi,
    gamma,
    chunks,
    grad_phi,
    grad_gamma,
    block,
    count,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up ``BLOCK`` columns over the ``count`` chunks, ``BLOCK_MIXES`` mixes at a time."""
    k = block * BLOCK + tl.arange(0, BLOCK)
    inside = k < WIDTH
    scale = tl.zeros([BLOCK], dtype=tl.float32) + 1.0
    if gamma is not None:
        scale = tl.load(gamma + k, mask=inside, other=0.0)
    products = tl.zeros([BLOCK_MIXES, BLOCK], dtype=tl.float32)
    for first in range(0, MIXES, BLOCK_MIXES):
        mixes = first + tl.arange(0, BLOCK_MIXES)
        mask = (mixes < MIXES)[:, None] & inside[None, :]
        place = mixes[:, None] * WIDTH + k[None, :]
        sums = tl.zeros([BLOCK_MIXES, BLOCK], dtype=tl.float32)
        chunk = chunks + place.to(tl.int64)
        for _ in range(count):
            sums += tl.load(chunk, mask=mask, other=0.0)
            chunk += MIXES * WIDTH
        if grad_phi is not None:
            tl.store(grad_phi + place, sums * scale[None, :], mask=mask)
        if grad_gamma is not None:
            products = tl.fma(tl.load(phi + place, mask=mask, other=0.0), sums, products)
    if grad_gamma is not None:
        tl.store(grad_gamma + k, tl.sum(products, axis=0), mask=inside)


@triton.jit(do_not_specialize=["count", "programs", "blocks"])
def sums_kernel(
    phi,
    gamma,
    chunks,
    partial,
    grad_phi,
    grad_gamma,
    grad_alpha,
    grad_bias,
    count,
    programs,
    blocks,
    STREAMS: tl.constexpr,
    WIDTH: tl.constexpr,
    MIXES: tl.constexpr,
    BLOCK_MIXES: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_PARTIAL: tl.constexpr,
):
    """One program adds up ``BLOCK`` columns of phi's gradient; after ``blocks`` of those, each one bias or alpha.

    ``chunks`` is None where neither phi's nor gamma's gradient is asked for.
    """
    if tl.program_id(0) < blocks:
        if chunks is not None:
            block = tl.program_id(0)
            add_phi_gamma(phi, gamma, chunks, grad_phi, grad_gamma, block, count, WIDTH, MIXES, BLOCK_MIXES, BLOCK)
    else:
        result = tl.program_id(0) - blocks
        add_alpha_bias(partial, grad_alpha, grad_bias, result, programs, STREAMS, MIXES, BLOCK_PARTIAL)
