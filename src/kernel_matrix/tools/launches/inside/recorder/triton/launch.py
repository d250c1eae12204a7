"""One launch of a Triton kernel: what is compiled, for which arguments, with which options."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton.language import dtype
from triton.runtime.jit import JITFunction

from ..settings import Target
from ..texts import packed, text_of
from ..unit import Unit
from .source import Source

_MOST_BYTES = 1 << 16  # of a generated module


@dataclass(kw_only=True)
class Launch(Unit):
    """One distinct launch: a kernel with types and alignments, constants and options.

    ``bound`` are the arguments by name, without tensors. ``special`` is what Triton specialises on, in their order.
    ``given`` are the arguments by keyword, options of the compiler among them.
    """

    kernel: Any
    bound: Mapping[str, Any]
    special: Sequence[Any]
    given: Mapping[str, Any]

    @property
    def group(self) -> object:
        """Return the part that is the same for all launches of a kernel."""
        return id(self.kernel)

    def source(self, target: Target) -> Source:
        """Return what the launch gives to the compiler for a target."""
        return Source(self.kernel, self.bound, self.special, self.given, target)

    def described(self) -> dict[str, Any]:
        """Return the kernel, its types, constants and options."""
        kernel = self.kernel
        return {
            "toolchain": "triton",
            "module": kernel.fn.__module__,
            "kernel": kernel.fn.__name__,
            "source": source_of(kernel)[:16],
            "types": self.types,
            "special": {name: str(kind[1]) for name, kind in zip(self.bound, self.special, strict=False) if kind[1]},
            "constants": self.constants,
            "options": {name: str(value) for name, value in self.options.items()},
            "names": [param.name for param in kernel.params],
            "literals": self.literals,
            "importable": self.importable,
            "program": "" if self.importable else self.generated,
        }

    @property
    def options(self) -> dict[str, Any]:
        """The options that the launch gives to the compiler."""
        return {name: value for name, value in self.given.items() if name not in self.kernel.arg_names}

    @property
    def types(self) -> dict[str, str]:
        """The types of the arguments that are no constants."""
        names = [param.name for param in self.kernel.params]
        return {
            name: str(special[0])
            for name, special in zip(names, self.special, strict=False)
            if special[0] != "constexpr"
        }

    @property
    def constants(self) -> dict[str, str]:
        """The constants as texts."""
        names = [param.name for param in self.kernel.params]
        return {
            name: text_of(self.bound[name])
            for name, special in zip(names, self.special, strict=False)
            if special[0] == "constexpr"
        }

    @property
    def literals(self) -> dict[str, str]:
        """The constants as Python writes them, without those that it cannot write."""
        return {name: text for name in self.constants if (text := literal_of(self.bound[name]))}

    @property
    def importable(self) -> bool:
        """Return whether the kernel is in its module under its name."""
        named: Any = vars(sys.modules.get(self.kernel.fn.__module__, sys)).get(self.kernel.fn.__name__)
        while hasattr(named, "fn") and not isinstance(named, JITFunction):
            named = named.fn
        return named is self.kernel and self.kernel.fn.__module__ != "__main__"

    @property
    def generated(self) -> str:
        """Return the source of a module that a package has written and loaded, packed; empty for the user's program."""
        function = self.kernel.fn
        if function.__module__ == "__main__" or function.__qualname__ != function.__name__:
            return ""
        try:
            content = Path(function.__code__.co_filename).read_bytes()
        except OSError:
            return ""
        return packed(content) if len(content) <= _MOST_BYTES else ""


def source_of(kernel: Any) -> str:
    """Return the digest of a kernel's source and of all that it calls, or of its own source where Triton refuses it."""
    try:
        return str(kernel.cache_key)
    except Exception:  # the compiler will say what is wrong with it
        return hashlib.sha256(kernel.src.encode()).hexdigest()


def literal_of(value: Any) -> str:
    """Return a constant as Python writes it; empty if it cannot be written."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, dtype):
        return f"tl.dtype({value.name!r})"
    return ""
