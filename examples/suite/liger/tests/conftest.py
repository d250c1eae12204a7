"""Share one function that compares an operator, forward and backward, with its formula."""

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def check(matrix):
    """Compare ``kernel(*tensors)`` and its gradients with ``formula(*tensors)`` in float64 and in fp32.

    A shape beside a dtype says how a tensor is drawn: its values are the same on every machine.
    """

    def run(kernel, formula, **shapes):
        drawn = {name: (torch.from_numpy(matrix.draw(name, shape)), dtype) for name, (shape, dtype) in shapes.items()}
        narrow = {name: values.to(dtype) for name, (values, dtype) in drawn.items()}

        def results(function, dtype, device="cpu"):
            tensors = [t.to(device, dtype or t.dtype, copy=True).requires_grad_() for t in narrow.values()]
            y = function(*tensors)
            upstream = torch.from_numpy(matrix_upstream).to(device, narrow_y).to(y.dtype)
            gradients = torch.autograd.grad(y, tensors, upstream)
            return {"y": y, **{f"d{name}": g for name, g in zip(narrow, gradients, strict=True)}}

        first = next(iter(narrow.values()))
        narrow_y = first.dtype
        shape = formula(*[t.double() for t in narrow.values()]).shape
        matrix_upstream = matrix.draw("upstream", tuple(shape))
        golden, plain = results(formula, torch.float64), results(formula, torch.float32)
        actual = results(kernel, None, DEVICE)
        for name, value in actual.items():
            matrix.compare(value, golden[name], eager=plain[name].to(value.dtype), name=name)

    return run
