"""A published function as a contender: what is timed, and apart from it what its outputs are in our layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import golden
import torch

from kernel_matrix.tools.bench.inside.protocol import AbsentError, Distance, Run


class Call(NamedTuple):
    """``run`` is timed; ``outputs`` makes of what it returns the outputs by our names."""

    run: Run
    outputs: Callable[[Any], golden.Outputs]


Maker = Callable[[Any, int], Call]  # of a subject and the number of a copy


class CallContender:
    """The calls of one published function, one for each copy of the inputs."""

    def __init__(self, subject: Any, make: Maker) -> None:
        self.subject, self.make = subject, make

    def distances(self) -> Mapping[str, Distance]:
        """Run once and compare."""
        call = self.make(self.subject, 0)
        return golden.distances(call.outputs(call.run()), self.subject.golden)

    def runs(self, copies: int) -> Sequence[Run]:
        """Return a run for each copy."""
        return [self.make(self.subject, place).run for place in range(copies)]


def contender(library: str, subject: Any, makers: Mapping[tuple[str, str], Maker]) -> CallContender:
    """Return the contender for a subject, of those that a library has by operator and direction.

    Raises:
        AbsentError: it has none, or not for such inputs.
    """
    make = makers.get((subject.op, subject.direction))
    if make is None:
        raise AbsentError(f"{library} has no {subject.op} {subject.direction}")
    if subject.device.type == "cpu":
        raise AbsentError(f"{library}'s kernels need a GPU")
    if subject.axes.get("gamma"):
        raise AbsentError(f"{library} is timed without gamma")
    if subject.axes["streams"] != 4:
        raise AbsentError(f"{library}'s kernels are for four streams")
    if subject.op != "sinkhorn" and subject.axes["dtype"] != "bf16":
        raise AbsentError(f"{library}'s kernels take bf16 alone")
    return CallContender(subject, make)


def switched(found: CallContender, switches: Sequence[Callable[[bool], Any]]) -> CallContender:
    """Return a contender whose runs have these switches of its library on; afterwards they are off."""

    def make(subject: Any, place: int) -> Call:
        call = found.make(subject, place)

        def run() -> Any:
            for switch in switches:
                switch(True)
            try:
                return call.run()
            finally:
                for switch in switches:
                    switch(False)

        return Call(run, call.outputs)

    return CallContender(found.subject, make)


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that shares the memory and gets a gradient."""
    return tensor.detach().requires_grad_()
