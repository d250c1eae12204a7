"""The kernels of the backend: launches of machine code that CuTe DSL made, or that code alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mhc.backends import Artifact, KeptCode, NotSupportedError, stage, too_many_streams
from mhc.backends.cute.compiler import Program, artifact
from mhc.backends.cute.driver import Launch, run


class Kernel(KeptCode):
    """One operator in one direction.

    ``launches`` returns the launches of a call, in their order, and ``programs`` all kernels of a specialisation. Every
    product is in fp32: the specialisation's ``precision`` permits less, and changes nothing.
    """

    any_leading_dims = True  # only the number of tokens counts

    def __init__(
        self, launches: Callable[[Any, Any], Sequence[Launch]], programs: Callable[[Any], tuple[Program, ...]]
    ) -> None:
        self._launches = launches
        self._programs = programs

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel does not take the specialisation, or None: the number of streams is the only limit."""
        return too_many_streams(spec)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on the GPU of the inputs.

        Raises:
            NotSupportedError: there are too many streams.
            ValueError: the inputs are on no GPU of NVIDIA's, or ``target`` is another architecture than it.
        """
        self._admit(inputs.spec, target)
        run(self._launches(inputs, out), inputs[0].device, target)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90`` or another of NVIDIA's GPUs; no GPU is needed.

        Raises:
            NotSupportedError: there are too many streams.
            ValueError: the target is no GPU of NVIDIA's.
        """
        self._admit(spec, target)
        return artifact(self._programs(spec), target)

    def _admit(self, spec: Any, target: str | None) -> None:
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)


def cdiv(a: int, b: int) -> int:
    """Return the quotient rounded up."""
    return -(-a // b)
