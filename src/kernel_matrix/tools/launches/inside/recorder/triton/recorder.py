"""Record every launch of a Triton kernel, in place of Triton's own launcher and autotuner."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from ..stand_ins.questions import StandIn
from ..texts import called_with, text_of
from .launch import Launch, source_of

_ANY_VENDOR = str.maketrans("", "", "S")  # AMD's backend adds this to a pointer's alignment: a range below 2 GiB


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
    configuration: int = 0  # the index of the next one of the present autotuned launch
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
            if self.trying is None:
                constants = {param.name for param in kernel.params if param.is_constexpr}
                recorded.calls[called_with({name: one for name, one in bound.items() if name not in constants})] += 1
            compute = self.compute if self.trying is None else getattr(self.compute, "trial", None)
            if compute:
                compute(kernel, recorded, size, args, kwargs)
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
            self.launches[identity] = Launch(
                kernel=kernel,
                identity=identity,
                bound=lean,
                special=list(special),
                given={name: _without_tensors(value) for name, value in given.items()},
                tuned=self.trying,
            )
        return self.launches[identity]

    def bench(self, tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        """Take one configuration of an autotuned launch, in place of ``Autotuner._bench``."""
        current = dict(meta, **config.all_kwargs())
        everything = {**tuner.nargs, **current}
        if config.pre_hook:
            config.pre_hook(everything)
        tuner.pre_hook(everything)
        self.trying = (self.tuned, self.configuration)
        try:
            tuner.fn.run(*args, **current)
        finally:
            self.trying = None
            self.configuration += 1
            tuner.post_hook(everything, exception=None)
        return [1.0, 1.0, 1.0]

    def tune(self) -> None:
        """Begin an autotuned launch: what is tried next are its configurations."""
        self.tuned, self.configuration = self.tuned + 1, 0


def _without_tensors(value: Any) -> Any:
    """Return an argument without the tensors in it: compiling needs their types only."""
    if isinstance(value, tuple):
        kept = [_without_tensors(item) for item in value]
        return type(value)(*kept) if hasattr(value, "_fields") else tuple(kept)
    return None if hasattr(value, "data_ptr") or hasattr(value, "block_shape") else value


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
