"""The GPU form: a kernel is a few scripts for blocks of threads, launched one after the other.

One source serves CUDA, ROCm, Metal, OpenCL (Intel's GPUs, and runtimes on CPUs) and WebGPU, and every number of tokens.
Sums have a fixed order, so that the same inputs give the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends import Artifact, stage
from mhc.backends.tvm import devices, opencl
from mhc.backends.tvm.limits import check
from mhc.backends.tvm.runtimes import RUNTIMES
from mhc.backends.tvm.vectors import name_of, narrow, wide
from mhc.toolchain import gfx, intel, webgpu
from mhc.toolchain.cache import Entry, cached
from mhc.toolchain.compilers import compile_source, cubin_flags, find_nvcc, identity, ptxas_resources

# A power of two: the tree of sums halves it down to one.
THREADS = 128


@dataclass(frozen=True)
class Dialect:
    """The parts of a kernel that differ between kinds of device.

    ``kind`` is TVM's name of one. With ``unrolled`` short loops become straight code.
    """

    kind: str
    unrolled: bool = True

    @property
    def each(self) -> Any:
        """Return a short loop: unrolled, so that arrays become registers. For a CPU that only costs compile time."""
        return T.unroll if self.unrolled else T.serial

    def stored(self, dtype: torch.dtype) -> str:
        """Return TVM's name of what memory holds. OpenCL devices without half precision still convert its bits."""
        return "uint16" if self._half_bits(dtype) else name_of(dtype)

    def wide(self, dtype: torch.dtype, value: Any) -> Any:
        """Return the value in fp32."""
        return T.call_pure_extern("float32", "mhc_float_of", value) if self._half_bits(dtype) else wide(value)

    def narrow(self, dtype: torch.dtype, value: Any) -> Any:
        """Return the fp32 value rounded to ``dtype``."""
        if self._half_bits(dtype):
            return T.call_pure_extern("uint16", "mhc_half_of", value)
        # NAN of OpenCL may have all bits set. It would become -0.
        nan = T.reinterpret("float32", T.uint32(0x7FC00000)) if self.kind == "opencl" else None
        return narrow(name_of(dtype), value, nan)

    def _half_bits(self, dtype: torch.dtype) -> bool:
        return self.kind == "opencl" and dtype == torch.float16


@dataclass(frozen=True)
class Launch:
    """A script and its grid: ``blocks`` returns how many blocks a number of tokens needs, in x and in y.

    Where ``serves`` names gradients (``x``), the script is launched only if one of them is asked for.
    """

    script: tvm.tirx.PrimFunc
    blocks: Callable[[int], tuple[int, int]]
    serves: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the script's name; TVM calls its device code ``NAME_kernel``."""
        return str(self.script.attrs["global_symbol"])

    def is_needed(self, operands: Mapping[str, Any]) -> bool:
        """Return whether a call launches the script; ``operands`` has a number ``needs_NAME`` for each gradient."""
        return not self.serves or any(operands[f"needs_{name}"] for name in self.serves)


# Makes the launches of an operator for a spec.
Scripts = Callable[[Any, Dialect], tuple[Launch, ...]]

# The shapes of the fp32 tensors that the launches hand on to each other, for a spec and a number of tokens.
Scratch = Callable[[Any, int], Mapping[str, tuple[int, ...]]]


def takes(target: str | None) -> bool:
    """Return whether the target is one of this form."""
    names = ("metal", *RUNTIMES, *webgpu.TARGETS, *intel.DEVICES)
    return target is not None and (target.startswith(("sm_", "gfx")) or target in names)


def _nothing(_spec: Any, _tokens: int) -> Mapping[str, tuple[int, ...]]:
    return {}


