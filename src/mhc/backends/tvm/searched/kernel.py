"""The kernels whose loops a search has arranged, on this CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import Target

from mhc.backends import Kernel, NotSupportedError, stage, too_many_streams, with_fp32_products
from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.searched.traces import arranged
from mhc.toolchain.cpus import foreign

# Makes the script for a spec and a number of tokens.
Script = Callable[[Any, int], tvm.tirx.PrimFunc]


@dataclass(frozen=True)
class Sized:
    """A specialisation with its number of tokens: the search divides every loop, so every length is a constant."""

    spec: Any
    tokens: int


class SearchedKernel:
    """One operator in one direction; it is compiled for each number of tokens.

    ``alone`` runs one token where the trace has a step that needs a loop over tokens: with one it is none.
    """

    def __init__(
        self, name: str, script: Script, operands: Callable[[Any, Any], Any], alone: Kernel | None = None
    ) -> None:
        self.script = script
        self._alone = alone
        self._name = name
        self._operands = operands
        self._cpu = CpuForm(name, self._arranged)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on this CPU, in the tensors' own memory; ``target`` is a CPU that LLVM knows, None this one.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
            ValueError: the target is no CPU that can be had here, or has instructions that this CPU lacks.
        """
        spec = inputs.spec
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)
        if self._alone and inputs[0].shape[0] == 1:
            self._alone.run(inputs, out, target)
            return
        sized = Sized(with_fp32_products(spec), inputs[0].shape[0])
        self._cpu.run(sized, target, self._operands(inputs, out))

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel does not take the specialisation, or None."""
        if foreign(target):
            return f"the loops were arranged for x86-64 CPUs, not for {target}"
        if spec.streams < 2:
            return "the loops were arranged for two streams or more"
        return too_many_streams(spec)

    def _arranged(self, sized: Sized, target: Target) -> tvm.tirx.PrimFunc:
        return arranged(self._name, self.script(sized.spec, sized.tokens))
