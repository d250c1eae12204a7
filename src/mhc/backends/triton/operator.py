"""An operator of this backend: kernels, launched on the inputs' device or compiled ahead for one that is absent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget

from mhc.backends import Artifact, stage
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.launch import Launch, Source, active_target, compile_sources, launch


class Operator:
    """The two functions that a backend's module has.

    ``configure`` decides the tiles for a spec on a target, or in the interpreter where that is None; ``launches`` and
    ``sources`` are the kernels with these tiles, in the order of their launches. ``kernel`` is any of them.
    """

    def __init__(
        self,
        kernel: Any,
        configure: Callable[[Any, GPUTarget | None], Any],
        launches: Callable[[Any, Any, Any], Sequence[Launch]],
        sources: Callable[[Any, Any], Sequence[Source]],
    ) -> None:
        self._kernel = kernel
        self._configure = configure
        self._launches = launches
        self._sources = sources

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

        Raises:
            RuntimeError: the inputs are on a CPU and the interpreter is off.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        spec, device = inputs.spec, inputs[0].device
        with active_target(self._kernel, device, target) as active:
            with stage("lower"):
                tiles = self._configure(spec, active)
            launch(spec, device, *self._launches(inputs, out, tiles))

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` (``sm_90``, ``gfx942``) as :meth:`run` would there, with no device.

        Raises:
            ValueError: Triton compiles for no such target, or a kernel needs more shared memory than it has.
        """
        return _compiled(self, spec, target)

    def sources(self, spec: Any, target: str) -> Sequence[Source]:
        """What to compile for ``target``."""
        with stage("lower"):
            return self._sources(spec, self._configure(spec, gpu_target(target)))


@functools.cache
def _compiled(operator: Operator, spec: Any, target: str) -> Artifact:
    return compile_sources(target, *operator.sources(spec, target))
