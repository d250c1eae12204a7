"""Rows of a table times a gain, in NumPy: one right, and faults at ends of the table and at the sign of the gain."""

import numpy as np


def good(table, index, gain):
    return table[index] * gain


def last_row_of_the_table(table, index, gain):
    return table[np.minimum(index, len(table) - 2)] * gain


def first_row_of_the_table(table, index, gain):
    return table[np.maximum(index, 1)] * gain


def positive_gain(table, index, gain):
    return table[index] * np.abs(gain)
