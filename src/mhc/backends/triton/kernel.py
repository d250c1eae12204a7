"""The kernels of Triton: device functions, launched on the inputs' device or compiled ahead for one that is absent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget

from mhc.backends import Artifact, stage
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.launch import Launch, Source, active_target, compile_sources, launch


class Kernel:
    """One operator in one direction: one launch or several.

    ``configure`` decides the tiles for a spec on a target, or in the interpreter where the target is None.
    ``launches`` and ``sources`` return the device functions with these tiles, in the order of their launches.
    ``function`` is any of the device functions.
    """

    def __init__(
        self,
        function: Any,
        configure: Callable[[Any, GPUTarget | None], Any],
        launches: Callable[[Any, Any, Any], Sequence[Launch]],
        sources: Callable[[Any, Any], Sequence[Source]],
    ) -> None:
        self._function = function
        self._configure = configure
        self._launches = launches
        self._sources = sources
        self._compiled = functools.cache(self._compile)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

        Raises:
            RuntimeError: the inputs are on a CPU and the interpreter is off.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        spec, device = inputs.spec, inputs[0].device
        with active_target(self._function, device, target) as active:
            with stage("lower"):
                tiles = self._configure(spec, active)
            launch(spec, device, *self._launches(inputs, out, tiles))

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` (``sm_90``, ``gfx942``) as :meth:`run` would there, with no device.

        Raises:
            ValueError: Triton compiles for no such target, or a launch needs more shared memory than it has.
        """
        return self._compiled(spec, target)

    def _compile(self, spec: Any, target: str) -> Artifact:
        with stage("lower"):
            sources = self._sources(spec, self._configure(spec, gpu_target(target)))
        return compile_sources(target, *sources)
