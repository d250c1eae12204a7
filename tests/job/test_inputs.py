"""Inputs have the same bits on every machine."""

from __future__ import annotations

import numpy as np

from kernel_matrix.job.inputs import digest, normal, nudge


def test_the_bits_are_those_of_any_other_machine():
    assert digest([normal("mhc_pre.forward/case/x", (3, 5))]) == "7b19a88d82e4f3a4"


def test_a_nudge_has_the_same_bits_on_any_other_machine():
    assert digest([nudge("mhc_pre.forward/case/x/0", normal("mhc_pre.forward/case/x", (3, 5)))]) == "9b73601dbfc12e9a"


def test_a_nudge_is_one_rounding_error_up_or_down_as_often():
    moved = (nudge("a", np.ones((500, 3))) - 1) * 2.0**24
    assert np.unique(moved).tolist() == [-1.0, 1.0]
    assert abs(moved.mean()) < 0.06


def test_another_key_gives_other_values_and_the_shape_only_cuts_the_stream():
    values = normal("a", (6,))
    assert not np.array_equal(values, normal("b", (6,)))
    assert np.array_equal(values.reshape(2, 3), normal("a", (2, 3)))


def test_values_have_mean_0_variance_1_and_end_where_said():
    values = normal("moments", (200_000,))
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert np.abs(values).max() <= 3.47


def test_an_empty_shape_has_no_values():
    assert normal("empty", (0, 4)).shape == (0, 4)
