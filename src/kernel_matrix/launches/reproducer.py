"""Write a program that repeats one compilation with Triton and the package alone, for the report of a fault."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_matrix.launches.recording import Launch
from kernel_matrix.launches.targets import Target

_HIDDEN = ("debug", "instrumentation_mode")  # options that say how Triton was started


def reproducer(launch: Launch, target: Target) -> str:
    """Return the program; empty where the kernel cannot be imported or a constant cannot be written down."""
    if not launch.importable or set(launch.literals) != set(launch.constants):
        return ""
    return "\n".join(_lines(launch, target)) + "\n"


def _lines(launch: Launch, target: Target) -> Iterator[str]:
    arch = target.name if target.vendor.backend == "hip" else target.name.removeprefix("sm_")
    yield "import triton"
    yield "import triton.language as tl"
    yield "from triton.backends.compiler import GPUTarget"
    yield "from triton.compiler import ASTSource, make_backend"
    yield ""
    yield f"from {launch.module} import {launch.kernel} as kernel"
    yield ""
    yield "while not isinstance(kernel, triton.runtime.JITFunction):  # below its autotuner and heuristics"
    yield "    kernel = kernel.fn"
    arch = arch if arch.isdecimal() else repr(arch)
    yield f"target = GPUTarget({target.vendor.backend!r}, {arch}, {target.facts['warp']})"
    yield "signature = {"
    for name in launch.names:
        yield f"    {name!r}: {launch.types.get(name, 'constexpr')!r},"
    yield "}"
    yield "constants = {"
    for name, literal in launch.literals.items():
        yield f"    {name!r}: {literal},"
    yield "}"
    yield "attributes = {"
    for number, name in enumerate(launch.names):
        if name in launch.types and name in launch.special:
            yield f"    ({number},): make_backend(target).parse_attr({launch.special[name]!r}),  # {name}"
    yield "}"
    yield f"options = {dict(_options(launch))!r}"
    yield "source = ASTSource(kernel, signature, constants, attributes)"
    yield "triton.compile(source, target=target, options=options)"


def _options(launch: Launch) -> Iterator[tuple[str, object]]:
    for name, text in launch.options.items():
        if name not in _HIDDEN:
            yield name, int(text) if text.isdecimal() else {"True": True, "False": False, "None": None}.get(text, text)
