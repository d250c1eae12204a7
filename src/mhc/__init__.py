"""Manifold-constrained hyper-connections (mHC, arXiv 2512.24880): operators in several kernel languages.

Each operator is one module of :mod:`mhc.ops` (its equation and its tensors). Each backend is one folder of
:mod:`mhc.backends`. A backend's toolchain is imported when that backend is first used, not before.
"""

from mhc import convert
from mhc.convert import fold_gamma
from mhc.functional import MhcPre, expand, mhc_head, mhc_post, mhc_post_pre, mhc_pre, sinkhorn
from mhc.module import HyperConnection, HyperHead
from mhc.recompute import recomputation
from mhc.stack import HyperStack

__version__ = "0.1.0"

__all__ = [
    "HyperConnection",
    "HyperHead",
    "HyperStack",
    "MhcPre",
    "convert",
    "expand",
    "fold_gamma",
    "mhc_head",
    "mhc_post",
    "mhc_post_pre",
    "mhc_pre",
    "recomputation",
    "sinkhorn",
]
