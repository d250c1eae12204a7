"""The functions of a vendor's driver that a launch needs. It needs Python alone, and is imported by ``host.py``."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_LIBRARIES = {
    "cuda": ("libcuda.so.1", "libcuda.so"),
    "hip": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"),
}
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_SHARED = 48 << 10
_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3  # hipMemcpyKind
_OF_PROCESSORS = 1  # CU_DEV_RESOURCE_TYPE_SM
_RESOURCE = 256  # bytes: a CUdevResource has 144
_DEFAULT_STREAM = 1  # CU_GREEN_CTX_DEFAULT_STREAM


class UnavailableError(Exception):
    """The driver has no such thing. The text says what."""


class Driver:
    """A driver: its library, and the names that both vendors' functions have after their prefix."""

    prefix = ""
    launch_name = load_name = function_name = ""

    def __init__(self, api: str) -> None:
        self._library = _loaded(api)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, and end if it fails."""
        if status := getattr(self._library, name)(*arguments):
            sys.exit(f"kernel-matrix: {name} failed with error {status}{self.meaning(status)}")

    def has(self, name: str) -> bool:
        """Return whether the library has a function."""
        return hasattr(self._library, name)

    def meaning(self, _: int) -> str:
        """Return what an error is, in words."""
        return ""

    def function(self, image: bytes, kernel: str) -> Any:
        """Return a kernel of an image."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call(self.load_name, ctypes.byref(module), image)
        self.call(self.function_name, ctypes.byref(function), module, kernel.encode())
        return function

    def launch(self, function: Any, grid: Any, threads: int, shared: int, pointers: Any) -> None:
        """Launch a kernel."""
        self.call(self.launch_name, function, *grid, threads, 1, 1, shared, None, pointers, None)

    def event(self) -> Any:
        """Return an event."""
        event = ctypes.c_void_p()
        self.call(f"{self.prefix}EventCreate", ctypes.byref(event), *self.event_flags)
        return event

    event_flags: tuple[int, ...] = ()

    def record(self, event: Any) -> None:
        """Let an event be now."""
        self.call(f"{self.prefix}EventRecord", event, None)

    def microseconds(self, begin: Any, end: Any) -> float:
        """Return the time between two events that have been."""
        passed = ctypes.c_float()
        self.call(f"{self.prefix}EventSynchronize", end)
        self.call(f"{self.prefix}EventElapsedTime", ctypes.byref(passed), begin, end)
        return passed.value * 1000

    def few(self, _: int) -> int:
        """Let later launches have some of the processors, and return how many.

        Raises:
            UnavailableError: this driver cannot.
        """
        raise UnavailableError("this driver gives no part of the processors")

    def whole(self) -> None:
        """Let later launches have all processors."""


