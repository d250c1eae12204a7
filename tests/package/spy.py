"""A backend for tests: the reference, which notes what it gets; and the tensors of a call."""

from __future__ import annotations

import math
from importlib import import_module

import torch

from mhc.backends import load

TOKENS, N, HIDDEN = 3, 2, 4
TENSORS = {
    "mhc_pre": 5,
    "mhc_pre_norm": 6,
    "mhc_head": 5,
    "sinkhorn": 1,
    "mhc_post": 4,
    "mhc_post_pre": 8,
    "mhc_read": 2,
    "mhc_coefficients": 5,
    "mhc_single_pass": 10,
    "expand": 1,
}  # the first arguments
EQUATIONS = {op: import_module(f"mhc.backends.reference.{op}").forward for op in TENSORS}
OPS = list(TENSORS)


# The sizes that Inductor runs with. The conformance cases have the same, so it takes their code from its cache.
COMPILED = {"n": 4, "hidden": 200}


class Spy:
    """In place of ``load``: every kernel is the reference's, and ``calls`` gets (operator, direction, inputs)."""

    def __init__(self):
        self.calls = []

    def __call__(self, backend, op, direction="forward"):
        return _Kernel(self.calls, op, direction)

    def inputs(self, op, direction):
        """Return the inputs of the one call of this operator in this direction."""
        [inputs] = [inputs for *key, inputs in self.calls if key == [op, direction]]
        return inputs


class _Kernel:
    def __init__(self, calls, op, direction):
        self._calls, self._key = calls, (op, direction)

    def run(self, inputs, out, target=None):
        self._calls.append((*self._key, inputs))
        load("reference", *self._key).run(inputs, out)


def tensor(*shape, dtype=torch.float32, requires_grad=True, scale=1.0):
    """Return the same numbers for the same shape, rounded to the dtype."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    numbers = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def mapping(rows, gates, dtype=torch.float32, n=N, hidden=HIDDEN):
    # Wider rows of phi have smaller weights, so that the sums of products stay as large as with N and HIDDEN.
    return [
        tensor(rows, n * hidden, dtype=dtype, scale=math.sqrt(N * HIDDEN / (n * hidden))),
        tensor(gates, dtype=dtype),
        tensor(rows, dtype=dtype),
        tensor(n, hidden, dtype=dtype),
    ]


def arguments(op, dtype=torch.float32, lead=(TOKENS,), n=N, hidden=HIDDEN):
    """Return tensors that require gradients, then the other arguments of the operator."""
    x = tensor(*lead, n, hidden, dtype=dtype)
    if op == "mhc_pre":
        return [x, *mapping(n * (n + 2), 3, dtype, n, hidden), 1e-3, 1e-2, 1.5, "fp32"]
    if op == "mhc_pre_norm":
        *tensors, norm_eps, pre_eps, post_scale, precision = arguments("mhc_pre", dtype, lead, n, hidden)
        return [*tensors, tensor(hidden, dtype=dtype), norm_eps, pre_eps, post_scale, precision]
    if op == "mhc_head":
        return [x, *mapping(n, 1, dtype, n, hidden), 1e-3, 1e-2, "fp32"]
    if op == "sinkhorn":
        return [tensor(*lead, n, n, dtype=dtype), 3, 1e-6, "paper"]
    if op == "mhc_post_pre":
        return [*arguments("mhc_post", dtype, lead, n, hidden), *arguments("mhc_pre", dtype, lead, n, hidden)[1:]]
    if op == "mhc_coefficients":
        return [x, *mapping(2 * n + 3, 3, dtype, n, hidden), 1e-3, 1e-2, 1.5, "fp32"]
    if op == "mhc_single_pass":
        written, read = arguments("mhc_post", dtype, lead, n, hidden), arguments("mhc_read", dtype, lead, n, hidden)[1:]
        _, phi, alpha, bias, gamma, *options = arguments("mhc_coefficients", dtype, lead, n, hidden)
        return [*written, *read, phi, alpha, bias, gamma, tensor(hidden, dtype=dtype), *options]
    if op in ("mhc_post", "mhc_read"):
        wide = torch.promote_types(dtype, torch.float32)
        if op == "mhc_read":
            return [x, tensor(*lead, n, dtype=wide)]
        return [x, tensor(*lead, hidden, dtype=dtype), tensor(*lead, n, dtype=wide), tensor(*lead, n, n, dtype=wide)]
    return [tensor(*lead, hidden, dtype=dtype), n]


def call(op, *values, backend="reference"):
    """Call the public function with these arguments, and return its results as a tuple."""
    import mhc

    count = TENSORS[op]
    names = {
        "mhc_pre": ("norm_eps", "pre_eps", "post_scale", "precision"),
        "mhc_pre_norm": ("norm_eps", "pre_eps", "post_scale", "precision"),
        "mhc_head": ("norm_eps", "pre_eps", "precision"),
        "sinkhorn": ("iterations", "eps", "form"),
        "mhc_post": (),
        "mhc_post_pre": ("norm_eps", "pre_eps", "post_scale", "precision"),
        "mhc_read": (),
        "mhc_coefficients": ("norm_eps", "pre_eps", "post_scale", "precision"),
        "mhc_single_pass": ("norm_eps", "pre_eps", "post_scale", "precision"),
        "expand": ("streams",),
    }[op]
    options = dict(zip(names, values[count:], strict=True))
    results = getattr(mhc, op.removesuffix("_norm"))(*values[:count], **options, backend=backend)
    if op == "mhc_post_pre":  # the streams come first, and last in the order of the outputs
        return *results[1], results[0]
    if op == "mhc_single_pass":
        return results[1], *results[2], results[0]
    return results if isinstance(results, tuple) else (results,)
