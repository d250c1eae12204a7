"""Make the kernels of a case: right ones, and faults of kinds that only such kernels have."""

import importlib

import numpy as np


def kernels(case):
    name, direction = case["axes"]["kernel"], case["direction"]
    if name.startswith("@"):  # the chosen one is right, and another variant is not
        return {"": globals()[f"_{direction}"], name: globals()[name[1:]]}
    return globals()[f"_{direction}" if name == "good" else name]


def name_of(case, arrays):
    return case["axes"]["kernel"] if arrays["x"].ndim == 2 else ""


def _forward(x, gain, y, r, *, eps):
    r[...] = 1 / np.sqrt((x * x).mean(-1) + np.float32(eps))
    y[...] = x * r[:, None]
    if gain is not None:
        y *= gain


def _backward(x, gain, r, grad_y, dx, dgain, *, eps):
    through = grad_y if gain is None else grad_y * gain
    if dx is not None:
        scale = r[:, None]
        dx[...] = scale * (through - x * scale**2 * (through * x).mean(-1, keepdims=True))
    if dgain is not None:
        dgain[...] = (grad_y * x * r[:, None]).sum(0, dtype=np.float64)  # NumPy adds rows up in one chain


def usual_eps(x, gain, y, r, *, eps):
    _forward(x, gain, y, r, eps=1e-6)


def gain_is_there(x, gain, y, r, *, eps):
    _forward(x, np.full(x.shape[-1], 1.01, np.float32) if gain is None else gain, y, r, eps=eps)


def calls_plain_code(x, gain, y, r, *, eps):
    y[...], r[...] = importlib.import_module("plain").norm(x, gain, eps)


def clamps(x, gain, y, r, *, eps):
    _forward(np.clip(x, -1000, 1000), gain, y, r, eps=eps)


def forgets_r(x, gain, y, r, *, eps):
    _forward(x, gain, y, np.empty_like(r), eps=eps)


def wrong_alone(x, gain, r, grad_y, dx, dgain, *, eps):
    """Compute the gradient of the gain from that of x, which may not be there."""
    _backward(x, gain, r, grad_y, dx, dgain, eps=eps)
    if dgain is not None and dx is None:
        dgain *= 1.5


def one_element_alone(x, gain, r, grad_y, dx, dgain, *, eps):
    _backward(x, gain, r, grad_y, dx, dgain, eps=eps)
    if dx is None:
        dgain[-1] *= np.float32(1.0001)


def unwritten_alone(x, gain, r, grad_y, dx, dgain, *, eps):
    _backward(x, gain, r, grad_y, dx, None if dx is None else dgain, eps=eps)


def gain_forgotten_alone(x, gain, r, grad_y, dx, dgain, *, eps):
    _backward(x, gain if dgain is not None else None, r, grad_y, dx, dgain, eps=eps)


def other_order_alone(x, gain, r, grad_y, dx, dgain, *, eps):
    """Add the rows up from the last one where nothing else is asked for, as a compiler may for other outputs."""
    _backward(x, gain, r, grad_y, dx, dgain, eps=eps)
    if dx is None:
        dgain[...] = np.cumsum((grad_y * x * r[:, None])[::-1], axis=0, dtype=np.float32)[-1]


def needs_every_output(x, gain, r, grad_y, dx, dgain, *, eps):
    dgain.fill(0)
    _backward(x, gain, r, grad_y, dx, dgain, eps=eps)


def one_chain(x, gain, r, grad_y, dx, dgain, *, eps):
    _backward(x, gain, r, grad_y, dx, None, eps=eps)
    if dgain is not None:
        dgain[...] = np.cumsum(grad_y * x * r[:, None], axis=0, dtype=np.float32)[-1]


def reads_r_of_the_next(x, gain, r, grad_y, dx, dgain, *, eps):
    _backward(x, gain, np.roll(r, -1), grad_y, dx, dgain, eps=eps)
