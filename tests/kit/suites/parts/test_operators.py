"""RMSNorm whose forward and backward are two kernels, which a function of the suite makes."""

from plain import KERNELS_MAY_NOT, gradients, norm

from kernel_matrix.kit import array, operator

ROWS, WIDTH = "tokens", "hidden"
X, GAIN, R = array(ROWS, WIDTH), array(WIDTH, mean=1, scale=0.3, when="gain"), array(ROWS)


def options(axes):
    return {"eps": 1e-3 if axes[WIDTH] % 2 else 1e-6}


def saved(before, axes):
    return norm(before["x"].astype(float), None, **options(axes))[1]


def written_out(*given, eps):
    *inputs, dx, dgain = given
    for into, one in zip((dx, dgain), gradients(*inputs, eps), strict=True):
        if into is not None:
            into[...] = one


words = {
    "name": "norm",
    "rows": ROWS,
    "fewest": 1,
    "writes": True,
    "options": options,
    "kernels": "kernels:kernels",
    "forbidden": KERNELS_MAY_NOT,
    "x": X,
    "gain": GAIN,
}


@operator(direction="forward", outputs={"y": X, "r": R}, holds="properties:check", **words)
def test_forward(x, gain, eps):
    return norm(x, gain, eps)


@operator(
    direction="backward",
    r=array(ROWS, saved=saved),
    grad_y=X,
    outputs={"x": X, "gain": array(WIDTH, when="gain")},
    optional=("x", "gain"),
    baseline=written_out,
    units=lambda axes, golden: {name: 1 + abs(one).max(initial=0) for name, one in golden.items()},
    steps=lambda axes, name: axes[ROWS] if name == "gain" else 1,
    once={ROWS: 7},
    without=lambda case: {} if case.axes["gain"] else {"magnitudes": "the cases with a gain have it"},
    **words,
)
def test_backward(x, gain, r, grad_y, eps):
    return gradients(x, gain, r, grad_y, eps)
