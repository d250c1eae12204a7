"""The kernels of the backend: launches of a source's kernels, compiled for one target."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mhc.backends import Artifact, KeptCode, NotSupportedError, stage, too_many_streams
from mhc.backends import Kernel as AnyKernel
from mhc.backends.cpp.compilers import artifact
from mhc.backends.cpp.devices import I32, Launch, addresses_of, are_aligned, issue
from mhc.backends.cpp.hopper import refusal
from mhc.backends.cpp.source import Source
from mhc.backends.in_turn import beside


class Kernel(KeptCode):
    """One operator in one direction.

    ``launches`` returns the launches of a call, in their order, and ``kernels`` names all that there may be.
    ``constants`` returns further constants of the source for a specialisation. Every
    product is in fp32: the specialisation's ``precision`` permits less, and changes nothing.
    """

    any_leading_dims = True  # only the number of tokens counts

    def __init__(
        self,
        operator: str,
        kernels: tuple[str, ...],
        launches: Callable[[Any, Any], Sequence[Launch]],
        constants: Callable[[Any], tuple[tuple[str, int], ...]] = lambda _: (),
    ) -> None:
        self._constants = constants
        self._operator = operator
        self._kernels = kernels
        self._launches = launches
        self._source = functools.cache(self._made_source)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel does not take the specialisation, or None: the number of streams is the only limit."""
        return too_many_streams(spec)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Run on the device of the inputs: a GPU, or this CPU with fibers for threads.

        Raises:
            NotSupportedError: there are too many streams.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        source = functools.partial(self._source, inputs.spec, target)
        addresses = addresses_of((*inputs, *out, *beside(inputs)))
        return issue(lambda: (source(), self._launches(inputs, out)), inputs[0].device, addresses, target)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds.

        An AMD target gives a code object where there is hipcc, or clang with its linker, and else source.

        Raises:
            NotSupportedError: there are too many streams.
        """
        return artifact(self._source(spec, target), target, self._kernels)

    def _made_source(self, spec: Any, target: str | None) -> Source:
        refuse(self.supports(spec, target))
        dtype = getattr(spec, "dtype", torch.float32)
        return Source(self._operator, spec.streams, dtype, constants=self._constants(spec))


class ForHopper(KeptCode):
    """A variant for NVIDIA's sm_90, for aligned tensors: all others get the launches of ``otherwise``."""

    any_leading_dims = True

    def __init__(self, otherwise: AnyKernel) -> None:
        self._otherwise = otherwise

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the variant does not run the specialisation on ``target``, or None where it does."""
        return refusal(spec, target) or self._refusal(spec)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Run on the GPU that holds the inputs.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
            ValueError: ``target`` is another architecture than the inputs' device.
        """
        addresses = self._addresses(inputs, out)
        if are_aligned(addresses):
            return self._issued(inputs, out, addresses, target)
        return self._otherwise.run(inputs, out, target)

    @abstractmethod
    def _refusal(self, spec: Any) -> str | None:
        """Return why the variant does not take the hidden size, or None where it does."""

    @abstractmethod
    def _made(self, inputs: Any, out: Any, *room: torch.Tensor) -> tuple[Source, Sequence[Launch]]:
        """Return the source of a call, and its launches; ``room`` is what they need between them."""

    def _addresses(self, inputs: Any, out: Any) -> list[int]:
        return addresses_of((*inputs, *out))

    def _issued(self, inputs: Any, out: Any, addresses: list[int], target: str | None) -> Any:
        return issue(lambda: self._made(inputs, out), inputs[0].device, addresses, target)


def refuse(reason: str | None) -> None:
    """Raise if there is a reason why a kernel does not take a specialisation.

    Raises:
        NotSupportedError: there is one.
    """
    if reason:
        with stage("lower"):
            raise NotSupportedError(reason)


def cdiv(a: int, b: int) -> int:
    """Return the quotient rounded up."""
    return -(-a // b)


def whole(hidden: int, *tensors: torch.Tensor | None) -> Any:
    """Return whether rows of ``hidden`` elements of these tensors may be read four elements at a time, as a number."""
    return I32(hidden % 4 == 0 and are_aligned(addresses_of(tensors)))
