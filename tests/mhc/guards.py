"""Guards: bytes around a tensor that nobody may write, and poison in memory that nobody has written yet."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.frameworks.torch_calls import ALLOCATIONS

_LEAST = 4096  # bytes of a guard; a multiple keeps the alignment of the allocation
_POISON = 0xFF  # NaN in every floating-point dtype
_CACHED = 256 << 20  # bytes of a GPU's free memory that are poisoned before a run


def guard_bytes(shape: tuple[int, ...], itemsize: int) -> int:
    """Return the size of each of the two guards: a token's values at least, and whole pages."""
    row = int(np.prod(shape[1:], dtype=np.int64)) * itemsize
    return -(-max(row, 1) // _LEAST) * _LEAST


@lru_cache(maxsize=8)  # the outputs of a run have guards of few sizes
def pattern(size: int, secret: int) -> Array:
    """Return the bytes of a guard; ``secret`` determines them. Nobody may write into the array: it is kept."""
    words = np.random.Philox(key=secret).random_raw(size // 8)
    made = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    made.flags.writeable = False
    return made


class Guarded:
    """A contiguous tensor inside a larger piece of memory."""

    def __init__(self, whole: torch.Tensor, tensor: torch.Tensor) -> None:
        self.whole, self.tensor = whole, tensor

    @classmethod
    def empty(cls, like: torch.Tensor, secret: int) -> Guarded:
        """Return a guarded tensor like another, with NaN in it."""
        size = like.numel() * like.element_size()
        guard = guard_bytes(tuple(like.shape), like.element_size())
        whole = torch.full((size + 2 * guard,), _POISON, dtype=torch.uint8, device=like.device)
        edge = torch.from_numpy(pattern(guard, secret).copy()).to(like.device)
        whole[:guard] = edge
        whole[guard + size :] = edge
        return cls(whole, whole[guard : guard + size].view(like.dtype).view(like.shape))

    @classmethod
    def copy_of(cls, values: torch.Tensor, device: torch.device, secret: int) -> Guarded:
        """Return a guarded copy on a device."""
        guarded = cls.empty(values.to(device), secret)
        guarded.tensor.copy_(values)
        return guarded

    def bytes(self) -> Array:
        """Return the bytes of the tensor and of its guards."""
        return self.whole.cpu().numpy()


def opened(whole: Array, shape: tuple[int, ...], itemsize: int, secret: int) -> tuple[Array, bool]:
    """Return the bytes between the guards, and whether the guards are whole.

    Raises:
        ValueError: there are more or fewer bytes than the shape has.
    """
    guard, size = guard_bytes(shape, itemsize), int(np.prod(shape, dtype=np.int64)) * itemsize
    if whole.shape != (size + 2 * guard,):
        raise ValueError(f"{whole.shape[0]} bytes came back, where {size + 2 * guard} were handed out")
    edge = pattern(guard, secret)
    intact = bool((whole[:guard] == edge).all() and (whole[guard + size :] == edge).all())
    return whole[guard : guard + size], intact


class Scratch(TorchDispatchMode):
    """Poison and guard what is allocated through PyTorch.

    ``own_operators`` says that the kernel is made of PyTorch's operators: its memory is only poisoned then, by the C
    library's own means on a CPU.
    """

    def __init__(self, device: torch.device, *, own_operators: bool) -> None:
        super().__init__()
        self._guarded: list[tuple[str, Guarded]] = []
        self._device, self._own = device, own_operators

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled here, and to keep PyTorch's compiler out means to import it."""
        return False

    def __enter__(self) -> Scratch:
        if self._device.type == "cuda":
            _poison_free_memory(self._device)
        _perturb(_COMPLEMENT)
        if not self._own:
            super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _perturb(0)
        if not self._own:
            super().__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Put guards around what is allocated, and call every other operator as it is."""
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        if name not in ALLOCATIONS or result.numel() == 0 or not _is_dense(result):
            return result
        guarded = Guarded.empty(
            result.view(-1) if result.is_contiguous() else result.as_strided((result.numel(),), (1,)), 1
        )
        self._guarded.append((f"{name} {tuple(result.shape)}", guarded))
        return guarded.tensor.as_strided(result.shape, result.stride(), guarded.tensor.storage_offset())

    def overrun(self) -> list[str]:
        """Return the allocations past whose ends something was written."""
        return [
            name
            for name, guarded in self._guarded
            if not opened(guarded.bytes(), tuple(guarded.tensor.shape), guarded.tensor.element_size(), 1)[1]
        ]


def _is_dense(tensor: torch.Tensor) -> bool:
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    expected = 1
    for axis in reversed(order):
        if tensor.shape[axis] > 1 and tensor.stride(axis) != expected:
            return False
        expected *= tensor.shape[axis]
    return True


def _poison_free_memory(device: torch.device) -> None:
    """Fill free blocks of the caching allocator with NaN, small ones and large ones: allocations come from these."""
    blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in _block_sizes()]
    for block in blocks:
        block.fill_(_POISON)
    del blocks


def _block_sizes() -> list[int]:
    small = [1 << 20] * 8
    large = [_CACHED // 8] * 4 + [_CACHED // 16] * 4 + [_CACHED // 64] * 16
    return small + large


_M_PERTURB = -6  # mallopt(3)
_COMPLEMENT = 0x80  # of the byte 0x7F: 3.4e38 in fp32 and bf16, NaN in fp16. 0xFF (zero) would switch it off.


def _perturb(byte: int) -> None:
    """Have glibc fill what it hands out with the complement of ``byte``; 0 switches that off. Elsewhere do nothing."""
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_PERTURB, byte)
