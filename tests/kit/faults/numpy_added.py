"""A sum and its tanh, in NumPy, of which a case may not have the sum: one right, and faults in what is returned."""

import numpy as np


def good(x, residual):
    total = x if residual is None else x + residual
    return None if residual is None else total, np.tanh(total)


def none_for_y(x, residual):
    total, y = good(x, residual)
    return (total, y) if residual is not None else (y, None)


def y_alone(x, residual):
    return good(x, residual)[1]


def other_order(x, residual):
    total, y = good(x, residual)
    return y, total


def other_names(x, residual):
    total, y = good(x, residual)
    return {"y": y if total is None else total, "sum": y}


def one_name(x, residual):
    return {"sum": good(x, residual)[1]}


def zeros_for_what_is_not_there(x, residual):
    return np.tanh(np.zeros_like(x) if residual is None else x + residual), good(x, residual)[1]
