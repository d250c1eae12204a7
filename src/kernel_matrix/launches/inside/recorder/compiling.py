"""Compile one launch for one target. This runs in a process of its own, which a compiler may bring down."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .elf import code_bytes
from .launches import Launch
from .settings import Target

# What ptxas -v and the metadata of AMD's code objects say, by the figure that it becomes.
_OF_PTXAS = {
    "registers": r"Used (\d+) registers",
    "spills": r"(\d+) bytes spill stores",
    "stack": r"(\d+) bytes stack frame",
}
_OF_AMD = {
    "registers": r"\.vgpr_count:\s*(\d+)",
    "accumulation_registers": r"\.agpr_count:\s*(\d+)",
    "scalar_registers": r"\.sgpr_count:\s*(\d+)",
    "spills": r"\.vgpr_spill_count:\s*(\d+)",
    "scalar_spills": r"\.sgpr_spill_count:\s*(\d+)",
    "stack": r"\.private_segment_fixed_size:\s*(\d+)",
}


class Source:
    """The input of the compiler for one launch and one target: the kernel with its types, and the options.

    Making it fails where a launch would fail before anything is compiled, such as with an unknown option.
    """

    def __init__(self, launch: Launch, target: Target) -> None:
        """Bind the launch as Triton does it."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import make_backend

        self.target = GPUTarget(target.backend, target.arch, target.warp)
        kernel = launch.kernel
        packed = kernel._pack_args(make_backend(self.target), dict(launch.given), launch.bound, launch.special, None)
        self.options, *parts = packed
        self.ast = kernel.ASTSource(kernel, *parts)

    @property
    def key(self) -> str:
        """Return a text that is the same where the compiler is given the same."""
        return f"{self.ast.hash()} {self.target} {sorted((k, str(v)) for k, v in self.options.__dict__.items())}"


def compile_launch(source: Source, report: Callable[[str], None]) -> dict[str, float]:
    """Compile and return the figures of the code. ``report`` is told of each step of the compiler as it begins."""
    import triton
    from triton import knobs

    if hasattr(knobs.nvidia, "dump_ptxas_log"):
        knobs.nvidia.dump_ptxas_log = True  # its own call of ptxas says what it has used
    _follow(source, report)
    kernel = triton.compile(source.ast, target=source.target, options=source.options.__dict__)
    threads = kernel.metadata.num_warps * source.target.warp_size
    code = kernel.asm["hsaco" if source.target.backend == "hip" else "cubin"]
    tensor_memory = getattr(kernel.metadata, "tmem_size", None) or 0
    return {
        "bytes": len(code),
        "code_bytes": code_bytes(code),
        "threads": threads,
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
        "stages": getattr(kernel.metadata, "num_stages", 0) or 0,
        **({"tensor_memory": tensor_memory} if tensor_memory else {}),
        **(_figures(_OF_AMD, kernel.asm["amdgcn"]) if source.target.backend == "hip" else {}),
    }


def figures_of_log(log: str) -> dict[str, float]:
    """Return the figures that ptxas has written."""
    return _figures(_OF_PTXAS, log)


def _figures(patterns: Mapping[str, str], text: str) -> dict[str, float]:
    """Return the largest number that each pattern finds: a module may hold functions beside its kernel."""
    numbers = {name: [int(number) for number in re.findall(pattern, text)] for name, pattern in patterns.items()}
    return {name: max(values) for name, values in numbers.items() if values}


def _follow(source: Source, report: Callable[[str], None]) -> None:
    """Make the compiler report the intermediate form that it is about to make."""
    from triton.compiler import make_backend

    kind = type(make_backend(source.target))
    add_stages = kind.add_stages

    def add_followed(self: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        add_stages(self, stages, *args, **kwargs)
        for form, make in list(stages.items()):
            stages[form] = _reporting(form, make, report)

    kind.add_stages = add_followed


def _reporting(form: str, make: Callable[..., Any], report: Callable[[str], None]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        report(form)
        return make(*args, **kwargs)

    return made
