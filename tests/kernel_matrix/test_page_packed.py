"""Numbers of the page's files come back as they were, whatever they are."""

from __future__ import annotations

import gc
import json
import math
import struct
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from kernel_matrix.audit.cases import number_at
from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.report.page_packed import Objects, kind_of, numbered, packed, places

HALF = struct.unpack("<f", struct.pack("<f", 0.1))[0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 1.0, 255.0], "uint8"),
        ([0.0, 256.0], "float32"),
        ([-1.0, 0.0], "float32"),
        ([HALF, math.inf, -math.inf], "float32"),
        ([0.1, 1.0], "float64"),
        ([1e300, 1.0], "float64"),
        ([2.0**24 + 1, 0.0], "float64"),
        ([1.0, math.nan], "float32"),  # no number of uint8 stands for one that is absent
        ([math.nan, 0.1], "float64"),
    ],
)
def test_numbers_are_packed_as_the_narrowest_kind_that_holds_them_all(values, kind):
    column = json.loads(packed(np.array(values), kind_of(np.array(values))))
    assert list(column) == [kind]
    wanted = [None if math.isnan(value) else value if math.isfinite(value) else str(value) for value in values]
    assert [number_at(column, place) for place in range(len(values))] == wanted


@pytest.mark.parametrize(
    ("values", "text"), [([], "null"), ([math.nan] * 3, "null"), ([2.5] * 3, "2.5"), ([math.inf] * 2, '"inf"')]
)
def test_equal_numbers_are_one(values, text):
    column = np.array(values, np.float64)
    assert packed(column, kind_of(column)).decode() == text


def test_a_result_that_says_nan_is_told_from_an_absent_one():
    values, absent = np.array([math.nan, math.nan, 1.0]), np.array([True, False, False])
    assert json.loads(packed(values, "float64", absent)) == [None, "nan", 1.0]
    assert json.loads(packed(values[[0, 2]], "float64", absent[[0, 2]])).keys() == {"float64"}


def test_any_numbers_come_back():
    random = Random(7)
    for _ in range(300):
        some = [math.nan, math.inf, 0.0, 3.0, 1e-310, random.random(), -random.expovariate(1e-9)]
        values = np.array(random.choices(some, k=random.randint(1, 40)))
        column = json.loads(packed(values, kind_of(values)))
        for place, value in enumerate(values.tolist()):
            found = number_at(column, place)
            assert math.isnan(value) if found is None else float(found) == value


def test_places_and_texts_of_cases_that_are_alike_are_short():
    assert places(np.array([3, 3, 3])) == b"[3]"
    assert places(np.array([3, 4])) == b"[3,4]"
    assert places(np.array([], np.int32)) == b"[]"
    objects = Objects.of(["{}", "{}", '{"a":1}', "{}"])
    parts = [(0, 2), (1, 3), (2, 3), (3, 4), (4, 4)]
    assert [objects.written(*part) for part in parts] == [b"[]", b'[{},{"a":1}]', b'[{"a":1}]', b"[]", b"[]"]
    values, numbers = numbered(np.array([7, -1, 7, 5]), absent=-1)
    assert (values, numbers.tolist()) == ([5, 7], [1, -1, 1, 0])


def test_numbers_that_are_near_are_numbered_as_those_that_are_far_apart():
    for values in ([[3, 1], [1, 9]], [[3, 1], [1, 10**9]], [], [4]):
        distinct, numbers = numbered(np.array(values, np.int64))
        assert distinct == sorted({*np.ravel(values).astype(int).tolist()})
        assert [distinct[place] for place in numbers.ravel()] == np.ravel(values).tolist()
        assert numbers.shape == np.shape(values)


def test_garbage_is_looked_for_again_after_many_objects_were_made():
    assert gc.isenabled()
    with suppress(ValueError), many_objects_that_stay():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
    gc.disable()
    try:
        with many_objects_that_stay():
            assert not gc.isenabled()
        assert not gc.isenabled(), "somebody else has switched it off"
    finally:
        gc.enable()
