"""NumPy: its allocator is replaced while a kernel runs, so that every array that the kernel makes is guarded."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernel_matrix.kit.frameworks.base import Framework, Scratch, State
from kernel_matrix.kit.replaced import functions_of

_EDGE = 64  # bytes before and behind each allocation
_MARK = 0xA5
_FILL = {"nan": 0xFFFFFFFF, "small": 0x00010001, "usual": 0x3F003F00}  # in fp32, fp16 and bf16 alike
_SET_HANDLER = 304  # the place of PyDataMem_SetHandler in NumPy's table of functions
_MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_REALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_forever: list[Any] = []  # an array that outlives its block is freed through the allocator of the block

_blocks: list[Allocations] = []


class _Functions(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        ("free", _FREE),
    )


class _Handler(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("functions", _Functions))


class Allocations:
    """An allocator of NumPy's arrays that fills and guards what it hands out."""

    def __init__(self, kind: str) -> None:
        """Fill with NaN, or with usual or subnormal numbers."""
        self._word = _FILL[kind].to_bytes(4, "little")  # a scalar of NumPy would allocate to say its bytes
        self._sizes: dict[int, int] = {}
        self._overran: list[str] = []
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype, self._libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self._libc.free.argtypes = [ctypes.c_void_p]
        functions = _Functions(
            None, _MALLOC(self._malloc), _CALLOC(self._calloc), _REALLOC(self._realloc), _FREE(self._free)
        )
        self.handler = _Handler(b"kernel-matrix", 1, functions)

    def overran(self) -> list[str]:
        """Return the allocations past whose ends something was written."""
        return self._overran + [f"{size} bytes" for place, size in self._sizes.items() if not self._intact(place, size)]

    def kept(self) -> int:
        """Return the bytes of this block, and of those since one with NaN, that are still held."""
        return sum(sum(block._sizes.values()) for block in _blocks)

    def _malloc(self, _: Any, size: int) -> int:
        base = int(self._libc.malloc(size + 2 * _EDGE) or 0)
        if not base:
            return 0
        place = base + _EDGE
        ctypes.memset(base, _MARK, _EDGE)
        ctypes.memset(place + size, _MARK, _EDGE)
        ctypes.memmove(place, (self._word * (size // 4 + 1))[:size], size)
        self._sizes[place] = size
        return place

    def _calloc(self, context: Any, count: int, size: int) -> int:
        place = self._malloc(context, count * size)
        if place:
            ctypes.memset(place, 0, count * size)
        return place

    def _realloc(self, context: Any, place: int | None, size: int) -> int:
        new = self._malloc(context, size)
        if place and new:
            ctypes.memmove(new, place, min(size, self._sizes.get(place, size)))
            self._free(context, place, 0)
        return new

    def _free(self, _: Any, place: int | None, __: int) -> None:
        if place in self._sizes and place:
            size = self._sizes.pop(place)
            if not self._intact(place, size):
                self._overran.append(f"{size} bytes")
            self._libc.free(place - _EDGE)
        elif place:
            self._libc.free(place)

    def _intact(self, place: int, size: int) -> bool:
        edge = bytes([_MARK]) * _EDGE
        return ctypes.string_at(place - _EDGE, _EDGE) == edge == ctypes.string_at(place + size, _EDGE)


def _set_handler(capsule: Any) -> Any:
    """Make an allocator the one of this thread, and return the one before."""
    functions = importlib.import_module("numpy._core._multiarray_umath")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(functions._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])(capsule)


def _capsule_of(handler: _Handler) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(handler), b"mem_handler", None)


class NumPy(Framework):
    """Arrays of NumPy."""

    name = "numpy"
    title = "NumPy"
    layouts = ("offset", "strided", "transposed", "reversed", "expanded")

    def extent(self, value: Any) -> tuple[int, int]:
        """Return where the memory of an array begins and ends."""
        if not isinstance(value, np.ndarray):
            return 0, 0
        first, last = np.lib.array_utils.byte_bounds(value)
        return int(first), int(last)

    def overlaps(self, value: Any) -> bool:
        """Return whether elements of an array lie in one place."""
        steps = zip(value.strides, value.shape, strict=True)
        return bool(value.size) and any(step == 0 and size > 1 for step, size in steps)

    def oddness(self, value: Any) -> str:
        """Return what makes an array another one than a caller expects; one of another library is usual here."""
        if not isinstance(value, np.ndarray):
            return ""
        if type(value) is not np.ndarray:  # for it ``*`` may be something else
            return f"is of the class {type(value).__name__}, for an array of NumPy"
        return "" if value.dtype.isnative else f"is {value.dtype.str}, whose bytes have another order"

    def marks(self, value: Any) -> dict[str, Any]:
        """Return all of an array that is not its elements."""
        if not isinstance(value, np.ndarray):
            return {}
        return {
            "its shape": value.shape,
            "its strides": value.strides,
            "its dtype": value.dtype,
            "whether it can be written": value.flags.writeable,
        }

    @contextlib.contextmanager
    def scratch(self, kind: str, device: str, *, guarded: bool = True) -> Iterator[Scratch]:  # noqa: ARG002
        """Replace NumPy's allocator in this thread until the block ends."""
        allocations = Allocations(kind)
        if kind == "nan":
            _blocks.clear()
        _blocks.append(allocations)
        capsule = _capsule_of(allocations.handler)
        _forever.extend((allocations, capsule))
        before = _set_handler(capsule)
        try:
            yield allocations
        finally:
            _set_handler(before)

    def state(self) -> State:
        """Return what of NumPy belongs to the whole process."""
        return {
            "what NumPy does on errors": (np.geterr, lambda state: np.seterr(**state)),
            "how NumPy prints": (lambda: repr(np.get_printoptions()), None),
            "NumPy's random numbers": (_random, _set_random),
            "NumPy's functions": _FUNCTIONS,
        }


def _random() -> tuple[Any, ...]:
    """Return the state of the global generator as values that compare by ``==``."""
    _, keys, *rest = np.random.get_state()
    return (np.asarray(keys).tobytes(), *rest)


def _set_random(state: Any) -> None:
    np.random.set_state(("MT19937", np.frombuffer(state[0], np.uint32), *state[1:]))


_FUNCTIONS = functions_of(np)
FRAMEWORK = NumPy()
