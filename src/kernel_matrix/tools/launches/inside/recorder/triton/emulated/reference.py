"""Compute a launch with Triton's interpreter in float64: exactly, or rounded after each step as the dtypes say.

Triton's own interpreter keeps bf16 as integers, and cuts off where a GPU rounds. Here floating-point numbers of every
dtype are float64. The exact result is the golden; the rounded one is what plain code gives.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from triton import language as tl
from triton._C.libtriton import ir
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from . import libdevice, numbers
from .interpret import interpreted
from .memory import Memory, Region, regions_of, tensors_in

_NUMPY_DTYPE = interpreter._get_np_dtype
_PATCH_LANGUAGE = interpreter._patch_lang
_WITHOUT_TF32 = ("sm_70", "sm_75")
_TF32_CUT = 2.0**42  # of the 53 bits of a number in float64 11 are left
_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _numpy_dtype(dtype: Any) -> Any:
    """Return what holds a dtype: float64 for floating-point numbers."""
    return np.dtype(np.float64) if dtype.scalar.is_floating() else _NUMPY_DTYPE(dtype)


class Builder(interpreter.InterpreterBuilder):
    """The operations of the language, on float64."""

    def __init__(self) -> None:
        """Begin without a launch: its memory, and whether numbers are rounded after each step, are set for each."""
        super().__init__()
        self.memory, self.rounds = Memory([]), False

    def result(self, data: Any, dtype: Any) -> TensorHandle:
        """Return the result of an operation in its dtype."""
        dtype = dtype.scalar
        if data.dtype == bool and dtype.is_floating():  # a comparison
            return TensorHandle(data, dtype)
        if dtype.is_floating():
            return TensorHandle(numbers.rounded(data, dtype) if self.rounds else np.asarray(data, np.float64), dtype)
        wide = data.itemsize * 8 > max(8, dtype.primitive_bitwidth)
        return TensorHandle(data.astype(_numpy_dtype(dtype)) if wide else data, dtype)

    def binary_op(self, lhs: Any, rhs: Any, op: Callable[..., Any]) -> TensorHandle:
        """Do an operation of two operands."""
        return self.result(op(lhs.data, rhs.data), lhs.dtype)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Callable[..., Any]) -> TensorHandle:
        """Do an operation of three operands."""
        return self.result(op(lhs.data, rhs.data, other.data), other.dtype)

    def unary_op(self, arg: Any, op: Callable[..., Any]) -> TensorHandle:
        """Do an operation of one operand."""
        return self.result(op(arg.data), arg.dtype)

    def create_minnumf(self, lhs: Any, rhs: Any) -> TensorHandle:
        """Return the smaller number; a NaN only where both are."""
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> TensorHandle:
        """Return the larger number; a NaN only where both are."""
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: Any, low: Any, high: Any, propagate_nan: Any) -> TensorHandle:
        """Return the number inside the bounds; NaN becomes the lower one, unless it is asked for."""
        keeps = propagate_nan == tl.PropagateNan.ALL
        return self.ternary_op(arg, low, high, np.clip if keeps else lambda x, a, b: np.fmin(np.fmax(x, a), b))

    def create_fma(self, x: Any, y: Any, z: Any) -> TensorHandle:
        """Multiply and add, with one rounding."""
        return self.result(x.data * y.data + z.data, z.dtype)

    def create_fabs(self, arg: Any) -> TensorHandle:
        """Return the absolute value."""
        return self.unary_op(arg, np.abs)

    def create_erf(self, arg: Any) -> TensorHandle:
        """Return the error function."""
        return self.unary_op(arg, _ERF)

    def create_rsqrt(self, arg: Any) -> TensorHandle:
        """Return one over the root."""
        return self.unary_op(arg, lambda values: 1 / np.sqrt(values))

    def get_fp16(self, value: float) -> TensorHandle:
        """Return a constant, which is rounded in the exact result too: it is part of the kernel."""
        return _constant(value, tl.float16)

    def get_bf16(self, value: float) -> TensorHandle:
        """Return a constant."""
        return _constant(value, tl.bfloat16)

    def get_fp32(self, value: float) -> TensorHandle:
        """Return a constant."""
        return _constant(value, tl.float32)

    def cast_impl(self, src: Any, dst_type: Any) -> TensorHandle:
        """Convert: to integers by cutting off, and to floating-point numbers by rounding if at all."""
        if dst_type.scalar.is_floating():
            return self.result(src.data.astype(np.float64), dst_type)
        kind = _numpy_dtype(dst_type)
        data = src.data.astype(np.int64) if src.data.dtype == np.float64 and kind.kind != "b" else src.data
        return TensorHandle(data.astype(kind), dst_type.scalar)

    def create_fp_to_fp(self, src: Any, dst_type: Any, _: Any) -> TensorHandle:
        """Convert between floating-point dtypes."""
        return self.result(src.data, dst_type)

    def create_bitcast(self, src: Any, dst_type: Any) -> TensorHandle:
        """Take the bits as another dtype."""
        source, wanted = src.dtype.scalar, dst_type.scalar
        bits = numbers.to_bits(src.data, source) if source.is_floating() else np.ascontiguousarray(src.data)
        data = numbers.of_bits(bits, wanted) if wanted.is_floating() else bits.view(_numpy_dtype(dst_type))
        return TensorHandle(data.reshape(src.data.shape), wanted)

    create_int_to_ptr = create_ptr_to_int = create_bitcast

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, _: Any) -> TensorHandle:
        """Multiply matrices and add; the sum is rounded once."""
        pair = [a.data, b.data]
        if self.rounds and a.dtype.scalar == tl.float32 and "TF32" in str(input_precision):
            pair = [_tf32(one) for one in pair]
        wide = [one if one.dtype == np.float64 else one.astype(np.int64) for one in pair]
        return self.result(np.matmul(*wide) + d.data, d.dtype)

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> TensorHandle:
        """Read where the mask says so."""
        dtype = ptrs.get_element_ty()
        kind = _numpy_dtype(dtype)
        mask = mask if isinstance(mask, np.ndarray) else mask.data
        found = (
            np.zeros(ptrs.data.shape, kind)
            if other is None
            else np.array(np.broadcast_to(other.data, ptrs.data.shape), kind)
        )
        for array, places, chosen, region in self.memory.parts(ptrs.data, mask, dtype, kind):
            found.reshape(-1)[chosen] = array[places]
            _note(region.read, array, places)
        return TensorHandle(found, dtype)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any) -> None:
        """Write where the mask says so."""
        dtype = ptrs.get_element_ty()
        mask = mask if isinstance(mask, np.ndarray) else mask.data
        values = np.broadcast_to(value.data, ptrs.data.shape).reshape(-1)
        for array, places, chosen, region in self.memory.parts(ptrs.data, mask, dtype, _numpy_dtype(dtype)):
            array[places] = values[chosen]
            _note(region.written, array, places)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, *_: Any) -> TensorHandle:
        """Change elements one after the other, and return what was there."""
        return self._atomic(ptr, mask.data, val, lambda old, place: _RMW[op.name](old, val.data.reshape(-1)[place]))

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, *_: Any) -> TensorHandle:
        """Change elements that are as expected, and return what was there."""
        expected, wanted = (np.broadcast_to(one.data, ptr.data.shape).reshape(-1) for one in (cmp, val))
        everywhere = np.ones(ptr.data.shape, bool)
        return self._atomic(ptr, everywhere, val, lambda old, n: wanted[n] if old == expected[n] else old)

    def _atomic(self, ptr: Any, mask: Any, val: Any, change: Callable[[Any, int], Any]) -> TensorHandle:
        dtype = ptr.get_element_ty()
        kind = _numpy_dtype(dtype)
        before = np.zeros(ptr.data.shape, kind)
        for array, places, chosen, region in self.memory.parts(ptr.data, mask, dtype, kind):
            for place, number in zip(places, chosen, strict=True):
                before.reshape(-1)[number] = array[place]
                array[place] = self.result(np.array([change(array[place], number)]), dtype).data[0]
            _note(region.read, array, places)
            _note(region.written, array, places)
        return TensorHandle(before, val.dtype.scalar)


class _Semantic(TritonSemantic):
    """The operations of the language. An atomic extreme of floats is one of numbers, and not of their bits."""

    def atomic_max(self, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Let memory have the larger number, and return what was there."""
        return self._extreme("max", ptr, val, mask, sem, scope)

    def atomic_min(self, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Let memory have the smaller number, and return what was there."""
        return self._extreme("min", ptr, val, mask, sem, scope)

    def _extreme(self, name: str, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if not ptr.type.scalar.element_ty.is_floating():
            return getattr(super(), f"atomic_{name}")(ptr, val, mask, sem, scope)
        ptr, val, mask = self.atom_red_typechecking_impl(ptr, val, mask, name)
        operation = getattr(ir.ATOMIC_OP, name.upper())
        return self.tensor(self.builder.create_atomic_rmw(operation, ptr.handle, val.handle, mask.handle), val.type)


_BUILDER = Builder()
_RMW: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("ADD", "FADD"), np.add),
    **dict.fromkeys(("MIN", "UMIN"), np.minimum),
    **dict.fromkeys(("MAX", "UMAX"), np.maximum),
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "XCHG": lambda _, new: new,
}


def _note(elements: Any, array: Any, places: Any) -> None:
    """Write down which elements of a region were used: those that were read, or those that were written."""
    size = elements.size
    elements[places * array.size // size if array.size != size else places] = True
    if array.size < size:  # several elements at once
        elements[:] = True


def _constant(value: float, dtype: Any) -> TensorHandle:
    return TensorHandle(numbers.rounded(np.array([value], np.float64), dtype), dtype)


def _tf32(values: Any) -> Any:
    """Return numbers with 10 bits behind the point, rounded to nearest."""
    carried = values * (1 + _TF32_CUT)
    return carried - (carried - values)


class _Slices:
    """The part that reductions and scans share: they combine whole slices along an axis, and round."""

    def to_tensor(self, ret: Any, dtype: Any) -> Any:
        data = np.asarray(ret)
        shape = list(data.shape)
        kind = tl.block_type(dtype, shape) if shape else dtype
        return tl.tensor(_BUILDER.result(data.reshape(shape or [1]), dtype), kind)

    def combined(self, total: Any, item: Any) -> tuple[Any, ...]:
        found = self.combine_fn.fn(*total, *item)  # type: ignore[attr-defined]  # of the interpreter's class
        return found if isinstance(found, tuple) else (found,)

    def slice_of(self, arrays: Any, place: int, axis: int, like: Any) -> tuple[Any, ...]:
        pairs = zip(arrays, like, strict=True)
        return tuple(self.to_tensor(np.take(one, place, axis), of.dtype) for one, of in pairs)


class _Reduction(_Slices, interpreter.ReduceOps):
    """A reduction: a sum rounds after each step of a tree, as on a GPU."""

    def sum(self, given: Any) -> Any:
        data = given.handle.data
        if not (_BUILDER.rounds and given.dtype.scalar.is_floating()):
            return self.to_tensor(np.sum(data, axis=self.axis, keepdims=self.keep_dims), given.dtype)
        axis = 0 if self.axis is None else self.axis
        left = data.reshape(-1) if self.axis is None else data
        while left.shape[axis] > 1:  # it is a power of two
            halves = np.split(left, 2, axis)
            left = numbers.rounded(halves[0] + halves[1], given.dtype.scalar)
        return self._kept(np.take(left, 0, axis), given)

    def min_max(self, given: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        """Return the extreme and, if it is asked for, its place.

        Raises:
            NotImplementedError: the place is asked for among NaN; the order of the reduction decides.
        """
        data = given.handle.data
        if idx_reduce_op is None:
            extreme = np.fmax if val_reduce_op is np.nanmax else np.fmin
            return self.to_tensor(extreme.reduce(data, axis=self.axis, keepdims=self.keep_dims), given.dtype)
        if data.dtype == np.float64 and np.isnan(data).any():
            raise NotImplementedError("the place of an extreme among NaN")
        return super().min_max(given, val_reduce_op, idx_reduce_op)  # of the interpreter's class

    def generic_reduce(self, given: Any) -> Any:
        axis = 0 if self.axis is None else self.axis
        arrays = [one.handle.data.reshape(-1) if self.axis is None else one.handle.data for one in given]
        total = self.slice_of(arrays, 0, axis, given)
        for place in range(1, arrays[0].shape[axis]):
            total = self.combined(total, self.slice_of(arrays, place, axis, given))
        return [self._kept(one.handle.data, of) for one, of in zip(total, given, strict=True)]

    def _kept(self, data: Any, of: Any) -> Any:
        shape = list(of.handle.data.shape)
        reduced = range(len(shape)) if self.axis is None else [self.axis % len(shape)]
        kept = [1 if n in reduced else size for n, size in enumerate(shape) if self.keep_dims or n not in reduced]
        return self.to_tensor(data.reshape(kept) if kept else data.reshape(-1)[0], of.dtype)


class _Scan(_Slices, interpreter.ScanOps):
    """A scan."""

    def generic_scan(self, given: Any) -> Any:
        arrays = [one.handle.data for one in given]
        totals = [self.slice_of(arrays, 0, self.axis, given)]
        for place in range(1, arrays[0].shape[self.axis]):
            totals.append(self.combined(totals[-1], self.slice_of(arrays, place, self.axis, given)))
        stacked = (np.stack([one[n].handle.data for one in totals], self.axis) for n in range(len(given)))
        # A slice of one axis is a number, which the interpreter holds in an array of one element.
        return [
            self.to_tensor(data.reshape(arrays[0].shape), of.dtype) for data, of in zip(stacked, given, strict=True)
        ]


class _Executor(interpreter.GridExecutor):
    """The interpreter's loop over a grid, on tensors where they are."""

    def _init_args_hst(self, args_dev: Any, kwargs: Any) -> tuple[Any, Any]:
        return args_dev, kwargs

    def _restore_args_dev(self, *_: Any) -> None:
        pass


class _Transformer(interpreter.ASTTransformer):
    """The change of a kernel's source for the interpreter: a loop counts with a scalar of the language, as compiled."""

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802  ast calls it so
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            node.func.id = _counted.__name__
        self.generic_visit(node)
        return node


def _counted(*limits: Any, **_: Any) -> Iterator[Any]:
    """Yield the numbers of a range as scalars; where a limit is no number of 32 bits, with 64."""
    for number in range(*map(int, limits)):
        kind = tl.int32 if -(2**31) <= number < 2**31 else tl.int64
        yield tl.tensor(TensorHandle(np.array([number], _NUMPY_DTYPE(kind)), kind), kind)


class _WithLanguage:
    """A function as the interpreter asks for it: its module need not import the language, as a compiler needs none."""

    def __init__(self, function: Any) -> None:
        self.__globals__ = {**function.__globals__, "language of the kernel": tl}


def _patch_language(function: Any) -> Any:
    changed = _PATCH_LANGUAGE(_WithLanguage(function))
    for module in (tl, tl.core):
        changed.set_attr(module, "range", _counted)
    changed.set_attr(tl.tensor, "__index__", lambda scalar: scalar.handle.data.item())
    return changed


def install(target: str) -> None:
    """Put the builder into the interpreter, whose names every interpreted kernel gets, before the first is computed.

    Products of fp32 are made as on the target that the program is told of.
    """
    precisions = ("ieee", "bf16x3", "bf16x6", *(("tf32",) if _has_tf32(target) else ()))
    _BUILDER.options = interpreter.InterpreterOptions(
        default_dot_input_precision="ieee", allowed_dot_input_precisions=precisions
    )
    interpreter.FunctionRewriter.ast_transformer = _Transformer()
    interpreter._patch_lang, interpreter._counted = _patch_language, _counted
    interpreter.interpreter_builder = _BUILDER
    interpreter.TritonSemantic, interpreter.interpreter_semantic = _Semantic, _Semantic(_BUILDER)
    interpreter._get_np_dtype = _numpy_dtype
    interpreter._validate_np_data_size = lambda *_: True
    interpreter.ReduceOps, interpreter.ScanOps = _Reduction, _Scan


def _has_tf32(target: str) -> bool:
    return target == "gfx942" or (target.startswith("sm_") and target not in _WITHOUT_TF32)


def compute(
    kernel: Any, bound: Mapping[str, Any], grid: Sequence[int], *, rounds: bool, nudged: bool = False
) -> list[Region]:
    """Run every program of a grid, and return the memory. Tensors of integers have changed in place."""
    regions = regions_of(tensors_in(dict(bound)))
    if nudged:
        for region in regions:
            region.nudge()
    _BUILDER.memory, _BUILDER.rounds = Memory(regions), rounds
    constants = {param.name for param in kernel.params if param.is_constexpr}
    with libdevice.computed(_BUILDER.result), np.errstate(all="ignore"), torch._C.DisableTorchFunction():
        values = {name: value if name in constants else _scalar(value) for name, value in bound.items()}
        _Executor(interpreted(kernel).rewrite(), kernel.arg_names, tuple(grid), [])(**values)
    return regions


def _scalar(value: Any) -> Any:
    """Return a float as the scalar that a compiled kernel gets."""
    return tl.tensor(_constant(value, tl.float32), tl.float32) if isinstance(value, float) else value
