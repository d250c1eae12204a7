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
