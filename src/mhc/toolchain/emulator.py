"""Run kernels for CPUs of another architecture: a program that is linked statically, in QEMU's user mode."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mhc.backends import NoDeviceError
from mhc.toolchain.cache import Entry, cached
from mhc.toolchain.compilers import identity
from mhc.toolchain.cpus import Cpu

RUNNER = Path(__file__).with_name("runner")

Operand = torch.Tensor | int | None
Call = tuple[int, Mapping[str, Operand]]  # the place of a kernel in the program, and its operands by name

_NOTHING, _NUMBER, _TENSOR = range(3)
_OVERRUN = 3  # the exit status of the runner
_CODES = {torch.float32: 2, torch.float16: 2, torch.bfloat16: 4, torch.uint16: 1, torch.int32: 0}  # of DLPack


def compiler_of(cpu: Cpu) -> str:
    """Return the cross compiler for the CPU.

    Raises:
        NoDeviceError: it is not installed.
    """
    name = f"{cpu.machine}-linux-gnu-g++"
    if path := shutil.which(name):
        return path
    raise NoDeviceError(f"{name} is not on PATH (Debian: sudo apt-get install g++-{cpu.machine}-linux-gnu)")


def emulator_of(cpu: Cpu) -> str:
    """Return QEMU's user mode emulator of the CPU's architecture.

    Raises:
        NoDeviceError: it is not installed.
    """
    for name in (f"qemu-{cpu.machine}", f"qemu-{cpu.machine}-static"):
        if path := shutil.which(name):
            return path
    raise NoDeviceError(f"qemu-{cpu.machine} is not on PATH (Debian: sudo apt-get install qemu-user-static)")


def program(
    cpu: Cpu, sources: Mapping[str, str], flags: Sequence[str], includes: Iterable[str] = (), linked: bytes = b""
) -> bytes:
    """Compile C++ ``sources`` by file name, and link them with the runner and an object file into a static program.

    Raises:
        NoDeviceError: there is no compiler for the CPU.
        RuntimeError: the compiler or the linker failed; the message is its own.
    """
    compiler, options = compiler_of(cpu), ["-static", "-O2", "-std=c++17", "-w", *flags, *cpu.flags]
    runner = {path.name: path.read_text(encoding="utf-8") for path in sorted(RUNNER.iterdir()) if path.is_file()}

    def key() -> list[str]:
        texts = [*sources.values(), *runner.values(), linked.hex()]
        return [*texts, *options, identity(compiler), *includes]

    def make() -> Entry:
        with tempfile.TemporaryDirectory(prefix="mhc-") as name:
            folder = Path(name)
            for file, text in sources.items():
                (folder / file).write_text(text, encoding="utf-8")
            (folder / "kernel.o").write_bytes(linked)
            inputs = [str(RUNNER / "runner.cc"), *(str(folder / file) for file in sources)]
            inputs += [str(folder / "kernel.o")] if linked else []
            command = [compiler, *options, f"-I{RUNNER}", *(f"-I{include}" for include in includes), *inputs]
            command += ["-lm", "-o", str(folder / "program")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr or f"{compiler} exited with status {done.returncode}")
            return (folder / "program").read_bytes(), {}

    return cached(key, make)[0]


class Emulated:
    """A program in a file of its own, which an emulator runs anew for every list of calls."""

    def __init__(self, data: bytes, cpu: Cpu) -> None:
        """Write the program to a file that is there as long as this object."""
        self._cpu = cpu
        folder = tempfile.mkdtemp(prefix="mhc-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = Path(folder, "program")
        self._path.write_bytes(data)
        self._path.chmod(0o755)

    def run(self, calls: Sequence[Call]) -> None:
        """Run the calls one after the other on copies of their tensors, and copy all of these back.

        Raises:
            NoDeviceError: there is no emulator of the CPU.
            RuntimeError: the program failed, or a kernel wrote past an end of an operand.
        """
        command = [emulator_of(self._cpu), "-cpu", self._cpu.emulated, str(self._path)]
        done = subprocess.run(command, input=b"".join(_parts(calls)), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(self._fault(done, list(calls[0][1])))
        tensors = [value for _, operands in calls for value in operands.values() if isinstance(value, torch.Tensor)]
        if len(done.stdout) != sum(tensor.numel() * tensor.element_size() for tensor in tensors):
            raise RuntimeError(f"{self._cpu.emulated}: {len(done.stdout)} bytes came back, which are not all results")
        place = 0
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            _bytes(tensor)[:] = np.frombuffer(done.stdout, np.uint8, size, place)
            place += size

    def _fault(self, done: subprocess.CompletedProcess[bytes], names: Sequence[str]) -> str:
        """Return what went wrong, in the words of the program or of the emulator."""
        text = " ".join(done.stderr.decode(errors="replace").split())
        if done.returncode == _OVERRUN and (place := re.search(r"(\d+)$", text)):
            text = f"the kernel wrote past an end of {names[int(place[1])]}"
        return f"{Path(emulator_of(self._cpu)).name}: {text or f'exit status {done.returncode}'}"


def _parts(calls: Sequence[Call]) -> Iterable[bytes]:
    """Yield the request: the number of calls, then each call as the runner reads it."""
    yield _words(len(calls))
    for kernel, operands in calls:
        yield _words(kernel, len(operands))
        for value in operands.values():
            if isinstance(value, torch.Tensor):
                yield _words(_TENSOR, _CODES[value.dtype], 8 * value.element_size(), value.dim(), *value.shape)
                yield _bytes(value).tobytes()
            else:
                yield _words(_NOTHING) if value is None else _words(_NUMBER, value)


def _words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def _bytes(tensor: torch.Tensor) -> Any:
    """Return the tensor's own memory as bytes: NumPy has no bf16."""
    return tensor.view(-1).view(torch.uint8).numpy()
