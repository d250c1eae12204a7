"""Recomputation: what the operators keep for the backward is thrown away and computed again (arXiv 2512.24880, 4.3.2).

::

    with mhc.recomputation():
        for layer in block:  # HyperConnections
            x = layer(x)

Of such a block only the streams that enter it and the output of each wrapped layer are kept. In the backward the
kernels compute the streams, the layers' inputs and the coefficients again, from the block's input on; the wrapped
layers do not run again. Gradients are equal to the bit, as the same kernels compute the same numbers. A block of L
layers saves L - 1 times the streams and L times a layer's input. When its backward begins it computes the streams of
the whole block, and gives the streams of a layer back when that layer's backward is done. So a network is best cut into
blocks of some layers each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import torch
from torch.autograd.graph import saved_tensors_hooks

_current: ContextVar[Block | None] = ContextVar("mhc_recomputation", default=None)


class Connection(Protocol):
    """A HyperConnection as a block uses it: its layer, its parameters, and the operators before and after it."""

    layer: Any

    def named_parameters(self, *, recurse: bool) -> Iterator[tuple[str, torch.nn.Parameter]]: ...
    def read(self, x: torch.Tensor) -> Any: ...
    def read_with_x(self, x: torch.Tensor) -> tuple[torch.Tensor, Any]: ...
    def write(self, x: Any, y: Any, h_post: torch.Tensor, h_res: torch.Tensor) -> torch.Tensor: ...


@contextmanager
def recomputation() -> Iterator[None]:
    """Throw away what the operators of all HyperConnections in this block keep, and compute it again in the backward.

    The block's input, the layers' outputs and the parameters must not be changed before the backward; it raises if they
    were. A compiled HyperConnection keeps what its graph keeps.
    """
    block = Block()
    token = _current.set(block)
    try:
        with saved_tensors_hooks(block.pack, _unpack):
            yield
    finally:
        _current.reset(token)


def current() -> Block | None:
    """Return the block that runs, or None."""
    return _current.get()


class Block:
    """The forward of one block: it tells which tensors, kept for the backward, can be computed again."""

    def __init__(self) -> None:
        self._step: Step | None = None  # the last
        self._reading = False
        # The live tensors that a step can compute again, by the address of their memory. They are held here: another
        # tensor may get the memory of one that is freed.
        self._known: dict[int, tuple[torch.Tensor, int, Step, str]] = {}

    def run(self, module: Connection, x: torch.Tensor, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Run a HyperConnection as a step of the block."""
        step = self._step = Step(module, x, self._previous(x))
        self._known = {}
        self._know(step, "x", x)
        self._reading = True
        try:
            x, (h_in, h_post, h_res) = module.read_with_x(x)
        finally:
            self._reading = False
        for name, tensor in (("h_in", h_in), ("h_post", h_post), ("h_res", h_res)):
            self._know(step, name, tensor)
        token = _current.set(None)  # a HyperConnection inside of the layer is the layer's own
        try:
            y = module.layer(h_in, *arguments, **options).to(x.dtype)
        finally:
            _current.reset(token)
        step.keep(y)
        out = module.write(x, y, h_post, h_res)
        self._known = {}
        self._know(step, "out", out)
        return out

    def pack(self, tensor: torch.Tensor) -> Any:
        """Return a tensor that is kept for the backward, or a note of how it is computed again."""
        step = self._step
        if self._reading and step is not None:
            index = step.count
            step.count += 1
        entry = self._known.get(_address(tensor))
        if entry is not None and entry[3] != "out" and (tensor._version, tensor.dtype) == (entry[1], entry[0].dtype):
            entry[2].asked.add(entry[3])
            return Note(entry[2], entry[3], tensor.size(), tensor.stride(), tensor.storage_offset())
        if self._reading and step is not None and not isinstance(tensor, torch.nn.Parameter):
            step.left.add(index)
            return Note(step, index)
        return tensor

    def _know(self, step: Step, name: str, tensor: torch.Tensor) -> None:
        if type(tensor) is torch.Tensor:
            self._known[_address(tensor)] = tensor, tensor._version, step, name

    def _previous(self, x: torch.Tensor) -> Step | None:
        """Return the step that gave x as it is now, or None where x came from elsewhere."""
        entry = self._known.get(_address(x))
        if entry is None or entry[3] != "out":
            return None
        out, version, step, _ = entry
        same = x.shape == out.shape and x.stride() == out.stride() and x.storage_offset() == out.storage_offset()
        return step if same and x._version == version and x.dtype == out.dtype else None


