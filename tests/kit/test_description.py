"""A description that does not fit itself is refused with a sentence, and every code has a cause and a remedy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kernel_matrix.diagnosis import diagnose
from kernel_matrix.kit import array, draws
from kernel_matrix.kit.checks.names import CHECKS
from kernel_matrix.kit.description import described_as
from kernel_matrix.kit.layouts import OTHER, PACKED, array_in, laid, of_rows, opened, place_of, repeated, same_rows
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
        ({"x": array("tokens", dtype="complex64")}, ValueError, "no array has complex numbers"),
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


def test_the_order_of_the_words_counts_where_the_plain_code_takes_anything():
    def test_any(*given, scale=1):
        return given[0] * scale

    def test_named(y, x):
        return x + y

    words = {"y": X, "x": X, "z": X}
    assert list(described_as(test_any, {"out": X}, {**words, "options": {"scale": 2}}).inputs) == ["y", "x", "z"]
    assert list(described_as(test_named, {"out": X}, {"x": X, "y": X}).inputs) == ["y", "x"]


def test_an_array_like_another_has_its_axes_and_dtype_and_is_there_where_it_is():
    one = array("tokens", 8, dtype="fp32", when="gain", scale=3, positive=True, drawn=lambda values, axes: values)
    assert one.like(mean=2) == array("tokens", 8, dtype="fp32", when="gain", mean=2)


@pytest.mark.parametrize("several", [False, True])
def test_a_forward_may_save_several_arrays_and_is_asked_once_for_each_draw(several):
    asked = []

    def saved(before, axes):
        asked.append(list(before))
        return {"m": before["x"] + 1, "r": before["x"] + 2, "other": None} if several else before["x"] + 3

    def test_saved(x, m, r):
        return x

    kinds = {"m": array("tokens", 8, dtype="fp16" if several else "fp32", saved=saved), "r": X.like(saved=saved)}
    one = described_as(test_saved, {"out": X}, {"x": X, "direction": "backward", **kinds})
    axes = {"tokens": 2}
    case = SimpleNamespace(axes=axes, direction="backward", draw=lambda name, shape, **_: np.full(shape, len(name)))
    values = draws.drawn(case, one, axes)
    assert [int(values[name][0, 0]) for name in "xmr"] == ([1, 2, 3] if several else [1, 4, 4])
    assert values["m"].dtype == ("float16" if several else "float32")
    anew = draws.saved_anew(one, {**values, "x": values["x"] + 10}, axes)
    assert [int(anew[name][0, 0]) for name in "xmr"] == ([11, 12, 13] if several else [11, 14, 14])
    assert len(asked) == 2


@pytest.mark.parametrize("shape", [(2,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("kind", ["float16", "float32", "int64", "uint8"])
def test_rows_that_come_again_and_again_lie_as_they_would_alone_and_every_byte_counts(shape, kind):
    one = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    place = place_of(of_rows(shape, 7), one.dtype)
    there = opened(laid(place, one, 3), place, 3)
    assert there.guards
    assert np.array_equal(there.values, repeated({"x": one}, ["x"], 7)["x"])
    assert same_rows(there.values, one)
    assert not same_rows(there.values[1:], one)
    for at in (0, -1):
        changed = there.values.copy()
        changed.reshape(-1)[at] += 1
        assert not same_rows(changed, one)
