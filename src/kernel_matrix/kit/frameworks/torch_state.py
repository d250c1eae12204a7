"""The state of PyTorch that belongs to the whole process: how it is read, and how it is set back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kernel_matrix.kit.frameworks.base import State
from kernel_matrix.kit.replaced import functions_of

MODULES: list[Any] = []  # that were made of classes


def _precision() -> tuple[str, ...]:
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision


def _set_precision(state: Any) -> None:
    torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = state


def _recording() -> dict[str, Any]:
    """Return what is on for autograd, and the modes and hooks that are entered."""
    return {
        "anomaly mode": torch.is_anomaly_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "hooks of saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(False),
        "modes of functions": torch._C._len_torch_function_stack(),
        "modes of the dispatcher": torch._C._len_torch_dispatch_stack(),
        "deterministic algorithms warn": torch.is_deterministic_algorithms_warn_only_enabled(),
    }


def _set_recording(before: Mapping[str, Any]) -> None:
    """Leave what a kernel has entered, as far as a program can."""
    torch.autograd.set_detect_anomaly(before["anomaly mode"])
    while torch._C._autograd._top_saved_tensors_default_hooks(False) not in (None, before["hooks of saved tensors"]):
        torch._C._autograd._pop_saved_tensors_default_hooks()
    while torch._C._len_torch_function_stack() > before["modes of functions"]:
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack() > before["modes of the dispatcher"]:
        torch._C._pop_torch_dispatch_stack()


def _hooks() -> dict[str, Any]:
    return {name: value for name, value in vars(torch.nn.modules.module).items() if name.startswith("_global_")}


def _of_modules() -> dict[str, Any]:
    """Return what modules are besides their values: whether they train, and which tensors they have."""
    parts = [part for module in MODULES for part in module.named_modules()]
    return {
        f"{name or type(part).__name__}: {word}": value
        for name, part in parts
        for word, value in (
            ("training", part.training),
            ("buffers", [*part._buffers]),
            ("parameters", [(key, one is not None and one.requires_grad) for key, one in part._parameters.items()]),
        )
    }


_ALGORITHMS = {
    "cudnn.benchmark": torch.backends.cudnn,
    "cudnn.deterministic": torch.backends.cudnn,
    "cudnn.enabled": torch.backends.cudnn,
    "mkldnn.enabled": torch.backends.mkldnn,
    "matmul.allow_bf16_reduced_precision_reduction": torch.backends.cuda.matmul,
    "matmul.allow_fp16_reduced_precision_reduction": torch.backends.cuda.matmul,
}


def _algorithms() -> dict[str, Any]:
    return {name: getattr(owner, name.partition(".")[2]) for name, owner in _ALGORITHMS.items()}


def _set_algorithms(before: Mapping[str, Any]) -> None:
    for name, owner in _ALGORITHMS.items():
        setattr(owner, name.partition(".")[2], before[name])


def _devices_random() -> bytes:
    return bytes(torch.cuda.get_rng_state().numpy().tobytes()) if torch.cuda.is_initialized() else b""


def _set_devices_random(state: bytes) -> None:
    if state:
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


STATE: State = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (lambda: str(torch.get_default_device()), torch.set_default_device),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "the precision of fp32 products": (_precision, _set_precision),
    "autocast": (lambda: torch.is_autocast_enabled("cpu"), lambda state: torch.set_autocast_enabled("cpu", state)),
    "PyTorch's random numbers": (
        lambda: torch.get_rng_state().numpy().tobytes(),
        lambda state: torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8)),
    ),
    "the GPU's random numbers": (_devices_random, _set_devices_random),
    "what PyTorch does when it records": (_recording, _set_recording),
    "the hooks of all modules": (lambda: {name: len(hooks or ()) for name, hooks in _hooks().items()}, None),
    "which algorithms are allowed": (_algorithms, _set_algorithms),
    "the module": (_of_modules, None),
    "how PyTorch prints": (lambda: vars(torch._tensor_str.PRINT_OPTS).copy(), None),
    "PyTorch's functions": functions_of(torch, torch.Tensor, torch.nn.functional),
}
