"""Launch one kernel by a vendor's driver: ``python host.py FOLDER``, started in a simulator. It needs Python alone.

``FOLDER`` has ``job.json``, the code in ``image``, and a file for each range of memory, which is written back.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

_LIBRARIES = {
    "cuda": ("libcuda.so.1", "libcuda.so"),
    "hip": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"),
}
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_SHARED = 48 << 10
_TO_DEVICE, _TO_HOST = 1, 2  # hipMemcpyKind


class _Driver:
    """The functions of a driver that a launch needs."""

    def __init__(self, api: str) -> None:
        self._library = _loaded(api)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, and end if it fails."""
        if status := getattr(self._library, name)(*arguments):
            sys.exit(f"kernel-matrix: {name} failed with error {status}")


class _Cuda(_Driver):
    launch_name, load_name, function_name = "cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction"

    def begin(self) -> None:
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def write(self, address: int, content: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), content, ctypes.c_size_t(len(content)))

    def read(self, address: int, size: int) -> bytes:
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return content.raw

    def permit(self, function: Any, shared: int) -> None:
        if shared > _STATIC_SHARED:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)

    def wait(self) -> None:
        self.call("cuCtxSynchronize")


class _Hip(_Driver):
    launch_name, load_name, function_name = "hipModuleLaunchKernel", "hipModuleLoadData", "hipModuleGetFunction"

    def begin(self) -> None:
        self.call("hipInit", 0)
        self.call("hipSetDevice", 0)

    def allocate(self, size: int) -> int:
        address = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def write(self, address: int, content: bytes) -> None:
        self.call("hipMemcpy", ctypes.c_void_p(address), content, ctypes.c_size_t(len(content)), _TO_DEVICE)

    def read(self, address: int, size: int) -> bytes:
        content = ctypes.create_string_buffer(size)
        self.call("hipMemcpy", content, ctypes.c_void_p(address), ctypes.c_size_t(size), _TO_HOST)
        return content.raw

    def permit(self, function: Any, shared: int) -> None:
        """Do nothing: a workgroup may have all of the LDS."""

    def wait(self) -> None:
        self.call("hipDeviceSynchronize")


def _loaded(api: str) -> ctypes.CDLL:
    for name in _LIBRARIES[api]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit(f"kernel-matrix: the loader finds no {' or '.join(_LIBRARIES[api])}, by which kernels are launched")


def main(folder: Path) -> None:
    """Do the job."""
    job = json.loads((folder / "job.json").read_text())
    driver: Any = {"cuda": _Cuda, "hip": _Hip}[job["api"]](job["api"])
    driver.begin()
    places = []
    for number, one in enumerate(job["memory"]):
        places.append(driver.allocate(one["size"] + one["pad"]) + one["pad"])
        driver.write(places[-1], (folder / f"memory{number}").read_bytes())
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = (folder / "image").read_bytes()
    driver.call(driver.load_name, ctypes.byref(module), image)
    driver.call(driver.function_name, ctypes.byref(function), module, job["kernel"].encode())
    driver.permit(function, job["shared"])
    values = [_value(one, places) for one in job["arguments"]]
    buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
    pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    block = (job["threads"], 1, 1)
    driver.call(driver.launch_name, function, *job["grid"], *block, job["shared"], None, pointers, None)
    driver.wait()
    for number, (place, one) in enumerate(zip(places, job["memory"], strict=True)):
        (folder / f"memory{number}").write_bytes(driver.read(place, one["size"]))
    (folder / "done").touch()


def _value(argument: dict[str, Any], places: list[int]) -> bytes:
    """Return an argument as the kernel gets it."""
    if "bytes" in argument:
        return bytes.fromhex(argument["bytes"])
    address: int = places[argument["memory"]] + argument["offset"]
    return address.to_bytes(8, "little")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
