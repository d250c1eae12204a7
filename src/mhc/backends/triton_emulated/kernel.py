"""A kernel of Triton on an emulated GPU: compiled as for a card, and launched through the emulator's driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gfx_emulator.errors import NoCompilerError
from gfx_emulator.library import CACHE
from gfx_emulator.triton_driver import emulated
from mhc.backends import Artifact, NoDeviceError, NotSupportedError, stage
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.kernel import Kernel as TritonKernel
from mhc.backends.triton.prepared import Prepared

if "MHC_CACHE_DIR" in os.environ:  # beside the compiled kernels
    os.environ.setdefault(CACHE, str(Path(os.environ["MHC_CACHE_DIR"], "gfx_emulator")))


class Kernel:
    """One operator in one direction: the device functions of a kernel of Triton, on another device."""

    any_leading_dims = False  # the launches take the tokens in one dimension

    def __init__(self, kernel: TritonKernel) -> None:
        """Take Triton's kernel."""
        self._kernel = kernel
        self.adds_to_first = kernel.adds_to_first

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why this kernel does not run ``spec`` on ``target``, or None where it does."""
        return "no target is named" if target is None else self._kernel.supports(spec, target, tokens)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` as Triton's kernel does."""
        return self._kernel.compile(spec, target)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Run the machine code for ``target`` on this CPU.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
            NoDeviceError: there is no compiler to build the emulator with.
            FoundError: the machine code did something that is a fault.
        """
        reason = self.supports(inputs.spec, target)
        if target is None or reason is not None:
            raise NotSupportedError(f"triton_emulated: {reason}")
        with stage("lower"):
            tiles = self._kernel.configure(inputs.spec, gpu_target(target))
            launches = self._kernel.launches(inputs, out, tiles)
        try:
            with emulated(target):
                Prepared(bare=False).launch(launches, (*inputs, *out), inputs[0].device)
        except NoCompilerError as error:
            raise NoDeviceError(str(error)) from None
