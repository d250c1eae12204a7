"""Launch kernels by NVIDIA's driver, by AMD's runtime, or as fibers on this CPU. All are called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mhc.backends import stage
from mhc.backends.cpp.arguments import Arguments
from mhc.backends.cpp.compilers import THREADS, artifact, cpu_target
from mhc.backends.cpp.hopper import Shape, allow, config_of
from mhc.backends.cpp.source import Source
from mhc.backends.in_turn import like
from mhc.toolchain import gfx

_MESSAGE = 1024  # bytes
_ALIGNMENT = 16  # bytes of four fp32 elements, the widest load

I32, I64, U32, F32 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_float


class Launch(NamedTuple):
    """One kernel over a grid. An argument is a tensor, None for a tensor that is not given, or a value of ctypes.

    ``shape`` is for a kernel whose blocks have other numbers of threads than ``THREADS``, or dynamic shared memory.
    ``scratch`` are the arguments that only the launches of this call see; one of several launches names each.
    """

    kernel: str
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    shape: Shape | None = None
    scratch: tuple[torch.Tensor, ...] = ()


class LaunchError(RuntimeError):
    """A launch failed. The text comes from the driver, or from the fibers."""


Made = Callable[[], tuple[Source, Sequence[Launch]]]


def issue(made: Made, device: torch.device, addresses: list[int], target: str | None) -> Call | None:
    """Compile for ``target``, or for the device of the inputs, and run what ``made`` returns one after the other.

    On a GPU they go to PyTorch's current stream. On a CPU the machine code of an AMD GPU is emulated. ``addresses`` has
    the addresses of all tensors that the caller handed over. For aligned tensors, what ``made`` returns depends on
    nothing else than the shapes and options of the inputs, and the gradients that are asked for. So what is returned is
    the call for others of its kind, or None where there is none.

    Raises:
        ValueError: ``target`` is not what the device is.
        LaunchError: a launch failed.
    """
    if device.type == "cpu":
        _run_on_cpu(*made(), target)
        return None
    present = target_of(device)
    if target not in (None, present):
        raise ValueError(f"cpp: target is {target}, and the inputs are on {present}; for others there is compile()")
    is_current = torch.cuda.current_device() == device.index
    with contextlib.nullcontext() if is_current else torch.cuda.device(device):
        return _issued(made, device.index, addresses, present)


def _issued(made: Made, index: int, addresses: list[int], target: str) -> Call | None:
    """Run on the current stream of a GPU, which is the current one."""
    _driver().enter(index)
    source, launches = made()
    module = _module(source, target, index)
    scratch = [each for launch in launches for each in launch.scratch]
    addresses = [*addresses, *addresses_of(scratch)]
    with stage("launch"):
        call = Call(module, launches, addresses, index, [like(each) for each in scratch])
    call.run(addresses)
    return call if call.known and are_aligned(addresses) else None


def addresses_of(values: Iterable[Any]) -> list[int]:
    """Return the addresses of the tensors among some values."""
    return [value.data_ptr() for value in values if isinstance(value, torch.Tensor)]


def are_aligned(addresses: Sequence[int]) -> bool:
    """Return whether the widest loads may begin at these addresses."""
    return functools.reduce(operator.or_, addresses, 0) % _ALIGNMENT == 0


@functools.cache
def target_of(device: torch.device) -> str:
    """Return the target that a GPU is."""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def named_target(device: torch.device) -> str | None:
    """Return the target that a GPU is, None for a CPU."""
    return None if device.type == "cpu" else target_of(device)


def _run_on_cpu(source: Source, launches: Sequence[Launch], target: str | None) -> None:
    if target is not None and gfx.emulates(target):
        emulated = _emulated(source, target)
        with stage("launch"), gfx.ready():
            for launch in launches:
                emulated.launch(launch.kernel, launch.grid, THREADS, launch.arguments)
        return
    if target is not None and target.startswith("sm_"):
        raise ValueError(f"cpp: target is {target}, and the inputs are on a CPU; for others there is compile()")
    library = _library(source, target or cpu_target())
    with stage("launch"):
        for launch in launches:
            message = ctypes.create_string_buffer(_MESSAGE)
            function = getattr(library, f"{launch.kernel}_launch")
            sizes = map(ctypes.c_uint, (*launch.grid, THREADS))
            memory = Arguments(launch.arguments).take([])
            if function(*sizes, memory.pointers, message, ctypes.c_size_t(_MESSAGE)):
                raise LaunchError(message.value.decode(errors="replace"))


@functools.cache
def _emulated(source: Source, target: str) -> Any:
    return gfx.module(artifact(source, target))


@functools.cache
def _library(source: Source, target: str) -> ctypes.CDLL:
    binary = artifact(source, target)
    with stage("compile"), tempfile.TemporaryDirectory(prefix="mhc-") as folder:
        path = Path(folder, "kernels.so")
        path.write_bytes(binary.data)
        return ctypes.CDLL(str(path))


class _Driver:
    """The functions of CUDA's driver, or of HIP, which has the same ones under other names."""

    def __init__(self) -> None:
        if torch.version.hip:
            self._library = ctypes.CDLL(_loaded("libamdhip64.so"))
            names = ("hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel")
        else:
            self._library = ctypes.CDLL("libcuda.so.1")
            names = ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel")
        self._load, self._get, self._launch = (getattr(self._library, name) for name in names)
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._thread = threading.local()

    def enter(self, device: int) -> None:
        """Make the context of a device, which PyTorch uses too, current in this thread if the thread has none.

        Autograd runs the backward in a thread of its own, and PyTorch makes a context current there only when it needs
        one itself.
        """
        if torch.version.hip or hasattr(self._thread, "entered"):  # HIP has no such context
            return
        self._thread.entered = True
        current = ctypes.c_void_p()
        self._check(self._library.cuCtxGetCurrent(ctypes.byref(current)), "tell the current context")
        if current.value is None:
            self._check(self._library.cuCtxSetCurrent(self._context(device)), "make a context current")

    def _context(self, device: int) -> ctypes.c_void_p:
        """Return the primary context of a device. It is not given back: PyTorch keeps it until the process ends."""
        if device not in self._contexts:
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            self._check(self._library.cuDeviceGet(ctypes.byref(handle), ctypes.c_int(device)), "find the device")
            self._check(self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "hold the context")
            self._contexts[device] = context
        return self._contexts[device]

    def load(self, data: bytes) -> ctypes.c_void_p:
        """Load a binary into the current device's context."""
        module = ctypes.c_void_p()
        self._check(self._load(ctypes.byref(module), ctypes.c_char_p(data)), "load the binary")
        return module

    def function(self, module: ctypes.c_void_p, launch: Launch) -> ctypes.c_void_p:
        """Return the kernel of a launch, from a loaded binary."""
        function = ctypes.c_void_p()
        self._check(self._get(ctypes.byref(function), module, launch.kernel.encode()), f"find {launch.kernel}")
        if launch.shape is not None:
            self._check(allow(self._library, function, launch.shape), f"allow {launch.kernel} its blocks")
        return function

    def launcher(self, function: ctypes.c_void_p, launch: Launch) -> Callable[[int, Any], None]:
        """Return what launches a kernel on a stream, with pointers to its arguments; it keeps no tensor of these."""
        action, grid, shape = f"launch {launch.kernel}", launch.grid, launch.shape
        if shape is None:
            sizes = tuple(map(ctypes.c_uint, (*grid, THREADS, 1, 1, 0)))

            def start(stream: int, pointers: Any) -> None:
                if status := self._launch(function, *sizes, ctypes.c_void_p(stream), pointers, None):
                    self._check(status, action)

            return start

        configs: dict[int, Any] = {}  # by stream: to make one takes longer than the driver's call

        def start_with_shape(stream: int, pointers: Any) -> None:
            config = configs.get(stream)
            if config is None:
                config = configs[stream] = ctypes.byref(config_of(grid, shape, stream))
            if status := self._library.cuLaunchKernelEx(config, function, pointers, None):
                self._check(status, action)

        return start_with_shape

    def _check(self, status: int, action: str) -> None:
        if status:
            raise LaunchError(f"cpp: the driver cannot {action}: {self._text(status)}")

    def _text(self, status: int) -> str:
        text = ctypes.c_char_p()
        if torch.version.hip:
            self._library.hipGetErrorString.restype = ctypes.c_char_p
            text.value = self._library.hipGetErrorString(status)
        else:
            self._library.cuGetErrorString(status, ctypes.byref(text))
        return f"{(text.value or b'no such error').decode()} ({status})"


