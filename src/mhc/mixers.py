"""Mixers: how the residual matrix ``h_res`` is made of the logits that the streams give.

A mixer of n streams takes c logits for each token (:func:`logits_of`), and gives a matrix [n, n] whose entry (i, j)
weighs stream j in stream i. Each is plain PyTorch in the dtype of its logits, so it may be checked in float64, and has
gradients; Sinkhorn has kernels too (:func:`mhc.sinkhorn`).

``sinkhorn``
    c = n². Exponentials whose columns and rows are normalised in turns (arXiv 2512.24880, equation 9;
    :mod:`mhc.ops.sinkhorn`).
``permutations``
    c = n!. ``H = Σₖ aₖ Pₖ``, ``a = softmax(logits)``, over all permutation matrices in lexicographic order, the
    identity first. Every doubly stochastic matrix is such a sum (Birkhoff and von Neumann), and every such sum is
    doubly stochastic, with no iterations (mHC-lite, arXiv 2601.05732). Up to 6 streams: 720 logits.
``kronecker``
    c = Σₖ pₖ!, with the prime factors ``n = p₁ · p₂ · …`` in ascending order. ``H = U₁ ⊗ U₂ ⊗ …``, where Uₖ is the
    mixer ``permutations`` of pₖ streams (KromHC, arXiv 2601.21579). For n = 4 these are 4 logits. No factor may be
    above 6. All factors have one gate here, ``alpha[2]``.
``identity``
    c = 0. ``H = I``: each stream keeps what it has (arXiv 2607.28611).
``given``
    c = 0. The matrix comes in at each call, so that any other may be tried. Nothing is asked of it.
"""

from __future__ import annotations

import itertools
import math

import torch

MIXERS = ("sinkhorn", "permutations", "kronecker", "identity", "given")
MOST_PERMUTED = 6  # streams of one sum over all permutations: 6! is 720

_tables: dict[tuple[int, torch.device, torch.dtype], torch.Tensor] = {}


def logits_of(mixer: str, streams: int) -> int:
    """Return c, the logits of a matrix.

    Raises:
        ValueError: there is no such mixer, or it does not take so many streams.
    """
    if mixer not in MIXERS:
        raise ValueError(f"mixer is {mixer!r}; it needs one of {', '.join(MIXERS)}")
    if mixer == "sinkhorn":
        return streams * streams
    parts = {"permutations": (streams,), "kronecker": factors_of(streams)}.get(mixer, ())
    if max(parts, default=1) > MOST_PERMUTED:
        raise ValueError(
            f"mixer {mixer!r} would take {max(parts)}! permutations for {streams} streams; the most is {MOST_PERMUTED}!"
        )
    return sum(map(math.factorial, parts))


def matrix_of(mixer: str, logits: torch.Tensor, streams: int) -> torch.Tensor:
    """Return the matrix ``[..., n, n]`` of logits ``[..., c]``; all mixers but ``sinkhorn`` and ``given``.

    Raises:
        ValueError: there are not as many logits as the mixer takes, or it makes no matrix of logits here.
    """
    if mixer in ("sinkhorn", "given"):
        raise ValueError(f"mixer {mixer!r}: its matrix is not made here (mhc.sinkhorn makes the one of Sinkhorn)")
    count = logits_of(mixer, streams)
    if logits.shape[-1] != count:
        raise ValueError(f"mixer {mixer!r} of {streams} streams takes {count} logits, and there are {logits.shape[-1]}")
    if mixer == "permutations":
        return _permuted(logits, streams)
    identity = torch.eye(streams, dtype=logits.dtype, device=logits.device)
    if mixer == "identity":
        return identity.expand(*logits.shape[:-1], streams, streams)
    matrix = identity[:1, :1].expand(*logits.shape[:-1], 1, 1)
    parts = factors_of(streams)
    for part, own in zip(parts, logits.split([math.factorial(part) for part in parts], dim=-1), strict=True):
        product = matrix[..., :, None, :, None] * _permuted(own, part)[..., None, :, None, :]
        matrix = product.flatten(-4, -3).flatten(-2, -1)
    return matrix


def initial_logits(mixer: str, streams: int) -> torch.Tensor:
    """Return the bias of the logits at which the matrix is near the identity, ``[c]``: 3e-4 off for two streams."""
    if mixer == "sinkhorn":
        return (8.0 * torch.eye(streams) - 4.0).flatten()
    logits = torch.zeros(logits_of(mixer, streams))
    first = 0
    for part in {"permutations": [streams], "kronecker": factors_of(streams)}.get(mixer, []):
        logits[first] = 8.0 + math.log(max(math.factorial(part) - 1, 1))
        first += math.factorial(part)
    return logits


def factors_of(streams: int) -> list[int]:
    """Return the prime factors in ascending order; 1 has none."""
    factors, rest, prime = [], streams, 2
    while rest > 1:
        while rest % prime == 0:
            factors.append(prime)
            rest //= prime
        prime += 1
    return factors


def _permuted(logits: torch.Tensor, streams: int) -> torch.Tensor:
    """Return the sum of all permutation matrices, each with its part of the softmax."""
    weights = torch.softmax(logits, dim=-1)
    return (weights @ _table(streams, logits)).unflatten(-1, (streams, streams))


def _table(streams: int, like: torch.Tensor) -> torch.Tensor:
    """Return all permutation matrices, a row for each, on the device of ``like``; a copy is kept for each device."""
    key = streams, like.device, like.dtype
    if not torch.compiler.is_compiling() and key in _tables:
        return _tables[key]
    rows = [
        [float(column == order[row]) for row in range(streams) for column in range(streams)]
        for order in itertools.permutations(range(streams))
    ]
    with torch.inference_mode(False):
        table = torch.tensor(rows, dtype=like.dtype, device=like.device)
    if not torch.compiler.is_compiling() and type(table) is torch.Tensor and table.device.type != "meta":
        _tables[key] = table
    return table
