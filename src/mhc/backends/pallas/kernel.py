"""The kernels of Pallas: functions of JAX, in a form for TPUs and a form for NVIDIA's GPUs.

The first runs on a TPU or in the interpreter of one, and libtpu compiles it ahead of time. The second runs on an NVIDIA
GPU, and is lowered to Triton's IR ahead of time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import torch
from jax.sharding import SingleDeviceSharding

from mhc.backends import Artifact, NotSupportedError, stage, too_many_streams
from mhc.backends.pallas import devices, nvidia
from mhc.backends.pallas.arrays import DTYPES, array_of

TOKENS = 256  # that a kernel is compiled for ahead of time: JAX compiles for one number of them

# What XLA leaves out where it compiles the interpreter's loop for a CPU: compiling takes longer than running.
_INTERPRETED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

# The tensors of a call by name: shape, and dtype of PyTorch, None for fp32.
Shapes = Mapping[str, tuple[tuple[int, ...], torch.dtype | None]]


class Kernel:
    """One operator in one direction: ``function`` takes arrays, and options by name. ``on_gpu`` is its form for NVIDIA.

    ``shapes`` describes the arrays for a specialisation and a number of tokens, in the order of the function's
    arguments; one is None where the specialisation has no such tensor. ``options`` names the fields of the
    specialisation that the functions take. ``limit`` returns why a specialisation does not fit a TPU, or None, and
    ``limit_of_gpu`` the same for a GPU.
    Every product is in fp32: the specialisation's ``precision`` permits less, and changes nothing.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: Callable[[Any, int], Mapping[str, Any]],
        options: tuple[str, ...] = (),
        limit: Callable[[Any], str | None] = lambda _: None,
        *,
        on_gpu: Callable[..., Any],
        limit_of_gpu: Callable[[Any], str | None] = lambda _: None,
    ) -> None:
        self._shapes = shapes
        self._options = options
        self._limit, self._limit_of_gpu = limit, limit_of_gpu
        self._on_gpu = jax.jit(on_gpu, static_argnames=options)
        self._function = jax.jit(function, static_argnames=(*options, "interpreted"))
        self._interpreted = jax.jit(function, static_argnames=(*options, "interpreted"), compiler_options=_INTERPRETED)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel does not take the specialisation, or None where it does."""
        return too_many_streams(spec) or (self._limit_of_gpu if nvidia.is_gpu(target) else self._limit)(spec)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on the GPU of the inputs, or on copies of them on a TPU or in its interpreter; results are copied.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
            NoDeviceError: ``target`` is a TPU that is not here, or JAX has no GPU.
            ValueError: the tensors are on no such device as ``target``.
        """
        place = inputs[0].device
        if place.type == "cuda":
            target = nvidia.checked_target(target, place)
        elif nvidia.is_gpu(target):
            raise ValueError(f"pallas: the inputs are on {place}; for {target} it takes tensors on a GPU of NVIDIA's")
        elif place.type != "cpu":
            raise ValueError(f"pallas: the inputs are on {place}; it takes tensors on the CPU or a GPU of NVIDIA's")
        self._admit(inputs.spec, target)
        tensors = [getattr(inputs, name) for name in self._shapes(inputs.spec, inputs[0].shape[0])]
        if nvidia.is_gpu(target):
            nvidia.run(functools.partial(self._on_gpu, **self._values(inputs.spec)), tensors, out)
            return
        device = devices.device(target)
        with stage("launch"), jax.default_device(device):
            given = [None if tensor is None else jax.device_put(array_of(tensor), device) for tensor in tensors]
            interpreted = device.platform == "cpu"
            function = self._interpreted if interpreted else self._function
            results = function(*given, **self._values(inputs.spec), interpreted=interpreted)
            results = jax.block_until_ready(results)
        for result, tensor in zip(results if isinstance(results, tuple) else (results,), out, strict=True):
            if tensor is not None:
                np.copyto(array_of(tensor), np.asarray(result))

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``v5e``, ``v5p``, ``v6e`` or ``tpu7x``, or lower for ``sm_90`` or another of NVIDIA's GPUs.

        Both are for ``TOKENS`` tokens; no TPU and no GPU needs to be here.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against the specialisation.
            ValueError: there is no such target.
        """
        self._admit(spec, target)
        if nvidia.is_gpu(target):
            described = [one and _struct(*one, None) for one in self._shapes(spec, TOKENS).values()]
            function = functools.partial(self._on_gpu, **self._values(spec))
            return Artifact("triton-ir-source", target, nvidia.lower(function, described))
        with stage("lower"):
            place = SingleDeviceSharding(devices.chip(target))
            given = [
                None if described is None else _struct(*described, place)
                for described in self._shapes(spec, TOKENS).values()
            ]
            lowered = self._function.trace(*given, **self._values(spec), interpreted=False).lower()
        with stage("compile"):
            compiled = lowered.compile()
            executable = compiled.runtime_executable()
            used = compiled.memory_analysis()
            resources = {"code_bytes": used.generated_code_size_in_bytes, "scratch_bytes": used.temp_size_in_bytes}
            return Artifact("tpu-executable", target, executable.serialize(), resources)

    def _values(self, spec: Any) -> dict[str, Any]:
        return {name: getattr(spec, name) for name in self._options}

    def _admit(self, spec: Any, target: str | None) -> None:
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)


@functools.cache
def _struct(shape: tuple[int, ...], dtype: torch.dtype | None, place: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, DTYPES[dtype or torch.float32], sharding=place)
