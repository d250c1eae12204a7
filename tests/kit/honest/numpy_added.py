"""Right kernels in NumPy, of which a case may not have the first output: each says so in another way."""

import numpy as np


def none(x, residual):
    total = x if residual is None else x + residual
    return None if residual is None else total, np.tanh(total)


def alone(x, residual):
    total, y = none(x, residual)
    return y if total is None else [total, y]


def both(x, residual):
    """Give the sum where a case has none, too."""
    _, y = none(x, residual)
    return x + (0 if residual is None else residual), y


def names(x, residual):
    total, y = none(x, residual)
    return {"y": y, "sum": total}


def names_of_its_own(x, residual):
    total, y = none(x, residual)
    return {"tanh": y} if total is None else {"total": total, "tanh": y}
