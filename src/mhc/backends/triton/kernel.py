"""The kernels of Triton: device functions, launched on the inputs' device or compiled ahead for one that is absent."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends import Artifact, KeptCode, NotSupportedError, stage, too_many_streams, with_fp32_products
from mhc.backends.triton.ahead import described, gpu_target, target_name
from mhc.backends.triton.launch import Launch, Source, active_target, compile_sources, current
from mhc.backends.triton.prepared import Prepared
from mhc.toolchain import gfx

Limit = Callable[[Any, GPUTarget | None], str | None]


class _Plan(NamedTuple):
    """The decisions that are made once for a specialisation on a device.

    They are the tiles, the launches as compiled, and what gets the tensors out of all that a caller hands over.
    """

    tiles: Any
    prepared: Prepared
    tensors_of: Callable[[Any], Any]


class Kernel(KeptCode):
    """One operator in one direction: one launch or several.

    ``configure`` decides the tiles for a spec on a target, or in the interpreter where the target is None.
    ``launches`` and ``sources`` return the device functions with these tiles, in the order of their launches. Which
    device functions those are, and which of their arguments are None, may depend on the spec and on the gradients that
    are asked for, and on nothing else.
    ``function`` is any of the device functions. No device function depends on the ``precision`` of a spec: a kernel
    whose products are in TF32 has a ``limit`` against other precisions, and computes the same whenever it runs.
    ``adds_to_first`` is whether a backward adds a gradient of its first tensor that came from elsewhere.
    These three are attributes too: an operator that is made of two may use the attributes of either.
    ``limit`` returns why the kernel does not run a spec on a target, and None where it does. No kernel takes more than
    ``MAX_STREAMS`` streams.
    ``most_interpreted`` is the most tokens for which :meth:`supports` names the kernel in Triton's interpreter, where a
    launch of many small programs takes minutes.
    """

    any_leading_dims = True  # only the number of tokens counts

    def __init__(
        self,
        function: Any,
        configure: Callable[[Any, GPUTarget | None], Any],
        launches: Callable[[Any, Any, Any], Sequence[Launch]],
        sources: Callable[[Any, Any], Sequence[Source]],
        limit: Limit | None = None,
        adds_to_first: bool = False,
        most_interpreted: int | None = None,
    ) -> None:
        self.adds_to_first = adds_to_first
        self.most_interpreted = most_interpreted
        self._function = function
        self.configure = configure
        self.launches = launches
        self.sources = sources
        self.limit = limit
        self._compiled = functools.cache(self._compile)
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why this kernel does not run ``spec`` on ``target`` (None: the interpreter), or None where it does."""
        gpu = None if target is None else described(target)
        if target is not None and gpu is None:
            return f"{target} is no GPU"
        most = self.most_interpreted
        if target is None and most is not None and tokens is not None and tokens > most:
            return f"the interpreter takes long for more than {most} tokens of it"
        return self._reason(spec, gpu)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

        The machine code for an AMD GPU that ``target`` names is emulated where the inputs are on a CPU.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
            RuntimeError: the inputs are on a CPU and the interpreter is off.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        device = inputs[0].device
        if device.type == "cuda" and torch.cuda.current_device() != device.index:
            with current(device):
                return self._run(inputs, out, device, target)
        if device.type == "cpu" and target is not None and gfx.emulates(target):
            with gfx.driver_of_triton(target):
                return self._run(inputs, out, device, target)
        return self._run(inputs, out, device, target)

    def _run(self, inputs: Any, out: Any, device: torch.device, target: str | None) -> Any:
        key = _key(inputs, device, target)
        # What is overwritten is an output too.
        values = (*inputs, *out, inputs.added) if key[-1] is False else (*inputs, *out)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(inputs.spec, device, target, values)
        launches = functools.partial(self.launches, inputs, out, plan.tiles)
        # The call takes the addresses of the inputs and outputs, and of a gradient that is added and not overwritten.
        return plan.prepared.launch(launches, plan.tensors_of(values), device)

    def _plan(self, spec: Any, device: torch.device, target: str | None, values: tuple[Any, ...]) -> _Plan:
        active = active_target(self._function, device, target)
        self._refuse(spec, active)
        with stage("lower"):
            # On AMD a binary also depends on how many bytes lie behind each pointer.
            prepared = Prepared(bare=active is not None and active.backend == "cuda")
            return _Plan(self.configure(spec, active), prepared, _tensors_of(values))

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` (``sm_90``, ``gfx942``) as :meth:`run` would there, with no device.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against the spec on this target.
            ValueError: Triton compiles for no such target, or a launch needs more shared memory than it has.
        """
        with stage("lower"):
            self._refuse(spec, gpu_target(target))
        return self._compiled(with_fp32_products(spec), target)

    def _compile(self, spec: Any, target: str) -> Artifact:
        with stage("lower"):
            sources = self.sources(spec, self.configure(spec, gpu_target(target)))
        return compile_sources(target, *sources)

    def _reason(self, spec: Any, target: GPUTarget | None) -> str | None:
        reason = too_many_streams(spec)
        return reason if reason is not None or self.limit is None else self.limit(spec, target)

    def _refuse(self, spec: Any, target: GPUTarget | None) -> None:
        reason = self._reason(spec, target)
        if reason is not None:
            raise NotSupportedError(f"triton: {reason}")


def in_turn(parts: Sequence[tuple[Kernel, Callable[[Any], Any]]], launches: Callable[..., Sequence[Launch]]) -> Kernel:
    """Return one kernel of the launches of several; each comes with what makes its specialisation of the whole's.

    ``launches`` returns the launches of a call. Behind the inputs and outputs it gets, of each part, what returns the
    launches of that part for inputs and outputs of its own.
    """

    def configure(spec: Any, target: GPUTarget | None) -> list[Any]:
        return [kernel.configure(of(spec), target) for kernel, of in parts]

    def made(inputs: Any, out: Any, tiles: list[Any]) -> Sequence[Launch]:
        each = zip(parts, tiles, strict=True)
        return launches(inputs, out, *[functools.partial(_launched, kernel, own) for (kernel, _), own in each])

    def sources(spec: Any, tiles: list[Any]) -> list[Source]:
        each = zip(parts, tiles, strict=True)
        return [source for (kernel, of), own in each for source in kernel.sources(of(spec), own)]

    def limit(spec: Any, target: GPUTarget | None) -> str | None:
        return next((reason for kernel, of in parts if (reason := kernel._reason(of(spec), target))), None)

    [(first, _), *_] = parts
    most = min((kernel.most_interpreted for kernel, _ in parts if kernel.most_interpreted is not None), default=None)
    return Kernel(first._function, configure, made, sources, limit, most_interpreted=most)


def itself(spec: Any) -> Any:
    """Return the specialisation of the whole: for a part that needs all of it."""
    return spec


def _launched(kernel: Kernel, tiles: Any, inputs: Any, out: Any) -> Sequence[Launch]:
    return kernel.launches(inputs, out, tiles)


def _key(inputs: Any, device: torch.device, target: str | None) -> tuple[Any, ...]:
    """Return what the device functions depend on, and which tensors there are."""
    needs = tuple(getattr(inputs, "needs", ()))  # PyTorch's dispatcher hands a list over
    return inputs.spec, device.index, needs, target, getattr(inputs, "overwritten", None)


def _tensors_of(values: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return what gets the tensors out of values like these, two of them at least."""
    return operator.itemgetter(*(index for index, value in enumerate(values) if isinstance(value, torch.Tensor)))


def device_target(device: torch.device) -> str | None:
    """Return the name of the target that a GPU is, and None for a CPU, where only the interpreter runs."""
    if device.type != "cuda":
        return None
    with current(device):
        return target_name(triton.runtime.driver.active.get_current_target())
