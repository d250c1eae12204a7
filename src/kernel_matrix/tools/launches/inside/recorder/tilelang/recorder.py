"""Record every program that TileLang compiles, in place of its compiler and its autotuner."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kernel_matrix.job.importing import ChangingFinder

from ..settings import Target
from ..stand_ins.questions import assume
from ..texts import text_of
from .kernel import Kernel
from .program import Program
from .source import target_of

_CPU_KINDS = ("c", "llvm", "webgpu", "metal")  # what a program can be compiled for that is no GPU of these vendors
_OWN = ("/tilelang/", "/tvm/", "/recorder/")


@dataclass
class Recorder:
    """The programs by their identity."""

    told: Target
    launches: dict[str, Program] = field(default_factory=dict)
    made: dict[int, tuple[Any, Any, Mapping[str, str]]] = field(default_factory=dict)
    tuned: int = 0
    configuration: int = 0
    tuning: bool = False
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)  # TileLang compiles in threads

    def compiled(self, func: Any = None, out_idx: Any = None, *_: Any, **options: Any) -> Kernel:
        """Take a program, in place of TileLang's compiler and its cache."""
        with self.lock:
            self.total += 1
            outputs = [out_idx] if isinstance(out_idx, int) else list(out_idx or ())
            if self._is_for_a_gpu(options.get("target")):
                program: Program | None = self._recorded(func, outputs, options)
            else:
                assume(f"a program for {options['target']} is for no GPU, and is not recorded")
                program = None
        return Kernel(func, outputs, program, self.told)

    def _is_for_a_gpu(self, target: Any) -> bool:
        kind = str(target.kind.name) if hasattr(target, "kind") else _kind_in(target)
        return kind not in _CPU_KINDS

    def _recorded(self, function: Any, outputs: Sequence[int], options: Mapping[str, Any]) -> Program:
        _, origin, constants = self.made.get(id(function), (None, None, {}))
        symbol = str(function.attrs["global_symbol"])
        name = origin.__name__ if origin is not None else symbol
        module = origin.__module__ if origin is not None else _module_that_asks()
        kept = {
            "pass_configs": _by_name(options.get("pass_configs") or {}),
            "compile_flags": options.get("compile_flags"),
            "execution_backend": options.get("execution_backend"),
            "out_idx": list(map(int, outputs)),
            "target": str(options["target"]) if options.get("target") else None,
        }
        script = function.script(show_meta=True)
        parts = [module, name, script, {key: value for key, value in kept.items() if key != "target"}]
        identity = hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]
        if identity not in self.launches:
            tuned = (self.tuned, self.configuration) if self.tuning else None
            self.configuration += self.tuning
            self.launches[identity] = Program(
                function=function,
                module=module,
                name=name,
                identity=identity,
                script=script,
                constants=constants,
                options=kept,
                tuned=tuned,
            )
        return self.launches[identity]

    def remember(self, function: Any, maker: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Keep which Python function has made a program, and with which arguments."""
        origin = getattr(maker.func, "orig_func", maker.func)
        try:
            given = maker.signature.bind_partial(*args, **kwargs).arguments
        except TypeError:
            given = kwargs
        constants = {name: text_of(value) for name, value in given.items() if not hasattr(value, "data_ptr")}
        self.made[id(function)] = function, origin, constants


def _by_name(configuration: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a configuration of passes by the names that TVM knows; TileLang has an enumeration of these."""
    return {str(getattr(key, "value", key)): value for key, value in configuration.items()}


def _kind_in(target: Any) -> str:
    """Return the kind that a target names as a text or as a mapping."""
    if isinstance(target, Mapping):
        return str(target.get("kind", ""))
    return str(target or "").split(" ")[0]


def _module_that_asks() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _OWN):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def install(told: Target) -> Recorder:
    """Take every program from now on, also where TileLang is imported later."""
    recorder, finder = Recorder(told), ChangingFinder()

    def change_jit(module: Any) -> None:
        get_tir = module.JITImpl.get_tir

        def remembering(maker: Any, *args: Any, **kwargs: Any) -> Any:
            function = get_tir(maker, *args, **kwargs)
            recorder.remember(function, maker, args, kwargs)
            return function

        module.cached = recorder.compiled
        module.JITImpl.get_tir = remembering

    def change_tuner(module: Any) -> None:
        run = module.AutoTuner.run

        def tuning(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.tuned, recorder.configuration, recorder.tuning = recorder.tuned + 1, 0, True
            try:
                return run(tuner, *args, **kwargs)
            finally:
                recorder.tuning = False

        module.AutoTuner.run = tuning

    def change_target(module: ModuleType) -> None:
        _answer_what_is_here(module, told)

    for name in ("tilelang.utils.target", "tilelang.backend.target"):  # to 0.1.12, and from 0.1.13
        finder.when_imported(name, change_target)
    finder.when_imported("tilelang.jit", change_jit)
    finder.when_imported("tilelang.autotuner.tuner", change_tuner)
    return recorder


def _answer_what_is_here(module: Any, told: Target) -> None:
    """Let TileLang find the device that the program is told of. Its own search needs a driver."""
    determine = getattr(module, "determine_target", None)
    if determine is None:
        return

    def determine_target(target: Any = "auto", *args: Any, **kwargs: Any) -> Any:
        from tvm.target import Target as TvmTarget

        if target in ("auto", told.backend):
            return TvmTarget.current(allow_none=True) or target_of(told)
        return determine(target, *args, **kwargs)

    module.determine_target = determine_target
