"""Stand in for ``torch.cuda``: what programs ask of a device before they launch anything on it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from ..settings import Target
from .questions import StandIn, refuse

_GIB = 1 << 30


class Device(contextlib.nullcontext[None]):
    """``torch.cuda.device`` and ``torch.cuda.stream``: there is one device with one stream."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()


class Stream:
    """``torch.cuda.Stream``: nothing is done on it, so that all of it is done."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *_: object, **__: object) -> None: ...

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return that all work is done."""
        return True

    def wait_stream(self, _: object) -> None:
        """Do nothing."""

    wait_event = record_event = wait_stream


class Event(Stream):
    """``torch.cuda.Event``: between two events lies a millisecond."""

    def record(self, *_: object) -> None:
        """Do nothing."""

    wait = record

    def elapsed_time(self, _: object) -> float:
        """Return a time that nobody has measured."""
        return 1.0


def install(target: Target) -> None:
    """Make PyTorch say that the target is here."""
    import torch

    hip = target.backend == "hip"
    answers = _answers(target)
    for name, value in answers.items():
        setattr(torch.cuda, name, _answering(value))
    for name, kind in {
        "device": Device,
        "device_of": Device,
        "stream": Device,
        "Stream": Stream,
        "Event": Event,
    }.items():
        setattr(torch.cuda, name, kind)
    torch.cuda._lazy_init = _unknown
    torch.cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
    torch.cuda.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    torch._C._cuda_getCurrentRawStream = _answering(0)
    torch.version.hip, torch.version.cuda = ("7.1", None) if hip else (None, "13.0")
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        _accelerator(accelerator, answers)
    torch.Generator = _generator(torch.Generator)


def _answers(target: Target) -> Mapping[str, object]:
    """Return what the functions of ``torch.cuda`` answer, by name."""
    facts = target.facts
    memory = facts["memory"] * _GIB
    nothing = dict.fromkeys(
        (
            *("synchronize", "empty_cache", "set_device", "init", "manual_seed", "manual_seed_all", "set_stream"),
            *("reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect", "nvtx"),
        )
    )
    zero = dict.fromkeys(
        ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "current_device"), 0
    )
    return {
        **nothing,
        **zero,
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "device_count": 1,
        "get_device_capability": target.capability,
        "get_device_name": facts["device"],
        "get_device_properties": _properties(target),
        "get_arch_list": [target.name],
        "mem_get_info": (memory, memory),
        "current_stream": Stream(),
        "default_stream": Stream(),
    }


def _properties(target: Target) -> StandIn:
    facts = target.facts
    return StandIn(
        "torch.cuda.get_device_properties()",
        name=facts["device"],
        major=target.capability[0],
        minor=target.capability[1],
        total_memory=facts["memory"] * _GIB,
        multi_processor_count=facts["processors"],
        max_threads_per_multi_processor=2048,
        max_threads_per_block=facts["threads"],
        warp_size=target.warp,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=min(facts["shared"], 48 << 10 if target.backend == "cuda" else facts["shared"]),
        shared_memory_per_block_optin=facts["shared"],
        shared_memory_per_multiprocessor=facts["shared"] + (1 << 10 if target.backend == "cuda" else 0),
        L2_cache_size=50 << 20,
        is_integrated=0,
        is_multi_gpu_board=0,
        uuid="stand-in",
        gcnArchName=target.name,
    )


def _answering(value: object) -> Any:
    return lambda *_, **__: value


def _accelerator(module: Any, answers: Mapping[str, object]) -> None:
    import torch

    for name, value in {
        "is_available": True,
        "device_count": 1,
        "current_accelerator": torch.device("cuda"),
        "current_device_index": 0,
        "current_device_idx": 0,
        "synchronize": None,
        "current_stream": answers["current_stream"],
    }.items():
        setattr(module, name, _answering(value))


def _generator(kind: Any) -> Any:
    """Return the class of generators of random numbers, which makes one of the CPU whatever the device is."""

    class Generator(kind):
        def __new__(cls, *_: object, **__: object) -> Any:
            return super().__new__(cls, "cpu")

        def __init__(self, *_: object, **__: object) -> None:
            pass

    return Generator


def _unknown() -> NoReturn:
    """Refuse what PyTorch would ask a driver: the outermost function of ``torch.cuda`` says what it is."""
    frame, name = sys._getframe(1), "torch.cuda"
    while frame is not None and "/torch/cuda/" in frame.f_code.co_filename:
        name = f"torch.cuda.{frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    refuse(name)
