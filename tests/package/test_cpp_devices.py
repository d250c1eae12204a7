"""The calls of the backend ``cpp`` to CUDA's driver, with a library that stands in for it."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

pytest.importorskip("mhc.backends.cpp")

from mhc.backends.cpp import devices


class Library:
    """CUDA's driver for one thread: without a current context no kernel can be launched."""

    def __init__(self) -> None:
        self.current: int | None = None
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == "cuCtxGetCurrent":
                arguments[0]._obj.value = self.current
            if name == "cuDevicePrimaryCtxRetain":
                arguments[0]._obj.value = 0xC0
            if name == "cuCtxSetCurrent":
                self.current = arguments[0].value
            return 201 if name == "cuLaunchKernel" and self.current is None else 0

        return call


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    stand_in = Library()
    monkeypatch.setattr(devices.torch.version, "hip", None)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda name: stand_in)
    return stand_in


def launch(driver: devices._Driver) -> None:
    driver.launcher(ctypes.c_void_p(1), devices.Launch("kernel", (1, 1, 1), ()))(0, None)


def test_a_thread_without_a_context_gets_that_of_the_device(library: Library) -> None:
    driver = devices._Driver()
    with pytest.raises(devices.LaunchError, match=r"the driver cannot launch kernel: .* \(201\)"):
        launch(driver)
    driver.enter(0)
    assert library.current == 0xC0
    launch(driver)


def test_a_context_that_is_current_stays(library: Library) -> None:
    driver = devices._Driver()
    library.current = 0xA0
    driver.enter(0)
    assert library.current == 0xA0
    assert "cuDevicePrimaryCtxRetain" not in library.calls


def test_the_context_of_a_device_is_held_once(library: Library) -> None:
    driver = devices._Driver()
    for _ in range(3):
        library.current = None
        driver.enter(0)
    assert library.calls.count("cuDevicePrimaryCtxRetain") == 1
