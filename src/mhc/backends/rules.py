"""The rules of ``variants.toml``: read, checked with the line that each stands in, and held against inputs.

:mod:`mhc.backends.variants` says what the table looks like.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

DIRECTIONS = ("forward", "backward")
_KEYS = ("op", "direction", "target", "tokens", "variant")
_TYPES = {"int": int, "float": (int, float), "str": str, "bool": bool}


@dataclass(frozen=True)
class Rule:
    """One ``[[choice]]`` of the table: the variant that runs where everything else in it holds.

    ``tokens`` are the numbers of them; ``values`` has the values that a field of the specialisation may have;
    ``place`` is the file and the line.
    """

    place: str
    ops: tuple[str, ...]
    variant: str
    directions: tuple[str, ...] = DIRECTIONS
    target: tuple[str, ...] = ("*",)
    tokens: range | None = None
    values: tuple[tuple[str, tuple[Any, ...] | range], ...] = ()

    def holds(self, spec: Any, target: str | None, tokens: int | None) -> bool:
        """Return whether the rule is for this specialisation on this target; a range of tokens needs their number."""
        if not any(fnmatchcase(target or "", pattern) for pattern in self.target):
            return False
        if self.tokens is not None and tokens not in self.tokens:
            return False
        return all(getattr(spec, name) in values for name, values in self.values)


def rules_of(path: Path, specs: Mapping[str, type[Any]]) -> tuple[Rule, ...]:
    """Return the rules of a table, in their order; ``specs`` has the specialisation of each operator with variants.

    Raises:
        ValueError: the table is no TOML, or a rule in it is wrong; the text begins with the place.
    """
    text = path.read_text(encoding="utf-8")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    for key in document:
        if key != "choice":
            raise ValueError(f"{path}: there is no key {key!r}; there is choice")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*choice\s*\]\]", line)]
    choices = document.get("choice", [])
    if not isinstance(choices, list) or len(lines) != len(choices):
        raise ValueError(f"{path}: write each choice as a table of its own, under [[choice]]")
    return tuple(_Entry(f"{path}:{line}", entry, specs).rule() for line, entry in zip(lines, choices, strict=True))


class _Entry:
    """One entry of the table, and the checks of its keys."""

    def __init__(self, place: str, entry: Mapping[str, Any], specs: Mapping[str, type[Any]]) -> None:
        self._place = place
        self._entry = entry
        self._specs = specs

    def rule(self) -> Rule:
        for key in ("op", "variant"):
            if key not in self._entry:
                raise self._wrong(f"{key} is missing")
        ops = self._names("op", tuple(self._specs))
        variant = self._entry["variant"]
        if not isinstance(variant, str):
            raise self._wrong(f"variant is {variant!r}; it is a name")
        values = tuple((key, self._values(key, ops)) for key in self._entry if key not in _KEYS)
        directions = self._names("direction", DIRECTIONS) if "direction" in self._entry else DIRECTIONS
        targets = self._names("target", None) if "target" in self._entry else ("*",)
        tokens = self._range("tokens") if "tokens" in self._entry else None
        return Rule(self._place, ops, variant, directions, targets, tokens, values)

    def _names(self, key: str, known: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the name or names under ``key``; None means that any name is known."""
        names = _several(self._entry[key])
        for name in names:
            if not isinstance(name, str):
                raise self._wrong(f"{key} is {name!r}; it is a name, or a list of names")
            if known is not None and name not in known:
                raise self._wrong(f"there is no {key} {name!r}; there are {', '.join(known)}")
        return names

    def _range(self, key: str) -> range:
        given = self._entry[key]
        if not isinstance(given, dict) or not given or not set(given) <= {"least", "most"}:
            raise self._wrong(f"{key} is {given!r}; it is a table of least, most or both")
        if not all(type(number) is int for number in given.values()):
            raise self._wrong(f"{key} is {given!r}; least and most are integers")
        numbers = range(given.get("least", 0), given.get("most", sys.maxsize - 1) + 1)
        if not numbers:
            raise self._wrong(f"{key} is {given!r}: no number is in it")
        return numbers

    def _values(self, key: str, ops: tuple[str, ...]) -> tuple[Any, ...] | range:
        """Return the values under a key that is a field of the specialisation of each of ``ops``, in its type."""
        values: tuple[Any, ...] = _several(self._entry[key])
        for op in ops:
            types = {field.name: str(field.type) for field in fields(self._specs[op])}
            if key not in types:
                raise self._wrong(f"there is no key {key!r}; there are {', '.join((*_KEYS, *types))}")
            if types[key] == "int" and isinstance(self._entry[key], dict):
                continue
            values = tuple(self._value(key, value, types[key]) for value in values)
        return self._range(key) if isinstance(self._entry[key], dict) else values

    def _value(self, key: str, value: Any, type_: str) -> Any:
        if type_.endswith("dtype"):
            dtype = getattr(torch, value, None) if isinstance(value, str) else value
            if isinstance(dtype, torch.dtype):
                return dtype
        elif isinstance(value, _TYPES[type_]) and isinstance(value, bool) == (type_ == "bool"):
            return value
        raise self._wrong(f"{key} is {value!r}; it is of type {type_}")

    def _wrong(self, text: str) -> ValueError:
        return ValueError(f"{self._place}: {text}")


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
