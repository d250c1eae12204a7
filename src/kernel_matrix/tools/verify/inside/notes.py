"""Note what a candidate does in its process. Notes name a hack; they can be forged, so no right verdict needs them."""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from kernel_matrix.kit import state
from kernel_matrix.kit.frameworks import torch_calls

# Operators that only make, move or look at memory: what a profiler shows in addition are those that are made of others.
MOVES = (
    torch_calls.ALLOCATIONS
    | torch_calls.MOVES
    | set(
        """
    expand_as detach_ flatten to resolve_conj resolve_neg chunk narrow _reshape_alias item _local_scalar_dense
    result_type arange broadcast_to ravel unflatten movedim numpy_T mT view_as _has_compatible_shallow_copy_type
    is_nonzero data numel size stride dim swapaxes tensor scalar_tensor _unsafe_index unfold
    """.split()  # noqa: SIM905  # a list of literals is one name a line
    )
)
_WATCHED = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.nn.functional": torch.nn.functional,
    "torch.nn.Module": torch.nn.Module,
    "torch.testing": torch.testing,
    "torch.cuda": torch.cuda,
    "torch.cuda.Event": torch.cuda.Event,
    "time": time,
    "builtins": builtins,
    "os": os,
    "json": json,
}
_EVENTS = ("gc.", "sys._getframe", "sys.settrace", "sys.setprofile", "sys._current_frames", "open", "os.", "subprocess",
           "ctypes", "socket", "shutil", "pty", "mmap", "fcntl", "signal", "_thread.start_new_thread")  # fmt: skip
_MOST, _DEPTH = 60, 4
# Of the process, what no library sets when it is imported. The kit looks at the calls alone, and not at the import.
_OF_PROCESS = ("the collector of garbage", "how often threads take turns", "the priority of the process",
               "the cores that it may use", "how the CPU rounds and flushes", "the context of decimals")  # fmt: skip
# PyTorch's own compiler sets these while it works.
_SETTINGS: dict[str, Callable[[], Any]] = {
    **{name: state._PLAIN[name][0] for name in _OF_PROCESS},
    "the default dtype": lambda: str(torch.get_default_dtype()),
    "the precision of fp32 products": torch.get_float32_matmul_precision,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "TF32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "the default device": lambda: str(torch.get_default_device()),
    "denormal numbers": lambda: torch.tensor(1e-310, dtype=torch.float64).mul(1).item() > 0,
    "oneDNN": lambda: torch.backends.mkldnn.enabled,
    "modes of functions": lambda: len(_get_current_function_mode_stack()),
    "modes of operators": lambda: len(_get_current_dispatch_mode_stack()),
    "finders of modules": lambda: sum(type(one).__module__ == "candidate" for one in sys.meta_path),
    "operators of PyTorch": lambda: sum(str(one).startswith("aten/") for one in torch.library._impls),
}
# Errors that a program expects; another one that the candidate catches is work that was not done.
_USUAL = (KeyError, AttributeError, IndexError, StopIteration, GeneratorExit, ImportError)


def fingerprint() -> dict[str, int]:
    """Return the identity of each function that a judge or a clock would use."""
    return {f"{w}.{n}": id(v) for w, holder in _WATCHED.items() for n, v in list(vars(holder).items()) if callable(v)}


def settings() -> dict[str, str]:
    """Return the settings of PyTorch that change numbers."""
    found = {}
    for name, ask in _SETTINGS.items():
        try:
            found[name] = str(ask())
        except Exception as error:  # PyTorch refuses to tell where its old and new names were mixed
            found[name] = type(error).__name__
    return found


