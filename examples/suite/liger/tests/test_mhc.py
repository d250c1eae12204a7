"""The operators of manifold-constrained hyper-connections (arXiv 2512.24880) of liger-kernel."""

import pytest
import torch
from liger_kernel.transformers import functional as liger

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
SHAPES = pytest.mark.parametrize(
    ("tokens", "streams", "hidden"), [(1, 4, 32), (7, 4, 200), (5, 2, 96)], ids=lambda value: str(value)
)


@DTYPES
@SHAPES
def test_mhc_pre(check, dtype, tokens, streams, hidden):
    check(
        liger.liger_mhc_pre,
        lambda x, h: torch.einsum("tsc,ts->tc", x, h),
        x=((tokens, streams, hidden), dtype),
        h=((tokens, streams), torch.float32),
    )


@DTYPES
@SHAPES
def test_mhc_post_res(check, dtype, tokens, streams, hidden):
    check(
        liger.liger_mhc_post_res,
        lambda x, f, h, r: torch.einsum("tij,tjc->tic", r, x) + h[..., None] * f[:, None],
        x=((tokens, streams, hidden), dtype),
        f=((tokens, hidden), dtype),
        h=((tokens, streams), torch.float32),
        r=((tokens, streams, streams), torch.float32),
    )
