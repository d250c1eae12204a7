"""Kernels of a backend that run one after the other, as one; and ``mhc_post_pre`` of ``mhc_post`` and ``mhc_pre``.

Backward, ``mhc_pre`` adds the gradient that the streams have from elsewhere, so no gradient of the streams is written
and read again but the sum.
"""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, KeptCode, combined, load
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreBackwardInputs, MhcPostPreGrads, MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreGrads, MhcPreSpec
from mhc.ops.read import part_of

Part = tuple[Callable[[], Any], Callable[[Any], Any]]


def part(kernel: Any, spec: type[Any] | None = None) -> Part:
    """Return a kernel as a part; without ``spec`` it takes the specialisation of the whole."""
    return lambda: kernel, (lambda whole: whole) if spec is None else functools.partial(part_of, spec)


def loaded(backend: str, op: str, direction: str, spec: type[Any]) -> Part:
    """Return an operator of a backend as a part; it is loaded when the backend's table is whole."""
    return lambda: load(backend, op, direction), functools.partial(part_of, spec)


class InTurn(KeptCode):
    """Kernels that run one after the other, as one; they take tokens of any leading dimensions.

    ``parts`` are these, each as a function that returns it, with what makes its specialisation of the whole's.
    """

    any_leading_dims = True

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    @functools.cached_property
    def _kernels(self) -> list[Any]:
        return [kernel() for kernel, _ in self._parts]

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why one of the kernels does not take the specialisation, or None where all do."""
        each = zip(self._kernels, self._parts, strict=True)
        reasons: list[str | None] = [kernel.supports(of(spec), target, tokens) for kernel, (_, of) in each]
        return next(filter(None, reasons), None)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile all of them."""
        each = zip(self._kernels, self._parts, strict=True)
        return combined([kernel.compile(of(spec), target) for kernel, (_, of) in each])

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Run on the device of the inputs."""
        rooms = self._rooms(inputs)
        calls = self._calls(inputs, out, [room() for room in rooms])
        launches = [kernel.run(*call, target) for kernel, call in zip(self._kernels, calls, strict=False)]
        if any(each is None for each in launches):
            return None
        numbers = map(_Number, itertools.count())
        given, made = (
            type(each)(*[next(numbers) if isinstance(value, torch.Tensor) else value for value in each])
            for each in (inputs, out)
        )
        calls = self._calls(given, made, [next(numbers) for _ in rooms])
        places = [[*call[0], *call[1], *beside(call[0])] for call in calls]
        numbered = [tuple(each for each in place if type(each) is _Number) for place in places]
        return _All(tuple(zip(launches, numbered, strict=True)), rooms)

    def _rooms(self, inputs: Any) -> Sequence[Callable[[], torch.Tensor]]:
        """Return what makes each of the tensors between the kernels."""
        return ()

    @abstractmethod
    def _calls(self, inputs: Any, out: Any, rooms: Sequence[Any]) -> Sequence[tuple[Any, Any]]:
        """Return the inputs and outputs of each kernel; the last ones need not run. It looks into no tensor."""


def like(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Return what makes a tensor like this one; it does not keep this one."""
    return functools.partial(torch.empty, tensor.shape, dtype=tensor.dtype, device=tensor.device)


def beside(inputs: Any) -> tuple[Any, ...]:
    """Return what a kernel is handed beside the fields of its inputs, in the order in which it was set."""
    return tuple(getattr(inputs, "__dict__", {}).values())


class _Number(int):
    """The number of a tensor among those of a call."""


class _All(NamedTuple):
    """The launches of all kernels for other addresses, each with the numbers of its tensors among those of the call."""

    parts: tuple[tuple[Any, tuple[int, ...]], ...]
    rooms: Sequence[Callable[[], torch.Tensor]]

    def launch(self, addresses: list[int]) -> bool:
        """Launch with other addresses, and return whether all took them."""
        between = [room() for room in self.rooms]
        addresses = [*addresses, *[each.data_ptr() for each in between]]
        return all(launches.launch([addresses[number] for number in numbers]) for launches, numbers in self.parts)


class Forward(InTurn):
    """The write, and the read of what was written."""

    def __init__(self, backend: str) -> None:
        post = loaded(backend, "mhc_post", "forward", MhcPostSpec)
        super().__init__(post, loaded(backend, "mhc_pre", "forward", MhcPreSpec))

    def _calls(self, inputs: MhcPostPreInputs, out: MhcPostPreOutputs, rooms: Sequence[Any]) -> Any:
        return (inputs.post, MhcPostOutputs(out.out)), (inputs.pre(out.out), out.pre)


class Backward(InTurn):
    """The gradients of the read, and of the write for the sum of the streams' gradients."""

    def __init__(self, backend: str) -> None:
        pre = loaded(backend, "mhc_pre", "backward", MhcPreSpec)
        super().__init__(pre, loaded(backend, "mhc_post", "backward", MhcPostSpec))

    def _rooms(self, inputs: MhcPostPreBackwardInputs) -> Sequence[Callable[[], torch.Tensor]]:
        return (like(inputs.x),) if inputs.needs_out else ()

    def _calls(self, inputs: MhcPostPreBackwardInputs, out: MhcPostPreGrads, rooms: Sequence[Any]) -> Any:
        if not rooms:
            return [(inputs.pre, MhcPreGrads(None, *out[4:]))]
        [between] = rooms
        adding = MhcPreAddingInputs.of(inputs.pre, inputs.grad_out)
        post = MhcPostBackwardInputs(*inputs[:4], between, tuple(inputs.needs[:4]))
        return (adding, MhcPreGrads(between, *out[4:])), (post, MhcPostGrads(*out[:4]))
