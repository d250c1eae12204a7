"""One program that TileLang was to compile: its function, its pass configuration, and how it is called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..settings import Target
from ..texts import packed
from ..unit import Unit
from .source import Source


@dataclass(kw_only=True)
class Program(Unit):
    """One program that was compiled: a function of TVM with its types, and the options of TileLang's compiler.

    ``constants`` are the arguments of the Python function that made it.
    """

    function: Any
    module: str
    name: str
    script: str
    constants: Mapping[str, str]
    options: Mapping[str, Any]

    @property
    def group(self) -> object:
        """Return the part that is the same for all programs that one function makes."""
        return self.module, self.name

    def source(self, target: Target) -> Source:
        """Return what the program gives to the compiler for a target."""
        return Source(self.function, self.script, self.options, target)

    def described(self) -> dict[str, Any]:
        """Return the function, its types, constants and options."""
        types = {}
        for parameter in self.function.params:
            buffer = self.function.buffer_map.get(parameter)
            types[str(parameter)] = str(parameter.dtype) if buffer is None else f"*{buffer.dtype}"
        return {
            "toolchain": "tilelang",
            "module": self.module,
            "kernel": self.name,
            "source": hashlib.sha256(self.script.encode()).hexdigest()[:16],
            "types": types,
            "special": {},
            "constants": dict(self.constants),
            "options": {name: json.dumps(value, default=str) for name, value in self.options.items() if value},
            "program": _packed(self.function),
        }


def _packed(function: Any) -> str:
    """Return the program as TVM writes it as JSON, packed. TVM cannot read every script that it prints."""
    import tvm

    return packed(tvm.ir.save_json(function).encode())
