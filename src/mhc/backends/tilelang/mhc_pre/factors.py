"""The tensors between the kernels of the gradients of ``mhc_pre`` and ``mhc_head``, four for a GPU and four for a CPU.

``factors``
    by tokens: what the sums need of a token, from the m and r that the forward kept.
``grad_x``
    by tokens and columns of x: dx, from the factors, phi and x.
``sums``
    by splits of the tokens and columns of x: Σ f·x over the tokens of a split, and the sums over its tokens that are
    gradients of bias and alpha.
``total``
    adds the splits up. With q = Σₜ f·x, dphi is q·gamma and dgamma is Σₒ phi·q.

A kernel runs where one of its results is asked for. A sum depends only on the specialisation and on the number of
tokens and of splits, so no result depends on what else is asked for.

The factors of a token are, in this order: f of each mix (the gradient of the projection, alpha·dz·r), h_pre of each
stream, the slope (what the root mean square adds to dx, as a factor of x), dz of each mix, and for each alpha the sum
of dz·m over its mixes.
"""

from __future__ import annotations

from dataclasses import dataclass

from mhc.backends.tilelang.gpu import vector_of
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.read import ReadSpec

STAGE = 16  # tokens whose sums are added up before they join others; a GPU's block has their factors in shared memory
COLUMN_THREADS = 128  # of a GPU's block that owns columns

# The tokens of a split, at least; the splits of few mixes, at most, and of many: each has sums of phi's size.
TOKENS_OF_SPLIT = 32
MAX_SPLITS, SPLITS_OF_MANY, MIXES_OF_SPLITS = 16, 4, 384


@dataclass(frozen=True)
class Factors:
    """The places of a token's factors: ``f`` is first, ``size`` is how many numbers there are."""

    h_pre: int
    slope: int
    dz: int
    dalpha: int
    size: int


def mixes_of(spec: ReadSpec) -> int:
    """Return the rows of phi."""
    return int(spec.mixes)


def writes_back(spec: ReadSpec) -> bool:
    """Return whether there are h_post and h_res, as ``mhc_pre`` has and ``mhc_head`` has not."""
    return isinstance(spec, MhcPreSpec)


def post_scale_of(spec: ReadSpec) -> float:
    """Return the constant of h_post; ``mhc_head`` has none, and its kernels do not use it."""
    return spec.post_scale if isinstance(spec, MhcPreSpec) else 0.0


def gates_of(spec: ReadSpec) -> int:
    """Return the elements of alpha."""
    return 3 if writes_back(spec) else 1


def factors_of(spec: ReadSpec) -> Factors:
    """Return the places of a token's factors."""
    mixes = mixes_of(spec)
    dz = mixes + spec.streams + 1
    return Factors(mixes, dz - 1, dz, dz + mixes, dz + mixes + gates_of(spec))


def columns_of_block(spec: ReadSpec) -> int:
    """Return the number of columns of x whose sums lie together: the columns of a GPU's block."""
    return COLUMN_THREADS * vector_of(spec.hidden)


def splits_of(spec: ReadSpec, tokens: int) -> tuple[int, int]:
    """Return the number of splits and the tokens of each; the last may have fewer."""
    most = max(SPLITS_OF_MANY, min(MAX_SPLITS, MIXES_OF_SPLITS // mixes_of(spec)))
    share = -(-tokens // min(most, -(-tokens // TOKENS_OF_SPLIT)))
    return -(-tokens // share), share
