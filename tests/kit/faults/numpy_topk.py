"""Marks the five largest of a row, rightly and with faults; its results are whole numbers alone."""

import numpy as np


def _five(x):
    return np.argsort(-x.astype(np.float32), -1, kind="stable")[:, :5]


def _marked(x):
    mask = np.zeros(x.shape, bool)
    np.put_along_axis(mask, _five(x), True, -1)
    return mask


def good(x):
    return _marked(x), _five(x).astype(np.int32)


def last_of_equal_numbers(x):
    mask = np.zeros(x.shape, bool)
    np.put_along_axis(mask, np.argsort(x, -1, kind="stable")[:, -5:], True, -1)
    return mask, _five(x).astype(np.int32)


def truth_of_two(x):
    return (_marked(x).view(np.uint8) * 2).view(bool), _five(x).astype(np.int32)


def places_in_64_bits(x):
    return _marked(x), _five(x).astype(np.int64)


def four_where_rows_are_many(x):
    mask, places = good(x)
    if len(x) > 64:
        mask[np.arange(len(x)), places[:, 4]] = False
    return mask, places


def no_mark_where_nan(x):
    mask, places = good(x)
    return mask & ~np.isnan(x.astype(np.float32)).any(-1, keepdims=True), places