class Cuda(Driver):
    """NVIDIA's driver."""

    prefix = "cu"
    launch_name, load_name, function_name = "cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction"
    event_flags = (0,)

    def begin(self, device: int) -> None:
        """Use a device."""
        self._device, self._context = ctypes.c_int(device), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self.whole()

    def whole(self) -> None:
        """Let later launches have all processors."""
        self.call("cuCtxSetCurrent", self._context)

    def meaning(self, status: int) -> str:
        """Return the name that the driver has for an error."""
        name = ctypes.c_char_p()
        if self.has("cuGetErrorName"):
            self._library.cuGetErrorName(status, ctypes.byref(name))
        return f" ({name.value.decode()})" if name.value else ""

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def write(self, address: int, content: bytes) -> None:
        """Copy to the device."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)))

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device."""
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return content.raw

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy on the device."""
        self.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size))

    def fill(self, address: int, byte: int, size: int) -> None:
        """Let every byte be the same."""
        self.call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(size))

    def permit(self, function: Any, shared: int) -> None:
        """Allow a kernel more shared memory than it may have without being asked for."""
        if shared > _STATIC_SHARED:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)

    def wait(self) -> None:
        """Wait for all launches."""
        self.call("cuCtxSynchronize")

    def few(self, processors: int) -> int:
        """Make a green context with the fewest processors that are no fewer, and use it."""
        if not self.has("cuGreenCtxCreate"):
            raise UnavailableError("this driver has no green contexts")
        every, part = (ctypes.create_string_buffer(_RESOURCE) for _ in range(2))
        groups, described, green, context = ctypes.c_uint(1), *(ctypes.c_void_p() for _ in range(3))
        self._try("cuDeviceGetDevResource", self._device, every, _OF_PROCESSORS)
        self._try("cuDevSmResourceSplitByCount", part, ctypes.byref(groups), every, None, 0, processors)
        self._try("cuDevResourceGenerateDesc", ctypes.byref(described), part, 1)
        self._try("cuGreenCtxCreate", ctypes.byref(green), described, self._device, _DEFAULT_STREAM)
        self._try("cuCtxFromGreenCtx", ctypes.byref(context), green)
        self.call("cuCtxSetCurrent", context)
        return int.from_bytes(part.raw[96:100], "little")  # CUdevSmResource.smCount

    def _try(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise UnavailableError(f"{name} failed with error {status}{self.meaning(status)}")

    def described(self, device: int) -> dict[str, Any]:
        """Return the name and the architecture of a device."""
        self.call("cuInit", 0)
        count, number, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if device >= count.value:
            sys.exit(f"kernel-matrix: there is no device {device}: the driver has {count.value}")
        self.call("cuDeviceGet", ctypes.byref(number), device)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 255, number)
        parts = []
        for attribute in (75, 76, 16):  # COMPUTE_CAPABILITY_MAJOR and MINOR, MULTIPROCESSOR_COUNT
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
            parts.append(value.value)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "name": name.value.decode(),
            "target": f"sm_{parts[0]}{parts[1]}",
            "processors": parts[2],
            "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}",
        }


class Hip(Driver):
    """AMD's driver."""

    prefix = "hip"
    launch_name, load_name, function_name = "hipModuleLaunchKernel", "hipModuleLoadData", "hipModuleGetFunction"

    def begin(self, device: int) -> None:
        """Use a device."""
        self.call("hipInit", 0)
        self.call("hipSetDevice", device)

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        address = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def write(self, address: int, content: bytes) -> None:
        """Copy to the device."""
        self._copy(ctypes.c_void_p(address), content, len(content), _TO_DEVICE)

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device."""
        content = ctypes.create_string_buffer(size)
        self._copy(content, ctypes.c_void_p(address), size, _TO_HOST)
        return content.raw

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy on the device."""
        self._copy(ctypes.c_void_p(to), ctypes.c_void_p(source), size, _ON_DEVICE)

    def _copy(self, to: Any, source: Any, size: int, kind: int) -> None:
        self.call("hipMemcpy", to, source, ctypes.c_size_t(size), kind)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Let every byte be the same."""
        self.call("hipMemset", ctypes.c_void_p(address), byte, ctypes.c_size_t(size))

    def permit(self, function: Any, shared: int) -> None:
        """Do nothing: a workgroup may have all of the LDS."""

    def wait(self) -> None:
        """Wait for all launches."""
        self.call("hipDeviceSynchronize")

    def described(self, device: int) -> dict[str, Any]:
        """Refuse: what a device of AMD is called is asked of PyTorch's own tools.

        Raises:
            UnavailableError: always.
        """
        raise UnavailableError(f"what AMD's device {device} is: this was never tried on an AMD GPU")


DRIVERS: dict[str, Any] = {"cuda": Cuda, "hip": Hip}


def _loaded(api: str) -> ctypes.CDLL:
    for name in _LIBRARIES[api]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit(f"kernel-matrix: the loader finds no {' or '.join(_LIBRARIES[api])}, by which kernels are launched")
