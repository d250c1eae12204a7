"""The kernels of TVM: each has a form for CPUs, and one for blocks of threads with shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mhc.backends import Artifact, NotSupportedError, stage, too_many_streams, with_fp32_products
from mhc.backends.tvm import gpu
from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.gpu import GpuForm
from mhc.toolchain import gfx

# What a call hands over by name, in the order of the CPU script's parameters: tensors, None for one that is not given,
# and for each gradient whether it is asked for (``needs_x``: 1 or 0).
Operands = dict[str, torch.Tensor | int | None]


class Kernel:
    """One operator in one direction, in two forms; ``operands`` returns what a call hands over.

    Every product is in fp32: the specialisation's ``precision`` permits less, and changes nothing.
    """

    def __init__(self, cpu: CpuForm, gpu: GpuForm, operands: Callable[[Any, Any], Operands]) -> None:
        self._cpu = cpu
        self._gpu = gpu
        self._operands = operands

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run on the CPU, in the tensors' own memory, or on copies of them in the device that ``target`` names.

        ``target`` is a CPU that LLVM knows, None this one, or ``pocl`` or ``oclgrind``. A CPU of another architecture
        is emulated.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
            ValueError: the target is none of these, or has instructions that this CPU lacks.
            NoDeviceError: the runtime or the emulator does not work here.
        """
        spec = self._admitted(inputs.spec, target)
        operands = self._operands(inputs, out)
        if target is not None and gpu.takes(target):
            self._gpu.run(spec, target, operands, inputs[0].shape[0])
            return
        self._cpu.run(spec, target, operands)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Return a shared library for a CPU, in TVM's calling convention, or machine code or source for a GPU.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against the specialisation.
            ValueError: the target is no GPU that TVM knows, and no CPU of this machine's architecture.
        """
        spec = self._admitted(spec, target)
        return self._gpu.artifact(spec, target) if gpu.takes(target) else self._cpu.artifact(spec, target)

    def code(self, spec: Any, target: str) -> Artifact | None:
        """Return the code that was emulated, which is in the cache; other devices get no artifact to run."""
        return self.compile(spec, target) if gfx.emulates(target) else None

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why neither form takes the specialisation, or None: the number of streams is the only limit."""
        return too_many_streams(spec)

    def _admitted(self, spec: Any, target: str | None) -> Any:
        """Return the specialisation to compile for ``spec``, or raise if there is a reason against it."""
        if reason := self.supports(spec, target):
            with stage("lower"):
                raise NotSupportedError(reason)
        return with_fp32_products(spec)
