"""A description that does not fit itself is refused with a sentence, and every code has a cause and a remedy."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_matrix.diagnosis import diagnose
from kernel_matrix.kit import array
from kernel_matrix.kit.checks.names import CHECKS
from kernel_matrix.kit.description import described_as
from kernel_matrix.kit.layouts import OTHER, PACKED, array_in, laid, opened, place_of
from kernel_matrix.kit.misbehaviour import KINDS, MisbehavedError

X = array("tokens", 8)


def test_double(x):
    return 2 * x


test_double.__test__ = False  # it is plain code here


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"x": X, "rows": "tokens", "free": "tokens"}, ValueError, "free names axes of arrays, but not that of rows"),
        ({"x": X, "rows": "rows"}, ValueError, "no array has the axis 'rows'"),
        ({"x": X, "framework": "cupy"}, ValueError, "framework is one of numpy, torch, jax"),
        ({"x": X, "differentiable": "x"}, ValueError, "this framework has no gradients"),
        ({"x": X, "framework": "torch", "differentiable": "y"}, ValueError, "differentiable names inputs"),
        ({"x": X, "framework": "jax", "writes": True}, ValueError, "its arrays cannot be written"),
        ({"x": X, "in_place": "x"}, ValueError, "in_place names inputs that are outputs too"),
        ({"x": X, "without": {"speed": "it is slow"}}, ValueError, "'without' names checks"),
        ({"x": X, "without": {"rows": "no"}}, ValueError, "a reason for each check"),
        ({"x": X, "compute": "bf16"}, ValueError, "compute is fp32 or case"),
        ({"x": array("tokens", below=4), "framework": "torch", "differentiable": "x"}, ValueError, "whole numbers"),
        ({}, ValueError, "an operator has inputs"),
        ({"x": X, "y": X}, TypeError, "the plain code has no parameter y"),
        ({"x": X, "row": "tokens"}, TypeError, "a description has no row"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(words, error, text):
    with pytest.raises(error, match=text):
        described_as(test_double, {"out": X}, words)


def test_an_array_has_no_other_words():
    with pytest.raises(TypeError, match="array\\(\\) has no spread"):
        array("tokens", spread=3)


def test_every_code_has_a_cause_and_a_remedy_and_every_check_a_meaning():
    for code, kind in KINDS.items():
        found = diagnose(str(MisbehavedError(code, kind.example)), "launch")
        assert found is not None
        assert (found.rule, found.cause, found.remedy) == (code, kind.cause, kind.remedy)
    assert all(CHECKS.values())


@pytest.mark.parametrize("layout", [PACKED, *OTHER])
@pytest.mark.parametrize("shape", [(), (0, 4), (5,), (3, 4), (2, 3, 5)])
def test_what_lies_in_guarded_memory_comes_back_and_every_byte_around_it_counts(layout, shape):
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    if layout == "expanded" and shape:
        values = np.ascontiguousarray(np.broadcast_to(values[:1], shape))
    place = place_of(shape, values.dtype, layout)
    whole = laid(place, values, 7)
    back = opened(whole, place, 7)
    assert (back.guards, back.gaps) == (True, True)
    assert np.array_equal(back.values, values)
    for spot in (0, place.guard - 1, place.guard + place.room, len(whole) - 1):
        spoilt = whole.copy()
        spoilt[spot] ^= 1
        assert not opened(spoilt, place, 7).guards
    inside = np.ones(place.room, bool)
    if values.size:
        marked = laid(place, np.zeros(shape, np.float32), 7)
        array_in(marked, place)[...] = 1.0
        inside = marked[place.guard : place.guard + place.room] == 0xFF
        for spot in np.flatnonzero(inside)[:3]:
            spoilt = whole.copy()
            spoilt[place.guard + spot] ^= 1
            assert not opened(spoilt, place, 7).gaps
    with pytest.raises(ValueError, match="bytes came back"):
        opened(whole[:-8], place, 7)
