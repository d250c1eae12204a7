"""Normalisation of liger-kernel."""

import pytest
import torch
from liger_kernel.transformers import functional as liger

EPS = 1e-6
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])


@DTYPES
def test_rms_norm(check, dtype):
    check(
        lambda x, w: liger.liger_rms_norm(x, w, EPS),
        lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * w,
        x=((7, 96), dtype),
        w=((96,), dtype),
    )


@DTYPES
def test_layer_norm(check, dtype):
    check(
        lambda x, w, b: liger.liger_layer_norm(x, w, b, EPS),
        lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, EPS),
        x=((7, 96), dtype),
        w=((96,), dtype),
        b=((96,), dtype),
    )


@DTYPES
def test_group_norm(check, dtype):
    check(
        lambda x, w, b: liger.liger_group_norm(x, w, b, 8, 4, EPS),
        lambda x, w, b: torch.nn.functional.group_norm(x, 4, w, b, EPS),
        x=((2, 8, 40), dtype),
        w=((8,), dtype),
        b=((8,), dtype),
    )
