"""Write a program that repeats one compilation without the harness, for the report of a fault."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator

from kernel_matrix.tools.launches.recording import Launch
from kernel_matrix.tools.launches.targets import Target

_HIDDEN = ("debug", "instrumentation_mode")  # options that say how Triton was started


def reproducer(launch: Launch, target: Target) -> tuple[str, str]:
    """Return the program and its language: Python, or ``sh`` for a command of nvcc. Empty where it cannot be written.

    That is so where a kernel of Triton is in the user's program or inside of a function, where a constant cannot be
    written down, and for AMD's compiler, which gets what PyTorch has made of the source.
    """
    if launch.toolchain == "nvcc":
        lines = () if target.vendor.backend == "hip" else _of_nvcc(launch, target)
        return _text(lines), "sh"
    if launch.toolchain == "tilelang":
        return _text(_of_tilelang(launch, target) if launch.program else ()), "python"
    can_be_written = (launch.importable or launch.program) and set(launch.literals) == set(launch.constants)
    return _text(_lines(launch, target) if can_be_written else ()), "python"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _of_tilelang(launch: Launch, target: Target) -> Iterator[str]:
    """Yield a program with TileLang's function in it. It needs neither the package nor a device."""
    settings, flags = (json.loads(launch.options.get(name, "null")) for name in ("pass_configs", "compile_flags"))
    configuration = dict(settings or {})
    if flags:
        given = configuration.get("tl.device_compile_flags") or []
        configuration["tl.device_compile_flags"] = [
            flag for some in (given, flags) for flag in ([some] if isinstance(some, str) else some)
        ]
    yield from ("import base64", "import zlib", "")
    yield "import tilelang"
    yield "from tilelang import tvm"
    yield "from tilelang.contrib.nvcc import get_target_arch"
    yield ""
    yield f"# The function of {launch.module}.{launch.kernel} as TVM writes it. print(function) shows it."
    yield from _packed(launch)
    yield "function = tvm.ir.load_json(zlib.decompress(base64.b64decode(PACKED)).decode())"
    if target.vendor.backend == "hip":
        yield f'target = tvm.target.Target({{"kind": "hip", "mcpu": {target.name!r}}})'
    else:
        digits = target.name.removeprefix("sm_")
        arch = f'f"sm_{{get_target_arch(({digits[:-1]}, {digits[-1]}))}}"'  # with the letter that TileLang adds
        yield f'target = tvm.target.Target({{"kind": "cuda", "arch": {arch}}})'
    yield f"with tvm.transform.PassContext(opt_level=3, config={configuration!r}), target:"
    yield f"    tilelang.lower(function, target=target, enable_device_compile={target.vendor.backend == 'cuda'})"


def _packed(launch: Launch) -> Iterator[str]:
    yield 'PACKED = """'
    yield from textwrap.wrap(launch.program, 110)
    yield '"""'


def _of_nvcc(launch: Launch, target: Target) -> Iterator[str]:
    """Yield the command for the source, which lies in the package."""
    arch = target.name.removeprefix("sm_")
    letter = "a" if arch in launch.options.get("specific", "").split(",") else ""
    source = launch.options.get("source", launch.kernel)
    yield f"# {source} of the package, its content has the sha256 {launch.source}...; start it in the source's folder"
    yield f"nvcc {launch.options['nvcc']} -cubin -arch=sm_{arch}{letter} -Xptxas -v -o /dev/null {shlex.quote(source)}"


def _generated(launch: Launch) -> Iterator[str]:
    """Yield lines that write the module which a package generated, where it can be imported."""
    yield f"# The source of {launch.module}, which the package generated."
    yield from _packed(launch)
    yield "folder = tempfile.mkdtemp()"
    yield 'pathlib.Path(folder, "generated.py").write_bytes(zlib.decompress(base64.b64decode(PACKED)))'
    yield "sys.path.insert(0, folder)"


def _lines(launch: Launch, target: Target) -> Iterator[str]:
    arch = target.name if target.vendor.backend == "hip" else target.name.removeprefix("sm_")
    if launch.program:
        yield from (*(f"import {name}" for name in ("base64", "pathlib", "sys", "tempfile", "zlib")), "")
    yield "import triton"
    yield "import triton.language as tl"
    yield "from triton.backends.compiler import GPUTarget"
    yield "from triton.compiler import ASTSource, make_backend"
    yield ""
    if launch.program:
        yield from _generated(launch)
    yield f"from {'generated' if launch.program else launch.module} import {launch.kernel} as kernel"
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