class _Module:
    """A source's kernels, loaded into one device."""

    def __init__(self, data: bytes) -> None:
        self._driver = _driver()
        self._module = self._driver.load(data)
        self._functions: dict[str, ctypes.c_void_p] = {}

    def launcher(self, launch: Launch) -> Callable[[int, Any], None]:
        """Return what launches one of the kernels."""
        function = self._functions.get(launch.kernel)
        if function is None:
            function = self._functions[launch.kernel] = self._driver.function(self._module, launch)
        return self._driver.launcher(function, launch)


class Call:
    """The launches of one call, which may have other addresses the next time, where all of these are ``known``.

    The last addresses are those of scratch, which ``room`` makes anew.
    """

    def __init__(
        self,
        module: _Module,
        launches: Sequence[Launch],
        addresses: Sequence[int],
        index: int,
        room: Sequence[Callable[[], torch.Tensor]] = (),
    ) -> None:
        self._room = room
        self._launches = [(module.launcher(each), Arguments(each.arguments, addresses)) for each in launches]
        self._index = index
        self.known = all(arguments.known for _, arguments in self._launches)

    def launch(self, addresses: list[int]) -> bool:
        """Launch as :meth:`run` in any thread, and return whether the addresses are aligned, which they must be."""
        if not are_aligned(addresses):
            return False
        _driver().enter(self._index)
        scratch = [each() for each in self._room]
        self.run([*addresses, *addresses_of(scratch)])
        return True

    def run(self, addresses: list[int]) -> None:
        """Launch on PyTorch's current stream with other addresses, in the order of those that were recorded."""
        try:
            stream = torch._C._cuda_getCurrentRawStream(self._index)
            for start, arguments in self._launches:
                memory = arguments.take(addresses)
                start(stream, memory.pointers)
                arguments.give_back(memory)
        except Exception as error:
            error.stage = "launch"  # type: ignore[attr-defined]
            raise


_driver = functools.cache(_Driver)


@functools.cache
def _module(source: Source, target: str, device: int) -> _Module:
    binary = artifact(source, target)
    with stage("compile"):
        if not binary.is_machine_code:
            raise FileNotFoundError(f"hipcc is missing: the cpp backend compiles its kernels for {target} with it")
        torch.cuda.current_stream(device)  # makes the context that the binary is loaded into
        return _Module(binary.data)


def _loaded(name: str) -> str:
    """Return the file of a library that this process has loaded, or the name where it has not."""
    paths = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if name in line)
    return next(paths, name)
