"""PyTorch's compiler, which would run plain code in a kernel's place and say so in a log alone.

Nothing here imports it: to import it takes seconds, and most kernels do not. It compiles in the kernel's process. By
default it starts others for GPUs, which look once a second whether anybody needs them, and end after a minute.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from kernel_matrix.kit.frameworks.base import Framework

_LIMITS = ("recompile_limit", "accumulated_recompile_limit")
_COMPILATIONS = 1000  # of one function in one case, for other shapes, strides, dtypes and modes
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # it is read when the compiler is imported


class Compiling(Framework):
    """A framework that has PyTorch's compiler."""

    def begin(self) -> None:
        """Forget what PyTorch's compiler has made: what it makes for some shapes follows those that came before."""
        if self.compiles():
            sys.modules["torch._dynamo"].reset()

    def insist(self) -> None:
        """Have PyTorch's compiler compile, or fail: after eight compilations of a function it would run plain code.

        The settings are those of a thread, and a package may set them where it is imported.
        """
        config: Any = sys.modules.get("torch._dynamo.config")
        if config is None:
            return
        limits = {name: max(getattr(config, name), _COMPILATIONS) for name in _LIMITS}
        for name, value in {**limits, "fail_on_recompile_limit_hit": True, "suppress_errors": False}.items():
            if getattr(config, name) != value:  # to set one takes PyTorch time in each call after it
                setattr(config, name, value)

    def why_once(self, error: str) -> str:
        """Return that the backward which PyTorch's compiler makes writes into what the forward has saved."""
        return "torch.compile lets it run once: donated buffers" if "non-empty donated buffers" in error else ""

    def compiles(self) -> bool:
        """Return whether PyTorch's compiler has made code in this process."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo is not None and dynamo.counters["frames"]["ok"] > 0
