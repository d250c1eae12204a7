"""A program of TileLang in its two forms, for GPUs and for CPUs: compile it ahead of time, or run it."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from mhc.backends import Artifact, combined, stage
from mhc.backends.tilelang import compilers
from mhc.backends.tilelang.compat import Lowered, cubin_of, load, lower
from mhc.toolchain import cubins, gfx, webgpu
from mhc.toolchain.cpus import Cpu, foreign
from mhc.toolchain.emulator import Emulated

# Below this many multiplications, one thread is done before a second one has started.
WORK_OF_THREAD = 1 << 20
# Bytes of the widest access of a GPU kernel, which faults on an address that is not a multiple of its size.
ALIGNMENT = 16

Operands = dict[str, torch.Tensor]

# What returns the code of a program that ran on a GPU, or None where the code is not known.
_codes: dict[tuple[Program, Any, str], Callable[[], Artifact | None]] = {}


@dataclass(frozen=True)
class Program:
    """``gpu`` makes the prim_func of a specialisation for CUDA and HIP, ``cpu`` that for C and a number of lanes.

    Both have the same parameters by name and shape. Sizes that are free at compile time are named in ``symbols``, each
    with a parameter that has it as its first dimension, or with a parameter and the number of the dimension.
    """

    gpu: Callable[[Any], Any]
    cpu: Callable[[Any, int], Any]
    symbols: tuple[tuple[str, str] | tuple[str, str, int], ...]

    @property
    def sizes(self) -> dict[str, tuple[str, int]]:
        """Return for each free size the parameter, and its dimension, that has it."""
        return {name: (parameter, dimension[0] if dimension else 0) for name, parameter, *dimension in self.symbols}

    def prim_func(self, spec: Any, target: str) -> Any:
        """Return the kernel for ``spec`` in the form of ``target``."""
        if kind_of(target) != "c":
            return _gpu_form(self.gpu, spec)  # the same for all architectures
        # As many lanes as a vector of the target has, for the targets that are known to have 512 bits.
        wide = target == "x86-64-v4" or (target == "native" and torch.backends.cpu.get_cpu_capability() == "AVX512")
        return self.cpu(spec, 16 if wide else 8)


def kind_of(target: str) -> str:
    """Return TileLang's name for the kind of ``target``."""
    if target in webgpu.TARGETS:
        return "webgpu"
    if target == "metal":
        return "metal"
    return "cuda" if target.startswith("sm_") else "hip" if target.startswith("gfx") else "c"


def target_of(device: torch.device) -> str:
    """Return the target that ``device`` is."""
    if device.type != "cuda":
        return "native"
    if torch.version.hip:
        return torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@cache
def lowered(program: Program, spec: Any, target: str) -> Lowered:
    """Return the source of the kernel."""
    spec = webgpu.in_words(spec) if kind_of(target) == "webgpu" else spec
    with stage("lower"):
        return lower(lambda: program.prim_func(spec, target), _tilelang_target(target))


@cache
def artifact(programs: tuple[Program, ...], spec: Any, target: str) -> Artifact:
    """Compile the kernels of ``programs`` as one source: compilers need most of their time for the headers.

    AMD's targets need a hipcc; without one the result is source, and for Metal and WebGPU it always is. The resources
    are the most that any kernel uses.
    """
    texts = [lowered(program, spec, target) for program in programs]
    source = "\n".join(text.source for text in texts)
    given = most(text.resources for text in texts)
    if kind_of(target) == "metal":
        return Artifact("metal-source", target, source.encode(), given)
    with stage("compile"):
        if kind_of(target) == "cuda":
            data, resources = compilers.cubin(source, target)
            # ptxas knows of static shared memory only; a launch adds what is dynamic.
            shared = resources.get("shared_bytes", 0) + given.get("shared_bytes", 0)
            return Artifact("cubin", target, data, {**given, **resources, "shared_bytes": shared})
        if kind_of(target) == "hip":
            hipcc = shutil.which("hipcc")
            if hipcc:
                data, resources = compilers.hsaco(source, target, hipcc)
                return Artifact("hsaco", target, data, {**given, **resources})
            static = max(compilers.static_shared_bytes(text.source) for text in texts)
            shared = static + given.get("shared_bytes", 0)
            return Artifact("hip-source", target, source.encode(), {**given, "shared_bytes": shared})
        if kind_of(target) == "webgpu":
            return Artifact("webgpu-source", target, source.encode(), given)
        if cpu := foreign(target):
            symbols = [text.symbol for text in texts]
            return Artifact("program", target, compilers.emulated_program(source, symbols, cpu))
        return Artifact("shared-object", target, compilers.shared_object(source, target))