class Note(NamedTuple):
    """A tensor of a step: by its name and place in memory, or the ``name``-th that the operators kept themselves."""

    step: Step
    name: str | int
    size: torch.Size | None = None
    stride: tuple[int, ...] = ()
    offset: int = 0


class Step:
    """One HyperConnection of a block: what it needs to compute its tensors again, and, in the backward, the tensors."""

    def __init__(self, module: Connection, x: torch.Tensor, previous: Step | None) -> None:
        self._module, self._previous = module, previous
        self._requires_grad = x.requires_grad
        self._x = None if previous else x.detach()
        self._y: torch.Tensor | None = None
        self._versions = [
            (name, value, value._version)
            for name, value in [
                *module.named_parameters(recurse=False),
                *([] if previous else [("the input", x.detach())]),
            ]
        ]
        self._tensors: dict[str | int, torch.Tensor] = {}
        self._given: set[int] = set()
        self.count = 0  # of the tensors that the operators kept themselves
        self.left: set[int] = set()  # the ones that nobody else has
        self.asked = {"x", "h_post", "h_res"}  # the names of those that somebody keeps, or that give the next streams

    def keep(self, y: torch.Tensor) -> None:
        """Keep the layer's output."""
        self._y = y.detach()
        self._versions.append(("the layer's output", self._y, self._y._version))

    def tensor(self, name: str | int) -> torch.Tensor:
        """Return a tensor of this step.

        The gradient of the read is the last to come. When it has its tensors the step gives all of them back.
        """
        tensor = self._computed()[name]
        if isinstance(name, int):
            self._given.add(name)
            if self._given == self.left:
                self._given, self._tensors = set(), {}
        return tensor

    def _computed(self) -> Mapping[str | int, torch.Tensor]:
        """Return the tensors of this step; first compute the earlier steps' tensors, which its input needs."""
        missing: list[Step] = []
        step: Step | None = self
        while step is not None and not step._tensors:
            missing.append(step)
            step = step._previous
        for step in reversed(missing):
            step._compute()
        return self._tensors

    def _compute(self) -> None:
        for name, tensor, version in self._versions:
            if tensor._version != version:
                raise RuntimeError(f"mhc.recomputation: {name} was changed in place between forward and backward")
        x = (self._previous._out() if self._previous else self._x).detach().requires_grad_(self._requires_grad)
        kept: list[torch.Tensor] = []
        with torch.enable_grad(), saved_tensors_hooks(_collector(kept), _refuse):
            outputs = self._module.read(x)
        if len(kept) != self.count:
            raise RuntimeError(
                f"mhc.recomputation: the operators kept {self.count} tensors in the forward and {len(kept)} when they "
                "ran again; what requires gradients was changed in between"
            )
        self._tensors = dict(enumerate(kept))
        named = {"x": x, **outputs._asdict()}
        self._tensors.update({name: named[name].detach() for name in self.asked})

    def _out(self) -> torch.Tensor:
        x, h_post, h_res = (self._tensors[name] for name in ("x", "h_post", "h_res"))
        with torch.no_grad():
            return self._module.write(x, self._y, h_post, h_res)


def _unpack(packed: Any) -> torch.Tensor:
    """Return the tensor itself, or what is computed again in its place."""
    if not isinstance(packed, Note):
        return packed
    tensor = packed.step.tensor(packed.name)
    if packed.size is None:
        return tensor
    return tensor.as_strided(packed.size, packed.stride, packed.offset)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0


def _collector(kept: list[torch.Tensor]) -> Callable[[torch.Tensor], None]:
    def collect(tensor: torch.Tensor) -> None:
        kept.append(tensor.detach())

    return collect


def _refuse(_: None) -> torch.Tensor:
    raise AssertionError("the graph of a recomputation has no backward")
