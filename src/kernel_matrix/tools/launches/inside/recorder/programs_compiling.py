"""Compile one recorded program of TileLang for one target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .ahead import nvcc
from .ahead.nvcc import UnavailableError
from .ahead.tilelang import compile_for, lowered
from .programs import Program, target_of
from .settings import Target


class Source:
    """The input of TileLang for a program and one target."""

    def __init__(self, program: Program, target: Target) -> None:
        """Take a program, and make TVM's target."""
        self.program, self.for_target = program, target
        self.target = target_of(target)

    @property
    def key(self) -> str:
        """Return a text that is the same where the same compilers are given the same."""
        import tilelang

        try:
            compiler = nvcc.identity_of(nvcc.compiler_of(self.for_target.backend))
        except UnavailableError:
            compiler = "no compiler"
        options = sorted((name, str(value)) for name, value in self.program.options.items())
        return f"tilelang {tilelang.__version__} {self.program.script} {options} {self.target} {compiler}"

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile. Without a hipcc the result for AMD is source, as TileLang wrote it."""
        place = self.for_target.backend, self.for_target.name
        kind, _, figures = compile_for(self.program.function, self.target, place, _options(self.program), report)
        return {"figures": figures, **({"artifact": kind} if kind.endswith("-source") else {})}


def source_text(program: Program, target: Target) -> str:
    """Return the source that TileLang generates for a target."""
    return str(lowered(program.function, target_of(target), *_options(program))[0].kernel_source)


def _options(program: Program) -> tuple[Mapping[str, Any], str | Sequence[str]]:
    """Return the configuration of passes and the flags."""
    return program.options["pass_configs"], program.options["compile_flags"] or []
