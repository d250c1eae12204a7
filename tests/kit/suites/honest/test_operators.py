from kernel_matrix.kit import array, operator

ROWS = "tokens"
MATRIX = array(ROWS, "hidden")
WEIGHT = array("hidden", dtype="fp32", mean=1, scale=0.3)


@operator(rows=ROWS, x=MATRIX, outputs={"y": MATRIX})
def test_numpy_softmax(x):
    import numpy as np

    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@operator(rows=ROWS, x=MATRIX, outputs={"y": MATRIX})
def test_numpy_table(x):
    import numpy as np

    return x * np.linspace(1, 2, x.shape[1], dtype=np.float32).astype(x.dtype)


@operator(rows=ROWS, x=MATRIX, weight=WEIGHT, outputs={"y": array("hidden", dtype="fp32")})
def test_numpy_sums(x, weight):
    return (x * weight).sum(0)


@operator(rows=ROWS, writes=True, same_bits=False, x=MATRIX, weight=array("hidden", 24, scale=0.2),
          outputs={"y": array(ROWS, 24, dtype="fp32")})  # fmt: skip
def test_numpy_product(x, weight):
    return x @ weight


@operator(rows=ROWS, in_place=("p", "m"), compute="case", options={"lr": 0.1},
          p=MATRIX, m=MATRIX, g=MATRIX, outputs={"p": MATRIX, "m": MATRIX})  # fmt: skip
def test_numpy_momentum(p, m, g, lr):
    m = m * 0.9 + g
    return {"p": p - lr * m, "m": m}


@operator(rows=ROWS, exact=True, index=array(ROWS, below=13), values=array(13, "hidden"), outputs={"y": MATRIX})
def test_numpy_gather(index, values):
    return values[index]


@operator(rows=ROWS, x=MATRIX, outputs={"y": MATRIX})
def test_numpy_clipped(x):
    return (x * 1e4).clip(0, 0.5)  # next to all are one of two numbers


@operator(rows=ROWS, x=MATRIX, outputs={"more": array(ROWS, "hidden", dtype="bool"), "n": array(ROWS, dtype="int32")})
def test_numpy_differs(x):
    more = x > 0.5
    return more, more.sum(-1).astype("int32")


@operator(framework="torch", rows=ROWS, x=MATRIX, outputs={"y": MATRIX}, differentiable="x")
def test_torch_softmax(x):
    return x.softmax(-1)


@operator(framework="torch", rows=ROWS, x=MATRIX, weight=WEIGHT, outputs={"y": MATRIX}, differentiable=("x", "weight"))
def test_torch_scaled(x, weight):
    return x * weight


@operator(framework="torch", rows=ROWS, module={"width": 40}, x=array(ROWS, 40), weight=array(40, dtype="fp32"),
          outputs={"y": array(ROWS, 40)}, differentiable=("x", "weight"))  # fmt: skip
def test_torch_rotates(x, weight):
    import torch

    return x * torch.linspace(1, 2, 40).to(x.dtype) * weight


@operator(framework="torch", rows=ROWS, x=MATRIX, weight=WEIGHT, outputs={"y": array("hidden", dtype="fp32")})
def test_torch_sums(x, weight):
    return (x * weight).sum(0)


@operator(framework="torch", rows=ROWS, in_place="p", compute="case", p=MATRIX, g=MATRIX, outputs={"p": MATRIX})
def test_torch_step(p, g):
    return p - 0.5 * g


@operator(framework="torch", x=MATRIX, target=array(ROWS, below="hidden"),
          outputs={"loss": array()}, differentiable="x")  # fmt: skip
def test_torch_loss(x, target):
    import torch

    return torch.nn.functional.cross_entropy(x, target)


@operator(framework="torch", rows=ROWS, x=array(ROWS, 4, 20), weight=array(6, 4, 3, scale=0.3), bias=array(6),
          outputs={"y": array(ROWS, 6, 20)}, differentiable=("x", "weight", "bias"))  # fmt: skip
def test_torch_convolved(x, weight, bias):
    import torch

    return torch.nn.functional.conv1d(x, weight, bias, padding=1)


@operator(framework="jax", rows=ROWS, x=MATRIX, outputs={"y": MATRIX}, differentiable="x")
def test_jax_softmax(x):
    import jax

    # Its gradient cancels in a row with one large element, and that of e / sum(e) does so by other steps.
    return jax.nn.softmax(x)


@operator(framework="jax", rows=ROWS, x=MATRIX, weight=WEIGHT, outputs={"y": MATRIX}, differentiable=("x", "weight"))
def test_jax_scaled(x, weight):
    return x * weight
