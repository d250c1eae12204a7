"""Code that the scripts for CPUs share: vector registers, rows cut into vectors, rounding.

A width that is no multiple of a vector needs no scalar code: the last vector is moved back to end with the row. The
lanes that it shares with the one before are computed twice to the same value, or count as zero in a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from tvm.script import tirx as T
from tvm.target import Target
from tvm.target import codegen as llvm

# TVM gives a smaller buffer than this a place on the stack, and LLVM can take it from there to registers.
STACK_BYTES = 1024


def registers(target: Target) -> tuple[int, int]:
    """Return the floats in one vector register of the target, and the number of these registers."""
    if llvm.llvm_cpu_has_features("avx512f", target):
        return 16, 32
    if llvm.llvm_cpu_has_features("avx", target):
        return 8, 16
    return 4, 16


@dataclass(frozen=True)
class Row:
    """``length`` elements as vectors of ``lanes``."""

    length: int
    lanes: int

    @classmethod
    def of(cls, length: int, lanes: int) -> Row:
        """Cut a row into vectors of ``lanes``, or of the largest power of two that a shorter row holds."""
        return cls(length, min(lanes, 1 << (length.bit_length() - 1)))

    @property
    def vectors(self) -> int:
        """Return how many vectors cover the row."""
        return -(-self.length // self.lanes)

    @property
    def ragged(self) -> bool:
        """Return whether the last vector is moved back."""
        return self.length % self.lanes != 0

    def start(self, vector: Any) -> Any:
        """Return the element where a vector begins."""
        return T.min(vector * self.lanes, self.length - self.lanes) if self.ragged else vector * self.lanes

    def once(self, vector: Any, lane: Any, value: Any) -> Any:
        """Return ``value`` in the lanes that the vector before does not have, and zero in the others."""
        if not self.ragged:
            return value
        return T.Select(self.start(vector) + lane >= vector * self.lanes, value, T.float32(0))


def name_of(dtype: torch.dtype) -> str:
    """Return TVM's name of a dtype."""
    return str(dtype).removeprefix("torch.")


def wide(value: Any) -> Any:
    """Return the value in fp32."""
    return T.Cast("float32", value)


def narrow(dtype: str, value: Any, nan: Any = None) -> Any:
    """Round to ``dtype``. TVM makes bf16 by adding to the bits, which carries some NaNs over into zeros.

    ``nan`` is a NaN that is not carried over, by default the compiler's.
    """
    if dtype == "bfloat16":
        value = T.Select(T.isnan(value), T.float32(float("nan")) if nan is None else nan, value)
    return T.Cast(dtype, value)


def fetch(element: Any, cache: int = 2, *, for_writing: bool = False) -> Any:
    """Ask the CPU for the line of an element that is needed soon, into the first or the second cache."""
    return T.call_intrin("void", "tirx.prefetch", T.address_of(element), int(for_writing), 4 - cache, 1)
