"""Texts of values that are the same in every process."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def text_of(value: Any) -> str:
    """Return a constant as a text that is the same in every process."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(text_of, value))})"
    if hasattr(value, "cache_key"):
        return f"{value.__name__}:{value.cache_key[:12]}"
    return _ADDRESS.sub("", str(value))


def packed(content: bytes) -> str:
    """Return a program as a text that a reproducer can have in it."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def called_with(arguments: Mapping[str, Any]) -> str:
    """Return a text that is the same for calls with tensors of the same shapes and with the same numbers."""
    return json.dumps(dict(_described(arguments)))


def _described(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        tensor = value if hasattr(value, "data_ptr") and hasattr(value, "shape") else getattr(value, "base", None)
        if isinstance(value, tuple):
            yield from _described({f"{name}_{index}": item for index, item in enumerate(value)})
        elif tensor is not None and hasattr(tensor, "shape"):
            yield name, [str(tensor.dtype).removeprefix("torch."), *map(int, tensor.shape)]
        elif isinstance(value, bool | int | float):
            yield name, value
