"""Call gemlite 0.6.0.post2: every product, with packed weights of 8, 4 and 2 bits.

kernel-matrix launches -- python examples/launches/gemlite_calls.py
"""

import torch
from calls import call, end
from gemlite import DType, GemLiteLinear
from gemlite.core import GEMLITE_MATMUL_TYPES

N = K = 256


def product(bits: int, kind: str) -> torch.Tensor:
    layer = GemLiteLinear(
        bits, group_size=64, in_features=K, out_features=N, input_dtype=DType.FP16, output_dtype=DType.FP16
    )
    scales = torch.ones(N * K // 64, 1, dtype=torch.float16, device="cuda")
    layer.pack(
        torch.randint(0, 2**bits, (N, K), dtype=torch.uint8, device="cuda"), scales, torch.zeros_like(scales), None
    )
    rows = 1 if kind.startswith("GEMV") else 32
    return layer.forward_manual(torch.randn(rows, K, dtype=torch.float16, device="cuda:0"), kind)


for bits in (8, 4, 2):
    for kind in GEMLITE_MATMUL_TYPES:
        call(f"{kind} {bits}", product, bits, kind)
end()
