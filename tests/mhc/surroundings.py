"""The state of the kernel's process around a kernel: what it must leave as it was, and what it must not import."""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import torch

import mhc.backends

EQUATIONS = "mhc.backends.reference."
_OPEN_TO_ALL = (f"{EQUATIONS}kernel",)  # helpers of the library, without an equation


def of_process() -> dict[str, Any]:
    """Return the state that belongs to the whole process."""
    return {name: get() for name, (get, _) in _STATE.items()}


def restore(before: dict[str, Any]) -> list[str]:
    """Set back what has changed, and return the names of it."""
    changed = []
    for name, (get, set_back) in _STATE.items():
        if not _same(get(), before[name]):
            changed.append(name)
            set_back(before[name])
    return changed


def _set_random(state: Any) -> None:
    torch.set_rng_state(state)


def _numpy_random() -> tuple[Any, ...]:
    """Return the state of NumPy's global generator as values that compare by ``==``."""
    _, keys, *rest = np.random.get_state()
    return (tuple(keys.tolist()), *rest)


_STATE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "the precision of fp32 products": (
        lambda: (torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision),
        lambda state: (
            setattr(torch.backends.cuda.matmul, "fp32_precision", state[0]),
            setattr(torch.backends.mkldnn.matmul, "fp32_precision", state[1]),
        ),
    ),
    "autocast": (lambda: torch.is_autocast_enabled("cpu"), lambda state: torch.set_autocast_enabled("cpu", state)),
    "flushing of subnormals": (lambda: torch.tensor([1e-45]).mul(1.0).item() == 0.0, torch.set_flush_denormal),
    "PyTorch's random numbers": (torch.get_rng_state, _set_random),
    "NumPy's random numbers": (_numpy_random, lambda state: np.random.set_state(("MT19937", *state))),
    "what NumPy does on errors": (np.geterr, lambda state: np.seterr(**state)),
    "Python's random numbers": (random.getstate, random.setstate),
    "the working directory": (os.getcwd, os.chdir),
}


def _same(a: Any, b: Any) -> bool:
    return bool(torch.equal(a, b)) if isinstance(a, torch.Tensor) else a == b


class _NoReference(importlib.abc.MetaPathFinder):
    """Refuse to import the reference's equations: a kernel that calls them would be compared with itself."""

    allowed = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name.startswith(EQUATIONS) and name not in _OPEN_TO_ALL and not self.allowed:
            raise ImportError(f"a kernel may not import {name}: it is what its results are compared with")
        return None


_finder = _NoReference()


def forbid_reference() -> None:
    """Refuse the reference's equations from now on, also where they were imported before."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        _forget()


@contextlib.contextmanager
def reference_allowed() -> Iterator[None]:
    """Let the reference be imported: a race needs it."""
    _finder.allowed = True
    try:
        yield
    finally:
        _finder.allowed = False


def forget_reference(is_the_kernel: bool) -> None:
    """Take away the reference after a race, unless the kernel is made of it."""
    if not is_the_kernel:
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith(EQUATIONS) and name not in _OPEN_TO_ALL]:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and hasattr(sys.modules[parent], child):
            delattr(sys.modules[parent], child)
    mhc.backends._kernels.cache_clear()
