"""Stand in for the driver that Triton asks: what device is here, and how long a kernel takes on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..settings import Target
from .questions import StandIn


class Driver(StandIn):
    """The driver of a device that is not here. A compiler's process sets ``target`` to the one it compiles for."""

    def __init__(self, target: Target) -> None:
        super().__init__("triton.runtime.driver.active", target=target)
        self.__dict__["utils"] = StandIn("driver.active.utils", get_device_properties=self.properties)

    def properties(self, _: int = 0) -> dict[str, Any]:
        """Return what Triton's own drivers tell of a device."""
        target: Target = self.__dict__["target"]
        return {
            "max_shared_mem": target.facts["shared"],
            "multiprocessor_count": target.facts["processors"],
            "max_num_regs": 65536,
            "max_threads_per_sm": 2048,
            "warpSize": target.warp,
            "sm_clock_rate": 1_755_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
            "arch": str(target.arch),
        }

    def get_current_target(self) -> Any:
        """Return the target as Triton's compiler takes it."""
        from triton.backends.compiler import GPUTarget

        target: Target = self.__dict__["target"]
        return GPUTarget(target.backend, target.arch, target.warp)

    def get_current_device(self) -> int:
        """Return the number of the only device."""
        return 0

    def set_current_device(self, _: int) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, _: int = 0) -> int:
        """Return the default stream."""
        return 0

    def get_device_capability(self, _: int = 0) -> tuple[int, int]:
        """Return the compute capability."""
        target: Target = self.__dict__["target"]
        return target.capability

    def get_active_torch_device(self) -> Any:
        """Return the device as PyTorch names it; AMD's has the same name."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return PyTorch's module of the device, which is a stand-in too."""
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a function that calls a kernel once and says that it took a millisecond."""

        def benchmark(call: Callable[[], object], *, quantiles: Any = None, **_: object) -> list[float]:
            call()
            return [1.0] * len(quantiles or (0.5,))

        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return a small buffer: there is no cache to empty."""
        import torch

        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, _: object) -> None:
        """Do nothing."""


def install(target: Target) -> Driver:
    """Make the stand-in Triton's driver, and return it."""
    from triton.runtime import driver

    stand_in = Driver(target)
    driver.set_active(stand_in)
    return stand_in
