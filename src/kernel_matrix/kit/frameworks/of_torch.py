"""PyTorch, on a CPU and on a GPU of any vendor."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_matrix.job.arrays import NARROW
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.frameworks import of_numpy, torch_calls
from kernel_matrix.kit.frameworks.base import Call, NoScratch, Scratch, State
from kernel_matrix.kit.frameworks.torch_compiler import Compiling
from kernel_matrix.kit.frameworks.torch_state import MODULES, STATE
from kernel_matrix.kit.layouts import Bytes, Place, laid, opened, place_of

# The dtypes that NumPy has from elsewhere, each with a dtype of PyTorch and one of the same size that both have.
_NARROW = {
    name: (getattr(torch, name), *((np.uint16, torch.uint16) if name == "bfloat16" else (np.uint8, torch.uint8)))
    for name in NARROW
}
_FILL = {"nan": 0xFFFFFFFF, "small": 0x00010001, "usual": 0x3F003F00}
_LATE = 20_000_000  # cycles of a GPU before its arrays have their values
_SECRET = 1  # of the guards of scratch, which are looked at here
_CACHED = 256 << 20  # bytes of a GPU's free memory that are poisoned before a run

_blocks: list[TorchScratch] = []
_one_call = threading.Lock()  # of a module: the arrays of a call are put into it


class TorchScratch(TorchDispatchMode):  # type: ignore[misc]  # PyTorch need not be there
    """Poison and guard what is allocated through PyTorch."""

    def __init__(self, kind: str, device: str) -> None:
        """Fill with NaN, or with usual or subnormal numbers, what a kernel of this device allocates."""
        super().__init__()
        self.device = device
        self._word = np.uint32(_FILL[kind])
        self._made: list[tuple[str, Place, Any]] = []
        self._storages: list[Any] = []  # of all results, by weak references: most are gone when the block ends

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled here, and to keep PyTorch's compiler out means to import it."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: a kernel that PyTorch's compiler makes is the same here as elsewhere."""
        return True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Put guards around what is allocated, and call every other operator as it is."""
        result = function(*args, **(kwargs or {}))
        self._storages += [StorageWeakRef(one.untyped_storage()) for one in _tensors(result)]
        name = function._schema.name.removeprefix("aten::")
        if name not in torch_calls.ALLOCATIONS or not isinstance(result, torch.Tensor) or not _is_dense(result):
            return result
        size = result.numel() * result.element_size()
        place = place_of((size,), np.dtype(np.uint8))
        values = np.frombuffer((self._word.tobytes() * (size // 4 + 1))[:size], np.uint8)
        whole = torch.from_numpy(laid(place, values, _SECRET)).to(result.device)
        self._made.append((f"{name} {tuple(result.shape)}", place, whole))
        flat = whole[place.guard : place.guard + size].view(result.dtype)
        return flat.as_strided(result.shape, result.stride(), flat.storage_offset())

    def overran(self) -> list[str]:
        """Return the allocations past whose ends something was written."""
        if self.device != "cpu":
            torch.accelerator.synchronize()
        return [name for name, place, whole in self._made if not opened(whole.cpu().numpy(), place, _SECRET).guards]

    def kept(self) -> int:
        """Return the bytes of this block, and of those since one with NaN, that someone else than these still holds.

        What the blocks made is given back first. Of a GPU they are what PyTorch has allocated there by now.
        """
        if self.device != "cpu":
            for block in _blocks:
                block._made.clear()
            return int(getattr(torch, self.device).memory_allocated())
        for block in _blocks:
            block._storages += [StorageWeakRef(whole.untyped_storage()) for _, _, whole in block._made]
            block._made.clear()
        held = {weak.cdata: weak for block in _blocks for weak in block._storages if not weak.expired()}
        return sum(_bytes_of(weak) for weak in held.values())


def _tensors(result: Any) -> list[Any]:
    """Return the tensors with memory among what an operator gives."""
    several = result if isinstance(result, (tuple, list)) else [result]
    return [one for one in several if type(one) is torch.Tensor and one.layout == torch.strided]


def _bytes_of(weak: Any) -> int:
    """Return the size of memory that somebody holds."""
    storage = torch.UntypedStorage._new_with_weak_ptr(weak.cdata)
    return int(storage.nbytes()) if storage is not None else 0


def _is_dense(tensor: Any) -> bool:
    if tensor.numel() == 0 or tensor.layout != torch.strided:
        return False
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


class Torch(Compiling):
    """Tensors of PyTorch."""

    name = "torch"
    title = "PyTorch"
    settings = ("the module",)
    modes = ("gradients recorded", "no_grad", "inference_mode")

    def memory(self, whole: Bytes, device: str) -> Any:
        """Return guarded memory on a device."""
        return torch.from_numpy(whole).to(device)

    def refill(self, memory: Any, whole: Bytes) -> None:
        """Put other bytes into guarded memory."""
        memory.copy_(torch.from_numpy(whole))

    def view(self, memory: Any, place: Place) -> Any:
        """Return the tensor that lies in guarded memory."""
        kind = _kind(place.dtype)
        inside = memory[place.guard : place.guard + place.room // place.dtype.itemsize * place.dtype.itemsize]
        strides = [stride // place.dtype.itemsize for stride in place.strides]
        flat = inside.view(kind)
        return flat.as_strided(place.shape, strides, flat.storage_offset() + place.first // place.dtype.itemsize)

    def bytes_of(self, memory: Any) -> Bytes:
        """Return the bytes of guarded memory; of a CPU's no copy."""
        return np.asarray(memory.cpu().numpy())

    def given(self, values: Array, device: str) -> Any:
        """Return values as a tensor."""
        return _tensor(np.asarray(values, order="C")).to(device)  # ascontiguousarray gives a scalar a dimension

    def taken(self, value: Any) -> Array:
        """Return a tensor as an array, bit for bit."""
        if not isinstance(value, torch.Tensor):
            return super().taken(value)
        tensor = value.detach().cpu().contiguous()
        for name, (kind, _, same) in _NARROW.items():
            if tensor.dtype == kind:
                return np.array(tensor.view(same).numpy().view(getattr(ml_dtypes, name)))
        return np.array(tensor.numpy())

    def extent(self, value: Any) -> tuple[int, int]:
        """Return where the memory of a tensor begins and ends."""
        if not isinstance(value, torch.Tensor):
            return 0, 0
        storage = value.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def overlaps(self, value: Any) -> bool:
        """Return whether elements of a tensor lie in one place."""
        steps = zip(value.stride(), value.shape, strict=True)
        return bool(value.numel()) and any(step == 0 and size > 1 for step, size in steps)

    def oddness(self, value: Any) -> str:
        """Return what makes a tensor another one than a caller expects."""
        if type(value) is not torch.Tensor:
            return f"is of the class {type(value).__name__}, for a tensor of PyTorch"
        return "asks for a gradient that leads nowhere" if value.requires_grad and value.is_leaf else ""

    def marks(self, value: Any) -> dict[str, Any]:
        """Return all of a tensor that is not its elements."""
        if not isinstance(value, torch.Tensor):
            return {}
        return {
            "its shape": tuple(value.shape),
            "its strides": value.stride(),
            "its dtype": value.dtype,
            "its memory": value.data_ptr(),
            "its .grad": value.is_leaf and value.grad is not None,
            "its hooks": len(value._backward_hooks or ()),
            "its attributes": sorted(name for name in vars(value) if not name.startswith("_dynamo_")),
        }

    @contextlib.contextmanager
    def scratch(self, kind: str, device: str, *, guarded: bool = True) -> Iterator[Scratch]:
        """Guard what is allocated until the block ends; poison the free memory of a GPU before it."""
        if device != "cpu":
            blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in _block_sizes()]
            for block in blocks:
                block.fill_(0xFF)
            del blocks
        if not guarded:
            yield NoScratch()
            return
        if kind == "nan":
            _blocks.clear()
        with TorchScratch(kind, device) as scratch:
            _blocks.append(scratch)
            yield scratch

    def noted(self) -> contextlib.AbstractContextManager[set[str]]:
        """Return a block that notes PyTorch's operators that compute."""
        return torch_calls.noted()

    def threads(self) -> int | None:
        """Return how many threads an operator of PyTorch has."""
        return int(torch.get_num_threads())

    def mode(self, name: str, arrays: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
        """Return the block in which a kernel is called in this mode, with these arrays."""
        blocks = {
            "no_grad": torch.no_grad,
            "inference_mode": torch.inference_mode,
            "autocast": lambda: torch.autocast(arrays[0].device.type, torch.bfloat16),
            "stream": lambda: _other_stream(arrays),
        }
        return blocks[name]() if name in blocks else contextlib.nullcontext()

    def in_mode(self, call: Call, name: str) -> Call:
        """Return how a kernel is called in this mode: traced as torch.compile does, with no code made."""
        return torch.compile(call, backend="aot_eager") if name == "compile" else call

    def state(self) -> State:
        """Return what of PyTorch, and of NumPy below it, belongs to the whole process."""
        return {**of_numpy.FRAMEWORK.state(), **STATE}

    def wait(self, device: str) -> None:
        """Wait for the stream in which a caller goes on: what a kernel does in others, it must have handed over."""
        if device != "cpu":
            torch.accelerator.current_stream().synchronize()

    def callable_of(self, value: Any, module: Mapping[str, Any] | None) -> Call | None:
        """Return how an autograd.Function or a Module is called.

        A module is made here, before the process is watched: it draws its parameters.
        """
        kind: Any = value if inspect.isclass(value) else object
        if issubclass(kind, torch.autograd.Function):
            return lambda arrays: kind.apply(*arrays.values())
        if issubclass(kind, torch.nn.Module):
            made = kind(**(module or {}))
            MODULES.append(made)
            return lambda arrays: _of_module(made, arrays)
        return None

    def results(
        self,
        call: Call,
        arrays: dict[str, Any],
        asked: Sequence[str] = (),
        incoming: Mapping[str, Any] | None = None,
        *,
        times: int = 1,
    ) -> list[dict[str, Any]]:
        """Return what a call gives, or its gradients by autograd."""
        for name in asked:
            arrays[name] = arrays[name].detach().requires_grad_()
        results = call(arrays)
        if not incoming:
            return [results]
        differentiable = {name: one for name, one in results.items() if f"grad_{name}" in incoming}
        tops = {name: one for name, one in differentiable.items() if one.requires_grad}  # of what is asked for
        come = [incoming[f"grad_{name}"].to(one.dtype) for name, one in tops.items()]
        given = []
        for number in range(times):
            gradients = torch.autograd.grad(
                list(tops.values()),
                [arrays[name] for name in asked],
                come,
                allow_unused=True,
                retain_graph=number + 1 < times,
            )
            given.append(dict(zip(asked, gradients, strict=True)))
        return given


@contextlib.contextmanager
def _other_stream(arrays: Sequence[Any]) -> Iterator[None]:
    """Go on in another stream, in which the arrays get their values late: a kernel in the usual one reads zeros."""
    library = getattr(torch, arrays[0].device.type)
    values = [one.clone() for one in arrays]
    for one in arrays:
        one.zero_()
    library.synchronize()
    with library.stream(library.Stream()):
        if hasattr(library, "_sleep"):
            library._sleep(_LATE)
        for one, value in zip(arrays, values, strict=True):
            one.copy_(value)
        yield
        library.current_stream().synchronize()


def _tensor(values: Array) -> Any:
    if (narrow := _NARROW.get(values.dtype.name)) is not None:
        return torch.from_numpy(values.view(narrow[1])).view(narrow[0])
    return torch.from_numpy(values)


@cache
def _kind(dtype: np.dtype[np.generic]) -> Any:
    """Return PyTorch's dtype of a dtype of NumPy."""
    return _tensor(np.empty(0, dtype)).dtype


def _of_module(module: Any, arrays: Mapping[str, Any]) -> Any:
    """Call a module with the arrays that are named as its parameters and buffers in their place."""
    named = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    rest = dict(arrays)
    own = {name: rest.pop(name.replace(".", "_")) for name in named if name.replace(".", "_") in rest}
    with _one_call:
        return torch.func.functional_call(module, own, tuple(rest.values()))


def _block_sizes() -> list[int]:
    return [1 << 20] * 8 + [_CACHED // 8] * 4 + [_CACHED // 16] * 4 + [_CACHED // 64] * 16


FRAMEWORK = Torch()
