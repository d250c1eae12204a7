"""Compile one launch for one target. This runs in a process of its own, which a compiler may bring down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_matrix.job.ahead.triton import compile_source

from ..settings import Target


class Source:
    """The input of the compiler for one launch and one target: the kernel with its types, and the options.

    Making it binds the launch as Triton does, and fails where a launch would fail before anything is compiled, such as
    with an unknown option.
    """

    def __init__(
        self, kernel: Any, bound: Mapping[str, Any], special: Sequence[Any], given: Mapping[str, Any], target: Target
    ) -> None:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import make_backend

        self.target = GPUTarget(target.backend, target.arch, target.warp)
        packed = kernel._pack_args(make_backend(self.target), dict(given), bound, special, None)
        self.options, *parts = packed
        self.ast = kernel.ASTSource(kernel, *parts)

    @property
    def key(self) -> str:
        """Return a text that is the same where the same compiler is given the same."""
        import triton

        options = sorted((name, str(value)) for name, value in self.options.__dict__.items())
        return f"{triton.__version__} {self.ast.hash()} {self.target} {options}"

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Compile and return the figures of the code. ``report`` is told of each form that the compiler begins."""
        _follow(self, report)
        return {"figures": compile_source(self.ast, self.target, self.options.__dict__)[1]}


def _follow(source: Source, report: Callable[[str], None]) -> None:
    """Make the compiler report the intermediate form that it is about to make."""
    from triton.compiler import make_backend

    kind = type(make_backend(source.target))
    add_stages = kind.add_stages

    def add_followed(self: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        add_stages(self, stages, *args, **kwargs)
        for form, make in list(stages.items()):
            stages[form] = _reporting(form, make, report)

    kind.add_stages = add_followed


def _reporting(form: str, make: Callable[..., Any], report: Callable[[str], None]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        report(form)
        return make(*args, **kwargs)

    return made
