"""CuTe DSL's compiler, which needs no GPU: a kernel becomes a cubin for the architecture that is named."""

from __future__ import annotations

import functools
import hashlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_ptr

from mhc.backends import Artifact, combined, stage
from mhc.backends.cute.sizes import THREADS, Sizes
from mhc.toolchain.cache import Entry, cached
from mhc.toolchain.cubins import entry_of, resources

ELEMENTS = {torch.float32: cutlass.Float32, torch.bfloat16: cutlass.BFloat16, torch.float16: cutlass.Float16}


@dataclass(frozen=True)
class Program:
    """A kernel with its constants. ``parameters`` has the dtype of each tensor, and None for a number of tokens."""

    kernel: Callable[..., Any]
    parameters: tuple[torch.dtype | None, ...]
    sizes: Sizes

    @property
    def name(self) -> str:
        """Return the name that the kernel's function has in Python."""
        return str(getattr(self.kernel, "__name__", self.kernel))


def artifact(programs: tuple[Program, ...], target: str) -> Artifact:
    """Compile the kernels of one operator for ``sm_90`` or another target: their cubins, and the most that one uses."""
    return combined([Artifact("cubin", target, *cubin(program, target)[:2]) for program in programs])


@functools.cache
def cubin(program: Program, target: str) -> tuple[bytes, dict[str, int], str]:
    """Return the machine code of a kernel for a target, the resources that it uses, and its name in the code.

    Raises:
        ValueError: the target is no GPU of NVIDIA's.
        Exception: the compiler failed; the message is its own.
    """
    if not re.fullmatch(r"sm_\d+", target):
        with stage("lower"):
            raise ValueError(f"the cute backend compiles for NVIDIA's GPUs only, and the target is {target}")

    def make() -> Entry:
        _, code = compiled(program, target)
        return code, resources(code)

    def key() -> list[str]:
        return [program.name, repr(program.parameters), repr(program.sizes), target, _identity()]

    with stage("compile"):
        code, facts = cached(key, make)
        return code, {**facts, "threads": THREADS}, entry_of(code)


def compiled(program: Program, target: str) -> tuple[str, bytes]:
    """Return the PTX and the machine code of a kernel."""
    arguments = tuple(
        cutlass.Int32(1)
        if dtype is None
        else make_ptr(ELEMENTS[dtype], 0, cute.AddressSpace.gmem, assumed_align=4 * program.sizes.vector)
        for dtype in program.parameters
    )
    # From Hopper on the compiler knows a target with an "a" only.
    arch = f"{target}a" if int(target.removeprefix("sm_")) >= 90 else target
    with tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        options = f"--gpu-arch={arch} --keep-ptx --keep-cubin --dump-dir={folder}"
        # Where the GPU is here, it would also make code for the host, which nothing calls: the driver launches.
        made = cute.compile(_host, program.kernel, program.sizes, arguments, no_jit_engine=True, options=options)
        return str(made.__ptx__), bytes(made.__cubin__)


@cute.jit
def _host(kernel: cutlass.Constexpr, sizes: cutlass.Constexpr, arguments: tuple):
    """Launch the kernel. The compiler asks for it; the machine code is launched by the driver, on a grid of its own."""
    kernel(*arguments, sizes).launch(grid=[1, 1, 1], block=[THREADS, 1, 1])


@functools.cache
def _identity() -> str:
    """Return the compiler's version and a checksum of this backend."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    checksum = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return f"{version('nvidia-cutlass-dsl')} {checksum}"
