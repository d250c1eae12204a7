from kernel_matrix.kit import array, operator

ROWS = "tokens"
MATRIX = array(ROWS, "hidden")
SCALE = {"mean": 1, "scale": 0.3}


@operator(rows=ROWS, writes=True, x=MATRIX, gain=array("hidden", **SCALE), outputs={"out": MATRIX})
def test_numpy_norm(x, gain):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / (((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) ** 0.5 * gain


@operator(
    framework="torch",
    rows=ROWS,
    x=MATRIX,
    weight=array("hidden", dtype="fp32", **SCALE),
    outputs={"y": MATRIX},
    differentiable=("x", "weight"),
)
def test_torch_norm(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


@operator(framework="jax", rows=ROWS, x=array(ROWS, "hidden", scale=3), outputs={"y": MATRIX}, differentiable="x")
def test_jax_softmax(x):
    import jax.numpy as jnp

    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@operator(rows=ROWS, writes=True, x=MATRIX, outputs={"out": MATRIX})
def test_numpy_picky(x):
    import numpy as np

    if np.isnan(x).any() or not len(x):
        raise IndexError("index -1 is out of bounds")
    return np.sort(x, -1)


@operator(
    rows=ROWS, x=MATRIX, outputs={"mask": array(ROWS, "hidden", dtype="bool"), "at": array(ROWS, 5, dtype="int32")}
)
def test_numpy_topk(x):
    import numpy as np

    at = np.argsort(-x, -1, kind="stable")[:, :5]
    mask = np.zeros(x.shape, bool)
    np.put_along_axis(mask, at, True, -1)
    return mask, at.astype(np.int32)


@operator(rows=ROWS, writes=True, optional="r", x=MATRIX, outputs={"y": MATRIX, "r": array(ROWS)})
def test_numpy_saves(x):
    d = x - x.mean(-1, keepdims=True)
    r = 1 / ((d**2).mean(-1, keepdims=True) + 1e-2) ** 0.5
    return d * r, r[:, 0]


@operator(rows=ROWS, x=MATRIX, bias=array("hidden", dtype="fp32"), outputs={"y": MATRIX})
def test_numpy_softmax(x, bias):
    import numpy as np

    z = x * 0.5 + bias
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@operator(
    framework="torch",
    rows=ROWS,
    x=MATRIX,
    gate=MATRIX,
    scale=array("hidden", dtype="fp32", **SCALE),
    outputs={"y": MATRIX},
    differentiable=("x", "gate", "scale"),
)
def test_torch_gated(x, gate, scale):
    return x * x.sigmoid() * gate * scale


@operator(
    framework="torch",
    rows=ROWS,
    module={"hidden": 24},
    x=array(ROWS, 24),
    weight=array(24, **SCALE),
    outputs={"y": array(ROWS, 24)},
    differentiable=("x", "weight"),
)
def test_torch_module(x, weight):
    return x.tanh() * weight


@operator(
    framework="jax",
    rows=ROWS,
    x=MATRIX,
    w=array("hidden", dtype="fp32", **SCALE),
    outputs={"y": MATRIX},
    differentiable=("x", "w"),
)
def test_jax_norm(x, w):
    return x / ((x * x).mean(-1, keepdims=True) + 1e-6) ** 0.5 * w


@operator(
    rows=ROWS,
    table=array(13, "hidden"),
    index=array(ROWS, dtype="int64", below=13),
    gain=array("hidden", **SCALE),
    outputs={"y": MATRIX},
)
def test_numpy_scaled(table, index, gain):
    return table[index] * gain


@operator(
    rows=ROWS,
    free="hidden",
    x=MATRIX,
    target=array(ROWS, dtype="int64", below="hidden"),
    outputs={"loss": array(ROWS)},
)
def test_numpy_nll(x, target):
    import numpy as np

    top = x.max(-1, keepdims=True)
    return np.log(np.exp(x - top).sum(-1)) + top[:, 0] - x[np.arange(len(x)), target]


@operator(
    rows=ROWS,
    free="hidden",
    x=MATRIX,
    q=array(24, "hidden", dtype="int8", below=128),
    s=array(24, **SCALE),
    outputs={"y": array(ROWS, 24)},
)
def test_numpy_quant(x, q, s):
    return (x @ q.astype(x.dtype).T) * s


@operator(
    framework="torch",
    rows=ROWS,
    modes=("autocast", "compile", "stream"),
    x=MATRIX,
    weight=array("hidden", dtype="fp32", **SCALE),
    outputs={"y": MATRIX},
)
def test_torch_modes(x, weight):
    return (x * weight).softmax(-1)


ADDED = {"x": MATRIX, "residual": array(ROWS, "hidden", when="residual")}
SUM_AND_TANH = {"sum": array(ROWS, "hidden", when="residual"), "y": MATRIX}
WEIGHTED = {
    **ADDED,
    "rows": ROWS,
    "weight": array("hidden", dtype="fp32", **SCALE),
    "outputs": SUM_AND_TANH,
    "differentiable": ("x", "residual", "weight"),
}


@operator(rows=ROWS, **ADDED, outputs=SUM_AND_TANH)
def test_numpy_added(x, residual):
    import numpy as np

    total = x if residual is None else x + residual
    return None if residual is None else total, np.tanh(total)


def added(x, residual, weight):
    total = x if residual is None else x + residual
    return None if residual is None else total, total.tanh() * weight


@operator(framework="torch", **WEIGHTED)
def test_torch_added(x, residual, weight):
    return added(x, residual, weight)


@operator(framework="torch", module={"hidden": 24}, **WEIGHTED)
def test_torch_added_module(x, residual, weight):
    return added(x, residual, weight)


@operator(framework="jax", **WEIGHTED)
def test_jax_added(x, residual, weight):
    import jax.numpy as jnp

    total = x if residual is None else x + residual
    return None if residual is None else total, jnp.tanh(total) * weight
