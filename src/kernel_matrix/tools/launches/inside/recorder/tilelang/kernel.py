"""Stand in for a kernel that TileLang has compiled: it takes tensors, and returns outputs of zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..settings import Target
from ..stand_ins.questions import StandIn, assume, refuse
from ..texts import called_with
from .program import Program

_OTHER_NAMES = {"float8_e4m3": "float8_e4m3fn", "float": "float32", "half": "float16", "int": "int32"}


class Kernel(StandIn):
    """The result of ``tilelang.compile``. ``outputs`` are the indices of the parameters that it makes itself.

    ``program`` is what was recorded of it, None if it is for no GPU; ``told`` is where it is told that it runs.
    """

    def __init__(self, function: Any, outputs: Sequence[int], program: Program | None, told: Target) -> None:
        super().__init__(f"the compiled program {function.attrs['global_symbol']}", prim_func=function, out_idx=outputs)
        self.__dict__.update(program=program, told=told)

    @property
    def params(self) -> list[Any]:
        """The parameters as TileLang describes them."""
        from tilelang.engine.param import KernelParam

        function = self.__dict__["prim_func"]
        return [
            KernelParam.from_buffer(function.buffer_map[one])
            if one in function.buffer_map
            else KernelParam.from_var(one)
            for one in function.params
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Count a call, and return the outputs that the program makes itself."""
        function, program = self.__dict__["prim_func"], self.__dict__["program"]
        assume("programs of TileLang compute nothing: their outputs are zeros")
        parameters = list(function.params)
        made = {place % len(parameters) for place in self.__dict__["out_idx"]}
        given = iter([*args, *kwargs.values()])
        values = {place: next(given, None) for place in range(len(parameters)) if place not in made}
        if program is not None:
            program.times += 1
            program.calls[called_with({str(parameters[index]): one for index, one in values.items()})] += 1
        sizes = _sizes(function, parameters, values)
        tensors = [_zeros(function.buffer_map[parameters[place]], sizes) for place in sorted(made)]
        return tensors[0] if len(tensors) == 1 else (tensors or None)

    def get_kernel_source(self, *_: object, **__: object) -> str:
        """Return the source that TileLang generates for the device that the program is told of."""
        program = self.__dict__["program"]
        if program is None:
            refuse("get_kernel_source of a program for no GPU")
        return str(program.source(self.__dict__["told"]).text)

    def get_profiler(self, *_: object, **__: object) -> Profiler:
        """Return what measures the kernel."""
        return Profiler(self)


class Profiler(StandIn):
    """TileLang's profiler: every kernel takes a millisecond, and every comparison holds. Both are counted."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__("TileLang's profiler", kernel=kernel)

    def do_bench(self, *_: object, **__: object) -> float:
        """Return a time that nobody has measured."""
        assume("a program of TileLang takes a millisecond")
        return 1.0

    def assert_allclose(self, *_: object, **__: object) -> None:
        """Hold whatever is compared, and count it."""
        assume("TileLang's profiler finds what it compares close, since no kernel has computed anything")

    manual_assert_close = assert_consistent = assert_allclose

    def _get_params(self, *_: object, **__: object) -> list[Any]:
        kernel: Kernel = self.__dict__["kernel"]
        return kernel.params

    def _get_inputs(self, *_: object, **__: object) -> list[Any]:
        return []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel."""
        return self.__dict__["kernel"](*args, **kwargs)


def _sizes(function: Any, parameters: Sequence[Any], values: Mapping[int, Any]) -> dict[str, int]:
    """Return the sizes that the tensors of a call give to the names in the shapes."""
    sizes = {}
    for place, value in values.items():
        buffer = function.buffer_map.get(parameters[place])
        if buffer is not None and hasattr(value, "shape"):
            sizes.update({str(name): int(size) for name, size in zip(buffer.shape, value.shape, strict=False)})
        elif isinstance(value, int):
            sizes[str(parameters[place])] = value
    return sizes


def _zeros(buffer: Any, sizes: Mapping[str, int]) -> Any:
    import torch

    name = str(buffer.dtype)
    dtype = getattr(torch, _OTHER_NAMES.get(name, name), None)
    shape = [sizes.get(str(size), getattr(size, "value", None)) for size in buffer.shape]
    if dtype is None or None in shape:
        refuse(f"the output {buffer.name} of a program of TileLang: its shape {list(buffer.shape)} of {name}")
    return torch.zeros(*shape, dtype=dtype, device="cuda")
