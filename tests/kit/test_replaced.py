"""Functions that somebody has put in the place of others are seen, and set back, however few an owner has."""

from __future__ import annotations

from types import ModuleType

import pytest

from kernel_matrix.kit.replaced import functions_of


def one(x):
    return x


def other(x):
    return -x


for _function in (one, other):
    _function.__module__ = "library"  # as if the library had them
NAMES = [(), ("first",), ("first", "second"), ("first", "second", "third")]


def owner_of(kind, names, **more):
    words = {**dict.fromkeys(names, one), "value": 3, **more}
    if kind == "class":
        return type("Owner", (), {**words, "__module__": "library"})
    module = ModuleType("library")
    vars(module).update(words)
    return module


@pytest.mark.parametrize("kind", ["module", "class"])
@pytest.mark.parametrize("names", NAMES, ids=len)
def test_an_owner_that_is_as_it_was_has_no_replaced_function(kind, names):
    owner = owner_of(kind, names, Inner=dict)
    read, _ = functions_of(owner)
    assert read() == {}
    owner.value, owner.late = 4, other  # the library itself may put one there
    if names:
        owner.first = other
    assert read() == {}


@pytest.mark.parametrize("kind", ["module", "class"])
@pytest.mark.parametrize("names", NAMES[1:], ids=len)
@pytest.mark.parametrize("how", ["replaced", "deleted", "no function"])
def test_a_replaced_function_is_seen_and_set_back(kind, names, how):
    owner = owner_of(kind, names)
    read, set_back = functions_of(owner)
    before = read()
    if how == "deleted":
        del owner.first
    else:
        owner.first = 5 if how == "no function" else lambda x: 0
    assert [name.rpartition(".")[2] for name in read()] == ["first"]
    set_back(before)
    assert owner.first is one
    assert read() == {}
