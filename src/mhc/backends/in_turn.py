"""``mhc_post_pre`` of a backend's kernels of ``mhc_post`` and of ``mhc_pre``, one after the other.

Backward, ``mhc_pre`` adds the gradient that the streams have from elsewhere, so no gradient of the streams is written
and read again but the sum.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import torch

from mhc.backends import Artifact, KeptCode, combined, load
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostOutputs, MhcPostSpec
from mhc.ops.mhc_post_pre import (
    MhcPostPreBackwardInputs,
    MhcPostPreGrads,
    MhcPostPreInputs,
    MhcPostPreOutputs,
    MhcPostPreSpec,
)
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreGrads, MhcPreSpec


class _InTurn(KeptCode):
    """The kernels of both operators in one direction, as one; they take tokens of any leading dimensions."""

    any_leading_dims = True
    direction: str

    def __init__(self, backend: str) -> None:
        self._backend = backend

    @functools.cached_property
    def _post(self) -> Any:
        return load(self._backend, "mhc_post", self.direction)

    @functools.cached_property
    def _pre(self) -> Any:
        return load(self._backend, "mhc_pre", self.direction)

    def supports(self, spec: MhcPostPreSpec, target: str | None, tokens: int | None = None) -> str | None:
        """Return why one of the kernels does not take the specialisation, or None where both do."""
        reason: str | None = self._post.supports(_post_spec(spec), target, tokens)
        return reason or self._pre.supports(_pre_spec(spec), target, tokens)

    def compile(self, spec: MhcPostPreSpec, target: str) -> Artifact:
        """Compile both."""
        return combined([self._post.compile(_post_spec(spec), target), self._pre.compile(_pre_spec(spec), target)])


class Forward(_InTurn):
    """The write, and the read of what was written."""

    direction = "forward"

    def run(self, inputs: MhcPostPreInputs, out: MhcPostPreOutputs, target: str | None = None) -> Any:
        """Run on the device of the inputs."""
        first = self._post.run(inputs.post, MhcPostOutputs(out.out), target)
        second = self._pre.run(inputs.pre(out.out), out.pre, target)
        given, made = _numbered(inputs, out)
        places = (given.post, (made.out,)), (given.pre(made.out), made.pre)
        return _Both.of((first, second), places)


class Backward(_InTurn):
    """The gradients of the read, and of the write for the sum of the streams' gradients."""

    direction = "backward"

    def run(self, inputs: MhcPostPreBackwardInputs, out: MhcPostPreGrads, target: str | None = None) -> Any:
        """Run on the device of the inputs."""
        if not inputs.needs_out:
            launches = self._pre.run(inputs.pre, MhcPreGrads(None, *out[4:]), target)
            given, made = _numbered(inputs, out)
            return _Both.of((launches,), ((given.pre, made[4:]),))
        between = torch.empty_like(inputs.x)
        adding = MhcPreAddingInputs.of(inputs.pre, inputs.grad_out)
        first = self._pre.run(adding, MhcPreGrads(between, *out[4:]), target)
        post = MhcPostBackwardInputs(*inputs[:4], between, tuple(inputs.needs[:4]))
        second = self._post.run(post, MhcPostGrads(*out[:4]), target)
        given, made = _numbered(inputs, out)
        behind = _Number(1 + max(each for each in (*given, *made) if type(each) is _Number))
        places = (given.pre, (behind, *made[4:]), (given.grad_out,)), (given[:4], (behind,), made[:4])
        room = functools.partial(torch.empty, inputs.x.shape, dtype=inputs.x.dtype, device=inputs.x.device)
        return _Both.of((first, second), places, room)


class _Number(int):
    """The number of a tensor among those of a call."""


class _Both(NamedTuple):
    """The launches of both kernels for other addresses; ``room`` makes the tensor between them where there is one."""

    parts: tuple[tuple[Any, tuple[int, ...]], ...]
    room: Callable[[], torch.Tensor] | None

    @classmethod
    def of(
        cls,
        launches: Sequence[Any],
        places: Iterable[Iterable[Iterable[Any]]],
        room: Callable[[], torch.Tensor] | None = None,
    ) -> _Both | None:
        """Return the launches, or None where a kernel returned none.

        ``places`` has for each of them the numbers of its tensors among those of the call.
        """
        if any(each is None for each in launches):
            return None
        numbers = [tuple(n for n in itertools.chain(*each) if type(n) is _Number) for each in places]
        return cls(tuple(zip(launches, numbers, strict=True)), room)

    def launch(self, addresses: list[int]) -> bool:
        """Launch with other addresses, and return whether both took them."""
        room = None if self.room is None else self.room()
        if room is not None:
            addresses = [*addresses, room.data_ptr()]
        return all(launches.launch([addresses[number] for number in numbers]) for launches, numbers in self.parts)


def _numbered(inputs: Any, out: Any) -> tuple[Any, Any]:
    """Return both with the number of each tensor in its place."""
    numbers = map(_Number, itertools.count())
    made = [[next(numbers) if isinstance(value, torch.Tensor) else value for value in each] for each in (inputs, out)]
    return type(inputs)(*made[0]), type(out)(*made[1])


def _post_spec(spec: MhcPostPreSpec) -> MhcPostSpec:
    return MhcPostSpec(spec.streams, spec.hidden, spec.dtype)


def _pre_spec(spec: MhcPostPreSpec) -> MhcPreSpec:
    return MhcPreSpec(*(getattr(spec, field.name) for field in fields(MhcPreSpec)))
