"""Call operators of flag-gems 5.0.2.

kernel-matrix launches -- python examples/launches/flag_gems_calls.py
"""

import os

import torch
from calls import call, end, tensor

# Without this it asks every vendor's command which device is here, and takes the first answer: a CPU has one too.
os.environ["GEMS_VENDOR"] = "amd" if torch.version.hip else "nvidia"
import flag_gems

x, y = (tensor(64, 512, grad=False) for _ in range(2))
matrix, other = tensor(256, 256, grad=False), tensor(256, 256, grad=False)
image = tensor(2, 8, 16, 16, grad=False)
numbers = torch.randint(0, 64, (64,), device="cuda")


def each(names: str, *values: object) -> None:
    for name in names.split():
        call(name, getattr(flag_gems, name), *values)


each("abs neg exp rsqrt sin cos tanh sigmoid silu relu gelu erf reciprocal isnan bitwise_not", x)
each("add sub mul true_divide maximum minimum eq lt ge ne pow_tensor_tensor", x, y)
each("sum mean max min argmax all any prod amax", x)
each("cumsum softmax log_softmax", x, -1)
each("mm", matrix, other)
each("addmm", y[0, :256].contiguous(), matrix, other)
each("bmm", tensor(2, 64, 64, grad=False), tensor(2, 64, 64, grad=False))
each("mv", matrix, other[0].contiguous())
each("triu tril", x)
each("sort", x)
each("topk", x, 8)
each("index_select", x, 0, numbers)
each("gather", x, 1, numbers.expand(64, 64).contiguous())
each("embedding", x, numbers)
each("where_self", x > 0, x, y)
each("masked_fill", x, x > 0, 1.0)
each("clamp", x, -1.0, 1.0)
each("layer_norm", x, (512,), y[0], y[1])
each("rms_norm", x, (512,), y[0])
each("group_norm", image, y[0, :8].contiguous(), y[1, :8].contiguous(), 2, 8, 256, 4)
each("fused_add_rms_norm", x, y, (512,), y[0])
each("silu_and_mul gelu_and_mul", x, y)
each("cat", [x, y], 0)
each("flip", x, [0])
each("repeat", x, (2, 2))
each("nonzero", x)
each("var_mean", x)
each("vector_norm", x)
each("isin", numbers, numbers)
each("scaled_dot_product_attention", *(tensor(1, 4, 128, 64, grad=False) for _ in range(3)))

end()
