"""Record every launch of a Triton kernel: what is compiled, for which arguments, with which options."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton import knobs
from triton.language import dtype
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from .questions import StandIn
from .settings import Target
from .texts import text_of

_ANY_VENDOR = str.maketrans("", "", "S")  # AMD's backend adds this to a pointer's alignment: a range below 2 GiB


@dataclass
class Launch:
    """One distinct launch: a kernel with types and alignments, constants and options.

    ``bound`` are the arguments by name, without tensors. ``special`` is what Triton specialises on, in their order.
    ``given`` are the arguments by keyword, options of the compiler among them. ``tuned`` is the number of the
    autotuned launch that it is a configuration of, and the configuration's place among those that were tried.
    """

    kernel: Any
    identity: str
    bound: Mapping[str, Any]
    special: Sequence[Any]
    given: Mapping[str, Any]
    tuned: tuple[int, int] | None
    grid: str = ""
    times: int = 0
    emulated: str = ""

    @property
    def group(self) -> object:
        """Return the part that is the same for all launches of a kernel."""
        return id(self.kernel)

    def source(self, target: Target) -> Any:
        """Return what the launch gives to the compiler for a target."""
        from .compiling import Source

        return Source(self, target)

    def entry(self) -> dict[str, Any]:
        """Return the launch as the recording has it."""
        kernel = self.kernel
        return {
            "toolchain": "triton",
            "module": kernel.fn.__module__,
            "kernel": kernel.fn.__name__,
            "source": source_of(kernel)[:16],
            "types": self.types,
            "special": {name: str(kind[1]) for name, kind in zip(self.bound, self.special, strict=False) if kind[1]},
            "constants": self.constants,
            "options": {name: str(value) for name, value in self.options.items()},
            "names": [param.name for param in kernel.params],
            "literals": self.literals,
            "importable": self.importable,
        }

    @property
    def options(self) -> dict[str, Any]:
        """The options that the launch gives to the compiler."""
        return {name: value for name, value in self.given.items() if name not in self.kernel.arg_names}

    @property
    def types(self) -> dict[str, str]:
        """The types of the arguments that are no constants."""
        names = [param.name for param in self.kernel.params]
        return {
            name: str(special[0])
            for name, special in zip(names, self.special, strict=False)
            if special[0] != "constexpr"
        }

    @property
    def constants(self) -> dict[str, str]:
        """The constants as texts."""
        names = [param.name for param in self.kernel.params]
        return {
            name: text_of(self.bound[name])
            for name, special in zip(names, self.special, strict=False)
            if special[0] == "constexpr"
        }

    @property
    def literals(self) -> dict[str, str]:
        """The constants as Python writes them, without those that it cannot write."""
        return {name: text for name in self.constants if (text := literal_of(self.bound[name]))}

    @property
    def importable(self) -> bool:
        """Return whether the kernel is in its module under its name."""
        named: Any = vars(sys.modules.get(self.kernel.fn.__module__, sys)).get(self.kernel.fn.__name__)
        while hasattr(named, "fn") and not isinstance(named, JITFunction):
            named = named.fn
        return named is self.kernel and self.kernel.fn.__module__ != "__main__"


class LaunchedKernel(StandIn):
    """The value that a launch returns. Some programs keep it, and launch it again without Triton's help."""

    def __getitem__(self, _: object) -> Callable[..., None]:
        """Return what launches the kernel on a grid: it was recorded when it was launched first."""
        return lambda *_, **__: None


@dataclass
class Recorder:
    """The launches by their identity, and how kernels are computed if they are."""

    compute: Callable[..., None] | None = None
    launches: dict[str, Launch] = field(default_factory=dict)
    tuned: int = 0  # autotuned launches
    place: int = 0  # of the next configuration of the present one
    trying: tuple[int, int] | None = None  # the configuration that is launched now
    total: int = 0

    def launch(self, kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> LaunchedKernel:
        """Take a launch, in place of ``JITFunction.run``."""
        self.total += 1
        kwargs["debug"] = kwargs.get("debug", kernel.debug) or knobs.runtime.debug
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        binder = kernel.device_caches[0][-1]
        bound, special, *_ = binder(*args, **kwargs)
        recorded = self._recorded(kernel, bound, special, kwargs)
        recorded.times += 1
        if not warmup:
            size = grid(bound) if callable(grid) else grid
            recorded.grid = recorded.grid or "x".join(map(str, size))
            if self.compute and self.trying is None:
                self.compute(kernel, recorded, size, args, kwargs)
        return LaunchedKernel(f"the compiled kernel {kernel.__name__}", name=kernel.__name__)

    def _recorded(
        self, kernel: Any, bound: Mapping[str, Any], special: Sequence[Any], given: Mapping[str, Any]
    ) -> Launch:
        options = {name: value for name, value in given.items() if name not in kernel.arg_names}
        constants = [value for value, kind in zip(bound.values(), special, strict=False) if kind[0] == "constexpr"]
        neutral = [
            (str(kind[0]), str(kind[1]).translate(_ANY_VENDOR) if isinstance(kind[1], str) else text_of(kind[1]))
            for kind in special
        ]
        parts = [
            source_of(kernel),
            neutral,
            list(map(text_of, constants)),
            sorted((k, text_of(v)) for k, v in options.items()),
        ]
        identity = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        if identity not in self.launches:
            lean = {name: _without_tensors(value) for name, value in bound.items()}
            self.launches[identity] = Launch(kernel, identity, lean, list(special), dict(_lean(given)), self.trying)
        return self.launches[identity]

    def bench(self, tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        """Take one configuration of an autotuned launch, in place of ``Autotuner._bench``."""
        current = dict(meta, **config.all_kwargs())
        everything = {**tuner.nargs, **current}
        if config.pre_hook:
            config.pre_hook(everything)
        tuner.pre_hook(everything)
        self.trying = (self.tuned, self.place)
        try:
            tuner.fn.run(*args, **current)
        finally:
            self.trying = None
            self.place += 1
            tuner.post_hook(everything, exception=None)
        return [1.0, 1.0, 1.0]

    def tune(self) -> None:
        """Begin an autotuned launch: what is tried next are its configurations."""
        self.tuned, self.place = self.tuned + 1, 0


def _without_tensors(value: Any) -> Any:
    """Return an argument without the tensors in it: compiling needs their types only."""
    if isinstance(value, tuple):
        kept = [_without_tensors(item) for item in value]
        return type(value)(*kept) if hasattr(value, "_fields") else tuple(kept)
    return None if hasattr(value, "data_ptr") or hasattr(value, "block_shape") else value


def _lean(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: _without_tensors(value) for name, value in given.items()}


def source_of(kernel: Any) -> str:
    """Return the digest of a kernel's source and of all that it calls, or of its own source where Triton refuses it."""
    try:
        return str(kernel.cache_key)
    except Exception:  # the compiler will say what is wrong with it
        return hashlib.sha256(kernel.src.encode()).hexdigest()


def literal_of(value: Any) -> str:
    """Return a constant as Python writes it; empty if it cannot be written."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, dtype):
        return f"tl.dtype({value.name!r})"
    return ""


def install(compute: Callable[..., None] | None) -> Recorder:
    """Take every launch from now on."""
    recorder = Recorder(compute)

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> LaunchedKernel:
        return recorder.launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)

    def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return recorder.bench(tuner, *args, config=config, **meta)

    prune = Autotuner.prune_configs

    @functools.wraps(prune)
    def prune_configs(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.tune()
        return prune(tuner, *args, **kwargs)

    JITFunction.run, Autotuner._bench, Autotuner.prune_configs = run, bench, prune_configs
    return recorder
