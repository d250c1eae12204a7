"""Manifold-constrained hyper-connections (mHC, arXiv 2512.24880): operators in several kernel languages.

Each operator is one module of :mod:`mhc.ops` (its equation and its tensors). Each backend is one folder of
:mod:`mhc.backends`. A backend's toolchain is imported when that backend is first used, not before.
"""

from mhc import convert, mixers
from mhc.convert import fold_gamma
from mhc.functional import (
    MhcCoefficients,
    MhcPre,
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_pre_fp8,
    mhc_read,
    mhc_single_pass,
    mhc_single_pass_fp8,
    sinkhorn,
)
from mhc.module import HyperConnection, HyperHead
from mhc.recompute import recomputation
from mhc.single_pass import SinglePassConnection, SinglePassStack
from mhc.stack import HyperStack

__version__ = "0.1.0"

__all__ = [
    "HyperConnection",
    "HyperHead",
    "HyperStack",
    "MhcCoefficients",
    "MhcPre",
    "SinglePassConnection",
    "SinglePassStack",
    "convert",
    "expand",
    "fold_gamma",
    "mhc_coefficients",
    "mhc_head",
    "mhc_post",
    "mhc_post_pre",
    "mhc_pre",
    "mhc_pre_fp8",
    "mhc_read",
    "mhc_single_pass",
    "mhc_single_pass_fp8",
    "mixers",
    "recomputation",
    "sinkhorn",
]