def code_of(programs: Iterable[Program], spec: Any, target: str) -> Artifact | None:
    """Return the code that programs had on a GPU or on an emulated one in this process; None without any."""
    parts = [_codes[key]() for program in programs if (key := (program, spec, target)) in _codes]
    known = [part for part in parts if part is not None]
    return combined(known) if known else None


def most(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the largest amount of each resource."""
    resources: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            resources[name] = max(amount, resources.get(name, amount))
    return resources


def run_per_token(
    program: Program,
    spec: Any,
    target: str,
    operands: Operands,
    written: Iterable[str],
    shared: Iterable[str] = (),
    work: int = 1,
    group: int = 1,
    together: tuple[Program, ...] = (),
) -> None:
    """Run a kernel whose tokens do not depend on each other.

    ``written`` names the outputs among the operands and ``shared`` the operands that do not have the tokens as their
    first dimension. A CPU's threads share the tokens, ``group`` of them at a time; ``work`` is the work for one token.
    ``together`` names the programs that are compiled with this one, itself among them.
    """
    if kind_of(target) != "c":
        run_on_gpu(program, spec, target, operands, written)
        return
    per_token = [name for name in operands if name not in set(shared)]
    tokens = operands[per_token[0]].shape[0]
    threads = min(torch.get_num_threads(), -(-tokens * work // WORK_OF_THREAD))
    groups = -(-tokens // group)
    share = -(-groups // threads) * group
    calls = [
        operands | {name: operands[name][first : first + share] for name in per_token}
        for first in range(0, tokens, share)
    ]
    run_on_cpu(program, spec, target, calls, together)


def run_on_gpu(program: Program, spec: Any, target: str, operands: Operands, written: Iterable[str]) -> None:
    """Run one kernel on torch's current stream, on copies of the tensors on a WebGPU device, or on an emulated GPU."""
    if kind_of(target) == "webgpu":
        _run_on_webgpu(program, spec, target, operands)
        return
    first = next(iter(operands.values()))
    is_emulated = first.device.type == "cpu" and gfx.emulates(target)
    kernel = (_emulated_kernel if is_emulated else _gpu_kernel)(program, spec, target)
    with stage("launch"), _device_of(first):
        # A tensor that begins inside another one's storage may begin at any address: work on a copy of it then.
        aligned = {
            name: tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone() for name, tensor in operands.items()
        }
        kernel(aligned)
        for name, copy in aligned.items():
            if name in written and copy is not operands[name]:
                operands[name].copy_(copy)


def _run_on_webgpu(program: Program, spec: Any, target: str, operands: Operands) -> None:
    text = lowered(program, spec, target)
    numbers = {name: operands[tensor].shape[dimension] for name, (tensor, dimension) in program.sizes.items()}
    calls = [webgpu.Launch(text.source, text.grid(numbers))]
    with stage("compile"):
        webgpu.build_all(target, calls, operands)
    with stage("launch"):
        webgpu.launch(target, calls, operands, {}, numbers)


def run_on_cpu(
    program: Program, spec: Any, target: str, calls: Sequence[Operands], together: tuple[Program, ...] = ()
) -> None:
    """Run one kernel several times at once, on operands that each call has of its own or only reads.

    On a CPU of another architecture, which is emulated, one call comes after the other.
    """
    for tensor in calls[0].values():
        if tensor.device.type != "cpu":
            raise ValueError(f"{target} is a CPU target, and an operand is on {tensor.device}")
    together = together or (program,)
    parameters, sizes = lowered(program, spec, target).parameters, program.sizes

    def argument(operands: Operands, name: str) -> torch.Tensor | int:
        if name not in sizes:
            return operands[name]
        parameter, dimension = sizes[name]
        return operands[parameter].shape[dimension]

    if cpu := foreign(target):
        emulated, place = _emulated(together, spec, target, cpu), together.index(program)
        with stage("launch"):
            emulated.run([(place, {name: argument(operands, name) for name in parameters}) for operands in calls])
        return
    function = _cpu_function(program, together, spec, target)

    def call(operands: Operands) -> None:
        values = (argument(operands, name) for name in parameters)
        function(*(value.data_ptr() if isinstance(value, torch.Tensor) else value for value in values))

    with stage("launch"):
        others = [_pool(max(1, torch.get_num_threads() - 1)).submit(call, operands) for operands in calls[1:]]
        call(calls[0])
        for other in others:
            other.result()


def _tilelang_target(target: str) -> dict[str, str]:
    kind = kind_of(target)
    names = {"cuda": {"arch": target}, "hip": {"mcpu": target}}
    return {"kind": kind, **names.get(kind, {})}


@cache
def _gpu_form(form: Callable[[Any], Any], spec: Any) -> Any:
    return form(spec)


@cache
def _gpu_kernel(program: Program, spec: Any, target: str) -> Callable[[Operands], None]:
    lowered(program, spec, target)  # so that an error of this stage is marked as one
    with stage("compile"):
        kernel = load(program.prim_func(spec, target), _tilelang_target(target))
    _codes[program, spec, target] = lambda: _loaded_code(kernel, lowered(program, spec, target), target)
    return lambda operands: kernel(*operands.values())


def _loaded_code(kernel: Any, text: Lowered, target: str) -> Artifact | None:
    code = cubin_of(kernel)
    if code is None:
        return None
    resources = cubins.resources(code)
    shared = resources["shared_bytes"] + text.resources.get("shared_bytes", 0)
    return Artifact("cubin", target, code, {**text.resources, **resources, "shared_bytes": shared})


@cache
def _emulated_kernel(program: Program, spec: Any, target: str) -> Callable[[Operands], None]:
    """Return what launches the machine code for an AMD GPU in the emulator."""
    text, module = lowered(program, spec, target), gfx.module(artifact((program,), spec, target))
    _codes[program, spec, target] = lambda: artifact((program,), spec, target)

    def launch(operands: Operands) -> None:
        sizes = {name: operands[tensor].shape[dimension] for name, (tensor, dimension) in program.sizes.items()}
        given = [ctypes.c_int32(sizes[name]) if name in sizes else operands[name] for name in text.parameters]
        shared, threads = text.resources.get("shared_bytes", 0), text.resources["threads"]
        with gfx.ready():
            module.launch(text.symbol, text.grid(sizes), threads, given, shared)

    return launch


def _device_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


@cache
def _cpu_function(program: Program, together: tuple[Program, ...], spec: Any, target: str) -> Callable[..., int]:
    """Return the compiled function of ``program``; ctypes releases the interpreter's lock while it runs."""
    binary, text = artifact(together, spec, target), lowered(program, spec, target)
    with stage("compile"), tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        path = Path(folder) / "kernel.so"
        path.write_bytes(binary.data)
        function = getattr(ctypes.CDLL(str(path)), text.symbol)
    function.argtypes = [ctypes.c_int32 if name in program.sizes else ctypes.c_void_p for name in text.parameters]
    return function


@cache
def _emulated(together: tuple[Program, ...], spec: Any, target: str, cpu: Cpu) -> Emulated:
    return Emulated(artifact(together, spec, target).data, cpu)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="mhc-tilelang")