class GpuForm:
    """The scripts of a kernel, compiled once for each spec and target."""

    def __init__(self, name: str, scripts: Scripts, scratch: Scratch = _nothing) -> None:
        self._name = name
        self._scripts = scripts
        self._scratch = scratch
        self._programs = functools.cache(self._program)
        self._shaders = functools.cache(self._shader)
        self._launches = functools.cache(self._checked)
        self._emulated = functools.cache(lambda spec, target: gfx.module(self.artifact(spec, target)))

    def run(self, spec: Any, runtime: str, operands: Mapping[str, torch.Tensor | int | None], tokens: int) -> None:
        """Run in an OpenCL runtime or on a WebGPU device, on copies of the tensors, or on an emulated AMD GPU.

        A number among the operands says whether a gradient is asked for (:meth:`Launch.is_needed`).

        Raises:
            ValueError: there is no such runtime; a wheel of TVM has none for other GPUs.
            mhc.backends.NoDeviceError: the runtime does not work here.
        """
        if runtime in webgpu.TARGETS:
            self._run_on_webgpu(spec, runtime, operands, tokens)
            return
        if gfx.emulates(runtime):
            self._run_emulated(spec, runtime, operands, tokens)
            return
        if runtime not in RUNTIMES:
            names = ", ".join((*RUNTIMES, *webgpu.TARGETS))
            raise ValueError(f"{self._name}: the tvm backend runs GPU code in {names} only")
        source, launches = self._programs(spec, unrolled=False)
        with stage("compile"):
            program = opencl.build(runtime, source)
        grids = {f"{one.name}_kernel": one.blocks(tokens) for one in launches if one.is_needed(operands)}
        tensors = {name: value for name, value in operands.items() if isinstance(value, torch.Tensor)}
        with stage("launch"):
            opencl.launch(runtime, program, grids, THREADS, tensors, self._scratch(spec, tokens), {"tokens": tokens})

    def _run_on_webgpu(self, spec: Any, target: str, operands: Mapping[str, Any], tokens: int) -> None:
        shaders = self._shaders(spec, target)
        calls = [
            webgpu.Launch(source, launch.blocks(tokens)) for launch, source in shaders if launch.is_needed(operands)
        ]
        tensors = {name: value for name, value in operands.items() if isinstance(value, torch.Tensor)}
        with stage("compile"):
            webgpu.build_all(target, calls, tensors)
        with stage("launch"):
            webgpu.launch(target, calls, tensors, self._scratch(spec, tokens), {"tokens": tokens})

    def _run_emulated(self, spec: Any, target: str, operands: Mapping[str, Any], tokens: int) -> None:
        module = self._emulated(spec, target)
        with stage("lower"):
            _, launches = self._module(spec, devices.target_of(target), unrolled=True)
        scratch = {name: torch.empty(shape) for name, shape in self._scratch(spec, tokens).items()}
        values = {**operands, **scratch, "tokens": ctypes.c_int64(tokens)}
        with stage("launch"), gfx.ready():
            for launch in launches:
                if launch.is_needed(operands):
                    kernel = f"{launch.name}_kernel"
                    given = [values[one.name.removesuffix("_ptr")] for one in module.parameters(kernel)]
                    module.launch(kernel, launch.blocks(tokens), THREADS, given)

    def artifact(self, spec: Any, target: str) -> Artifact:
        """Return a cubin through nvcc for ``sm_90``, and source for Metal, WebGPU and OpenCL runtimes.

        For ``gfx942`` it is a code object where LLVM's linker is, and else the object that one would link. For ``bmg``
        it is a binary where ocloc is, and else source.
        """

        def key() -> list[str]:
            return [self._name, repr(spec), target, _compilers(target), _sources()]

        def make() -> Entry:
            kind, data, resources = self._compile(spec, target)
            return data, {"kind": kind, "resources": resources}

        data, facts = cached(key, make)
        kind = facts["kind"]
        if kind == "elf":
            with stage("compile"):
                linked = devices.code_object(data)
            kind, data = (kind, data) if linked is None else ("hsaco", linked)
        return Artifact(kind, target, data, {**facts["resources"], "threads": THREADS})

    def _compile(self, spec: Any, target: str) -> tuple[str, bytes, dict[str, int]]:
        with stage("lower"):
            device = devices.target_of(target)
        if device.kind.name == "opencl":
            return self._of_opencl(spec, target)
        with stage("lower"):
            if target in webgpu.TARGETS:
                text = "\n".join(source for _, source in self._shaders(spec, target))
                return "webgpu-source", text.encode(), {}
            module, _ = self._module(spec, device, unrolled=True)
        if device.kind.name == "rocm":
            with stage("compile"):
                return "elf", *devices.amdgpu_object(module, target)
        with stage("lower"):
            source = devices.source(module, device)
        if device.kind.name == "cuda":
            with stage("compile"):
                data, log = compile_source([find_nvcc(), *cubin_flags(target)], source, ".cu", ".cubin")
                return "cubin", data, ptxas_resources(log)
        return f"{device.kind.name}-source", source.encode(), {}

    def _of_opencl(self, spec: Any, target: str) -> tuple[str, bytes, dict[str, int]]:
        source = opencl.PRELUDE + self._programs(spec, unrolled=target not in RUNTIMES)[0]
        if target in intel.DEVICES and (ocloc := intel.find_ocloc()):
            with stage("compile"):
                return "zebin", *intel.machine_code(ocloc, target, source)
        return "opencl-source", source.encode(), {}

    def _program(self, spec: Any, *, unrolled: bool) -> tuple[str, tuple[Launch, ...]]:
        """Return the source in OpenCL, which is the same for every device, and its launches."""
        with stage("lower"):
            device = devices.target_of("opencl")
            module, launches = self._module(spec, device, unrolled=unrolled)
            return devices.source(module, device), launches

    def _shader(self, spec: Any, target: str) -> tuple[tuple[Launch, str], ...]:
        """Return each launch with its source in WGSL, which cannot hold several kernels with buffers of one name."""
        with stage("lower"):
            device = devices.target_of(target)
            launches = self._launches(webgpu.in_words(spec), Dialect(device.kind.name, unrolled=False))
            modules = [tvm.IRModule({launch.name: launch.script}) for launch in launches]
            return tuple(
                (launch, devices.source(module, device)) for launch, module in zip(launches, modules, strict=True)
            )

    def _module(self, spec: Any, device: Target, *, unrolled: bool) -> tuple[tvm.IRModule, tuple[Launch, ...]]:
        launches = self._launches(spec, Dialect(device.kind.name, unrolled))
        return tvm.IRModule({launch.name: launch.script for launch in launches}), launches

    def _checked(self, spec: Any, dialect: Dialect) -> tuple[Launch, ...]:
        """Return the launches, which are the same for all architectures of a dialect."""
        launches = self._scripts(spec, dialect)
        for launch in launches:
            check(launch.script, dialect.kind)
        return launches


