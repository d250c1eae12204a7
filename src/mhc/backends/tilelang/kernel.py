"""The kernels of TileLang: programs over operands, compiled for one target and run, or compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mhc.backends import Artifact, NotSupportedError, too_many_streams, with_fp32_products
from mhc.backends.tilelang.program import Operands, Program, artifact, code_of, run_per_token, target_of


class Kernel:
    """A kernel of TileLang; it runs on every target, with up to ``MAX_STREAMS`` streams."""

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel cannot run ``spec`` on ``target``, or None where it can."""
        return too_many_streams(spec)

    def admitted(self, spec: Any, target: str | None) -> Any:
        """Return the specialisation to compile for ``spec``: all products are in fp32, as exact as ``tf32`` permits.

        Raises:
            NotSupportedError: the kernel cannot run ``spec`` on ``target``.
        """
        reason = self.supports(spec, target)
        if reason is not None:
            raise NotSupportedError(reason)
        return with_fp32_products(spec)


class TokenKernel(Kernel):
    """One program whose tokens do not depend on each other.

    ``operands`` returns the tensors of a call by the names, in the order and in the shapes of the program's
    parameters. ``written`` names the outputs among them, and ``shared`` the tensors that do not have the tokens as
    their first dimension. ``work`` is the work for one token of a spec, in multiplications; a CPU's threads get
    ``group`` tokens at a time.
    """

    def __init__(
        self,
        program: Program,
        operands: Callable[[Any, Any], Operands],
        written: tuple[str, ...],
        work: Callable[[Any], int],
        shared: tuple[str, ...] = (),
        group: int = 1,
    ) -> None:
        self._program = program
        self._operands = operands
        self._written = written
        self._work = work
        self._shared = shared
        self._group = group

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Compile for ``target``, or for the device of the inputs, and run.

        Raises:
            NotSupportedError: there are too many streams.
        """
        spec = self.admitted(inputs.spec, target)
        run_per_token(
            self._program,
            spec,
            target or target_of(inputs[0].device),
            self._operands(inputs, out),
            self._written,
            self._shared,
            self._work(spec),
            self._group,
        )

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds.

        An AMD target gives a code object where there is a hipcc, and source where there is none.

        Raises:
            NotSupportedError: there are too many streams.
        """
        return artifact((self._program,), self.admitted(spec, target), target)

    def code(self, spec: Any, target: str) -> Artifact | None:
        """Return the code that :meth:`run` has compiled for a GPU; on a CPU it has none of its own."""
        return code_of((self._program,), self.admitted(spec, target), target)
