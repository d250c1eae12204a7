"""Record every program that TileLang compiles: its function, its pass configuration, and how it is called."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import importing, made_kernel
from .questions import assume
from .settings import Target
from .texts import text_of

_CPU_KINDS = ("c", "llvm", "webgpu", "metal")  # what a program can be compiled for that is no GPU of these vendors
_OWN = ("/tilelang/", "/tvm/", "/recorder/")


@dataclass
class Program:
    """One program that was compiled: a function of TVM with its types, and the options of TileLang's compiler.

    ``constants`` are the arguments of the Python function that made it. ``tuned`` is the number of the autotuned call
    that it is a configuration of, and its place among those.
    """

    function: Any
    module: str
    name: str
    identity: str
    script: str
    constants: Mapping[str, str]
    options: Mapping[str, Any]
    tuned: tuple[int, int] | None
    grid: str = ""
    times: int = 0
    emulated: str = ""

    @property
    def group(self) -> object:
        """Return the part that is the same for all programs that one function makes."""
        return self.module, self.name

    def source(self, target: Target) -> Any:
        """Return what the program gives to the compiler for a target."""
        from .programs_compiling import Source

        return Source(self, target)

    def entry(self) -> dict[str, Any]:
        """Return the program as the recording has it."""
        types = {}
        for parameter in self.function.params:
            buffer = self.function.buffer_map.get(parameter)
            types[str(parameter)] = str(parameter.dtype) if buffer is None else f"*{buffer.dtype}"
        return {
            "toolchain": "tilelang",
            "module": self.module,
            "kernel": self.name,
            "source": hashlib.sha256(self.script.encode()).hexdigest()[:16],
            "types": types,
            "special": {},
            "constants": dict(self.constants),
            "options": {name: json.dumps(value, default=str) for name, value in self.options.items() if value},
            "program": _packed(self.function),
        }


@dataclass
class Recorder:
    """The programs by their identity."""

    told: Target
    launches: dict[str, Program] = field(default_factory=dict)
    made: dict[int, tuple[Any, Any, Mapping[str, str]]] = field(default_factory=dict)
    tuned: int = 0
    place: int = 0
    tuning: bool = False
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)  # TileLang compiles in threads

    def compiled(self, func: Any = None, out_idx: Any = None, *_: Any, **options: Any) -> made_kernel.Kernel:
        """Take a program, in place of TileLang's compiler and its cache."""
        with self.lock:
            self.total += 1
            outputs = [out_idx] if isinstance(out_idx, int) else list(out_idx or ())
            if self._is_for_a_gpu(options.get("target")):
                program: Program | None = self._recorded(func, outputs, options)
            else:
                assume(f"a program for {options['target']} is for no GPU, and is not recorded")
                program = None
        return made_kernel.Kernel(func, outputs, program, self.told)

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
            tuned = (self.tuned, self.place) if self.tuning else None
            self.place += self.tuning
            self.launches[identity] = Program(function, module, name, identity, script, constants, kept, tuned)
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


def _packed(function: Any) -> str:
    """Return the program as TVM writes it as JSON, packed. TVM cannot read every script that it prints."""
    import tvm

    return base64.b64encode(zlib.compress(tvm.ir.save_json(function).encode(), 9)).decode()


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
    recorder = Recorder(told)

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
            recorder.tuned, recorder.place, recorder.tuning = recorder.tuned + 1, 0, True
            try:
                return run(tuner, *args, **kwargs)
            finally:
                recorder.tuning = False

        module.AutoTuner.run = tuning

    def change_target(module: ModuleType) -> None:
        _answer_what_is_here(module, told)

    for name in ("tilelang.utils.target", "tilelang.backend.target"):  # to 0.1.12, and from 0.1.13
        importing.when_imported(name, change_target)
    importing.when_imported("tilelang.jit", change_jit)
    importing.when_imported("tilelang.autotuner.tuner", change_tuner)
    return recorder


def target_of(target: Target) -> Any:
    """Return a target as TileLang names the device."""
    from .ahead import tilelang

    return tilelang.target_of(target.backend, target.name, target.capability)


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