@functools.cache
def _compilers(target: str) -> str:
    """Return the versions of what compiles for ``target``."""
    program = find_nvcc() if target.startswith("sm_") else intel.find_ocloc() if target in intel.DEVICES else None
    return f"{tvm.__version__} {identity(program) if program else ''}"


@functools.cache
def _sources() -> str:
    """Return a checksum of the files on which scripts depend: this backend, what backends share, ops, toolchain."""
    package = Path(__file__).parents[2]
    files = list((package / "backends").glob("*.py"))
    for folder in (Path(__file__).parent, package / "ops", package / "toolchain"):
        files += folder.rglob("*.py")
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


def add_up(dialect: Dialect, height: int, rows: int) -> Any:
    """Return a macro ``add(acc, tree, sums, thread, first=0)``: all ``acc[t, o]`` add up to ``sums[t, first + o]``.

    The macro adds in a tree over the threads, through the shared array ``tree`` [rows, THREADS // 2]. ``sums``, with
    ``height`` rows, is shared too. At each level the upper half of the threads hands its sums to the lower one.
    """
    each = dialect.each

    @T.macro
    def add(acc, tree, sums, thread, first=0):
        for t in each(height):
            for level in T.serial(THREADS.bit_length() - 1):
                reach: T.let = T.shift_right(THREADS // 2, level)
                if thread >= reach and thread < 2 * reach:
                    for o in each(rows):
                        tree[o, thread - reach] = acc[t, o]
                T.tvm_storage_sync("shared")
                if thread < reach:
                    for o in each(rows):
                        acc[t, o] = acc[t, o] + tree[o, thread]
                T.tvm_storage_sync("shared")
            if thread == 0:
                for o in each(rows):
                    sums[t, first + o] = acc[t, o]
            T.tvm_storage_sync("shared")

    return add