class Notes:
    """The things that a candidate's own file asks the interpreter for, by Python's audit events, while a block runs."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._on = self._busy = 0
        time.sleep = self._noting_sleep(time.sleep)
        self._functions, self._settings = fingerprint(), settings()
        sys.addaudithook(self._hook)

    def __enter__(self) -> None:
        """Take notes."""
        self._on += 1

    def __exit__(self, *_: object) -> None:
        """Take none."""
        self._on -= 1

    def note(self, event: str, text: str) -> None:
        """Note one thing."""
        if len(self._seen) < _MOST:
            key = f"{event}: {text}"
            self._seen[key] = self._seen.get(key, 0) + 1

    def _noting_sleep(self, sleep: Callable[[Any], None]) -> Callable[[Any], None]:
        def sleeps(seconds: Any) -> None:
            if self._on and _by_candidate(sys._getframe(1)):
                self.note("time.sleep", str(seconds))
            sleep(seconds)

        return sleeps

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on or self._busy or not event.startswith(_EVENTS):
            return
        self._busy = 1
        try:
            if _by_candidate(sys._getframe(1)):
                words = (str(one)[:80] for one in arguments[:2] if isinstance(one, (str, int, bytes, list)))
                self.note(event, ",".join(words))
        finally:
            self._busy = 0

    def told(self) -> dict[str, Any]:
        """Return the notes, and which functions and settings are other ones than before."""
        after, then = fingerprint(), settings()
        changed = [name for name, one in self._functions.items() if after.get(name) != one and not _of_torch(name)]
        added = [name for name in after if name not in self._functions and name.startswith("torch.Tensor.__")]
        return {
            "seen": list(self._seen),
            "replaced": sorted(changed + added)[:10],
            "settings": [name for name, value in self._settings.items() if then[name] != value],
            "threads": threading.active_count(),
        }


def _by_candidate(frame: Any) -> bool:
    """Return whether the candidate's file is among the last callers, with nothing of a library between."""
    for _ in range(_DEPTH):
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if (name.endswith("candidate.py") and "kernel_matrix" not in name) or name == "<string>":
            return True
        if any(word in name for word in ("/torch/", "importlib", "/triton/", "kernel_matrix")):
            return False
        frame = frame.f_back
    return False


def _of_torch(name: str) -> bool:
    """Return whether what is in place of a function is PyTorch's own: its compiler replaces some."""
    where, _, last = name.rpartition(".")
    code = getattr(vars(_WATCHED[where]).get(last), "__code__", None)
    return "/torch/" in getattr(code, "co_filename", "")


def operators(call: Callable[[], Any]) -> dict[str, float]:
    """Return which of PyTorch's operators compute in a call, and their share of its time."""
    began = time.perf_counter()
    found: dict[str, float] = {}
    with _ways_out(found), torch.autograd.profiler.profile(use_kineto=False) as seen:
        call()
    whole = 1e6 * (time.perf_counter() - began)
    for event in seen.function_events or []:
        name = str(event.name).removeprefix("aten::")
        if event.name.startswith("aten::") and name not in MOVES and len(found) < 40:
            found[name] = found.get(name, 0.0) + event.self_cpu_time_total / max(whole, 1e-9)
    return {name: round(share, 3) for name, share in found.items()}


@contextlib.contextmanager
def caught_errors() -> Iterator[set[str]]:
    """Note the errors that come into the candidate's own functions while a call gives a result all the same."""
    found: set[str] = set()

    def traced(frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("candidate.py") or "kernel_matrix" in frame.f_code.co_filename:
            return None
        if event == "exception" and not issubclass(argument[0], _USUAL):
            found.add(f"{argument[0].__name__}: {str(argument[1])[:60]}")
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        yield found
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _ways_out(found: dict[str, float]) -> Iterator[None]:
    """Note where tensors are handed to something else than PyTorch, such as NumPy."""
    ways = [(torch.Tensor, name) for name in ("numpy", "__array__", "__dlpack__", "tolist")] + [(torch, "from_numpy")]
    kept = [(holder, name, getattr(holder, name)) for holder, name in ways]

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **words: Any) -> Any:
            if _by_candidate(sys._getframe(1)):
                found[f"leaves PyTorch ({name.strip('_')})"] = 0.0
            return function(*given, **words)

        return called

    for holder, name, function in kept:
        setattr(holder, name, noting(name, function))
    try:
        yield
    finally:
        for holder, name, function in kept:
            setattr(holder, name, function)


def note_failed_launches(noted: Notes) -> None:
    """Note each launch of a Triton kernel that raises: a candidate that answers all the same has another way."""
    if "triton" not in sys.modules:
        return
    from triton.runtime import interpreter, jit

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **words: Any) -> Any:
            try:
                return call(*given, **words)
            except Exception as error:
                if "autotuner" not in sys._getframe(1).f_code.co_filename:  # it tries what may not fit
                    noted.note("launch", f"{type(error).__name__}: {str(error)[:60]}")
                raise

        return called

    interpreter.GridExecutor.__call__ = noting(interpreter.GridExecutor.__call__)
    jit.JITFunction.run = noting(jit.JITFunction.run)


@contextlib.contextmanager
def no_launches() -> Iterator[list[int]]:
    """Have every launch of a Triton kernel do nothing; count them."""
    count = [0]
    triton = sys.modules.get("triton")
    if triton is None:
        yield count
        return
    from triton.runtime import interpreter, jit

    def nothing(*_: Any, **__: Any) -> None:
        count[0] += 1

    kept = interpreter.GridExecutor.__call__, jit.JITFunction.run
    interpreter.GridExecutor.__call__, jit.JITFunction.run = nothing, nothing
    try:
        yield count
    finally:
        interpreter.GridExecutor.__call__, jit.JITFunction.run = kept
