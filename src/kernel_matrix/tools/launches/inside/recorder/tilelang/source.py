"""Compile one recorded program of TileLang for one target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_matrix.job.ahead import nvcc, tilelang
from kernel_matrix.job.ahead.nvcc import UnavailableError

from ..settings import Target


class Source:
    """The input of TileLang for a function of TVM and one target; ``script`` is the function's text."""

    def __init__(self, function: Any, script: str, options: Mapping[str, Any], target: Target) -> None:
        self.function, self.script, self.options, self.target = function, script, options, target
        self.tvm_target = target_of(target)

    @property
    def key(self) -> str:
        """Return a text that is the same where the same compilers are given the same."""
        from tilelang import __version__

        try:
            compiler = nvcc.identity_of(nvcc.compiler_of(self.target.backend))
        except UnavailableError:
            compiler = "no compiler"
        options = sorted((name, str(value)) for name, value in self.options.items())
        return f"tilelang {__version__} {self.script} {options} {self.tvm_target} {compiler}"

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile. Without a hipcc the result for AMD is source, as TileLang wrote it."""
        named = self.target.backend, self.target.name
        kind, _, figures = tilelang.compile_for(self.function, self.tvm_target, named, self._passes, report)
        return {"figures": figures, **({"artifact": kind} if kind.endswith("-source") else {})}

    @property
    def text(self) -> str:
        """The source that TileLang generates for the target."""
        return str(tilelang.lowered(self.function, self.tvm_target, *self._passes)[0].kernel_source)

    @property
    def _passes(self) -> tuple[Mapping[str, Any], str | Sequence[str]]:
        """Return the configuration of passes and the flags."""
        return self.options["pass_configs"], self.options["compile_flags"] or []


def target_of(target: Target) -> Any:
    """Return a target as TileLang names the device."""
    return tilelang.target_of(target.backend, target.name, target.capability)
