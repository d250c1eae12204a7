"""Read a former matrix.yaml with the present model. It may be of an earlier form. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.config.model import Matrix

NO_END = "9999-12-31"  # stands for the end of an entry of a form in which entries had none
_UNKNOWN = {"owner": "not known", "link": "not-known", "until": NO_END, "source": "not known: of an earlier form"}
_ROUNDS = 5  # what is put right can show another fault


class FormerError(Exception):
    """A former matrix.yaml cannot be read; the text says why, as a part of a sentence."""


def read_former(text: str, present: Matrix) -> Matrix:
    """Return the matrix of a former text.

    Keys that the model has no longer are left out. Keys inside of a section that it had not yet are as in the
    ``present`` matrix, or "not known" where that is different for each entry. A limit may be a plain number.

    Raises:
        FormerError: it is no YAML, or it differs from the model in something else.
    """
    try:
        data = YAML(typ="safe").load(text)
    except YAMLError as error:
        raise FormerError(f"it is no YAML: {str(error).splitlines()[0]}") from None
    defaults = present.model_dump()
    for _ in range(_ROUNDS):
        try:
            return Matrix.model_validate(data)
        except ValidationError as error:
            faults = error.errors()
            mended = [_mended(data, fault, defaults) for fault in faults]
            if not any(mended):
                place = ".".join(map(str, faults[0]["loc"]))
                raise FormerError(f"{place}: {faults[0]['msg']}") from None
    raise FormerError("it is of a form that has too little in common with the present one")


def _mended(data: Any, fault: Mapping[str, Any], defaults: Any) -> bool:
    """Put one fault of the data right; return whether that could be done."""
    *places, key = fault["loc"]
    parent = _at(data, places)
    if fault["type"] == "extra_forbidden" and isinstance(parent, dict):
        return parent.pop(key, None) is not None
    if fault["type"] == "missing" and places and isinstance(parent, dict):
        same = _at(defaults, places)
        if key not in _UNKNOWN and not (isinstance(same, dict) and key in same):
            return False
        parent[key] = _UNKNOWN[key] if key in _UNKNOWN else same[key]
        return True
    if places[:1] == ["accuracy"] and isinstance(fault["input"], (int, float)) and "model" in fault["type"]:
        parent[key] = {"limit": fault["input"], "source": _UNKNOWN["source"]}
        return True
    return False


def _at(node: Any, places: list[str | int]) -> Any:
    """Return the node at a place, from which the parts are left out that only the model has."""
    for key in places:
        with suppress(KeyError, IndexError, TypeError):
            node = node[key]
    return node
