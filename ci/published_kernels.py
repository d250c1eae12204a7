"""Count what the emulator of AMD's GPUs does not know of published kernels: reads packages, and prints JSON.

``compile PACKAGES KEPT`` compiles Triton kernels of unpacked packages, each a folder of ``PACKAGES``, for all targets,
with guessed types and constants; ``KEPT`` keeps the code. ``count KEPT`` says what is refused. It runs in an
environment with Triton, PyTorch and tinygrad. Modules are imported, with a stand-in for each module that is not here.
``mutate PACKAGES`` launches kernels on drawn numbers, and changes instructions of those that run without a finding.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
FIRST = "gfx942"  # for which a guess is looked for
SECONDS, PACKAGE_SECONDS, IMPORT_SECONDS = 60, 400, 20  # of CPU time for one compilation, a package, a module
MOST_MODULES = 60  # of a package
MOST_TRIED = 8  # kernels of a package that are launched
ELEMENTS, LIMIT = 1 << 15, 300_000  # of each array of a launch; instructions of a workgroup
ONE = re.compile(r"stride_?\w*(d|k|n|h|col|last|1)$", re.IGNORECASE)  # numbers that are 1 in a launch
ACCESS = re.compile(r"tl\.(load|store|make_block_ptr|atomic_\w+)")
STORES = re.compile(r"\btl\.(store|atomic_\w+)\(|\.store\(")
JIT = re.compile(r"^\s*@(triton\.)?jit\b", re.MULTILINE)
# What a parameter is by its name, where the first pattern is in it.
POINTER = re.compile(r"ptr|pointer|^[a-z]?_?(q|k|v|o|do|dq|dk|dv|x|y|dx|dy|h|w|out|lse)$|(?<!BLOCK)_p$", re.IGNORECASE)
WHOLE = re.compile(
    r"ind|idx|seqlen|cu_|offs|table|label|target|lengths?|lens|slot|mapping|ids|count|num|lock|sorted|topk_i",
    re.IGNORECASE,
)
FLOAT = re.compile(
    r"eps|scale|alpha|beta|gamma|lr|momentum|decay|smooth|softcap|prob|rate|weight|theta|temp|lambda", re.IGNORECASE
)
FLAG = re.compile(
    r"^(is|has|use|with|do|enable|apply|add|store|output|return|inplace|reverse|causal|even|transpose|need)_?|causal|_flag$",
    re.IGNORECASE,
)
TYPE = re.compile(r"type", re.IGNORECASE)
SIZE = re.compile(r"block|^b[a-z]{1,2}$|size|dim|tile|chunk|^[A-Z]{1,2}$", re.IGNORECASE)
# Of a guess: the type of floats in memory, and sizes.
GUESSES = (("fp16", 32), ("fp32", 64), ("fp16", 16), ("i32", 32), ("bf16", 128))


def _named(_: Any, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Kind(name, (Thing,), {})


class Kind(type):
    """The kind of what an absent module has: it can be called, subclassed, subscripted and compared."""

    __getattr__ = _named
    __getitem__ = __or__ = __ror__ = lambda cls, *_: cls
    __lt__ = __le__ = __gt__ = __ge__ = lambda *_: False
    __iter__ = lambda *_: iter(())  # noqa: E731  # all of them are as short


class Thing(metaclass=Kind):
    """An instance of it, which can do as much."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take anything."""

    def __call__(self, *given: Any, **_: Any) -> Any:
        """Return a function as it is, as a decorator does."""
        return given[0] if len(given) == 1 and inspect.isfunction(given[0]) else Thing()

    __getattr__ = _named
    __getitem__ = __or__ = __enter__ = __exit__ = lambda *_: Thing()
    __lt__ = __le__ = __gt__ = __ge__ = lambda *_: False
    __iter__ = lambda *_: iter(())  # noqa: E731
    __int__ = __index__ = __len__ = lambda *_: 0


class Absent(types.ModuleType):
    """A module that is not here."""

    __path__: Sequence[str] = ()
    __all__ = ()
    __version__ = "9.9.9"
    __getattr__ = _named


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find what nothing else finds, for modules of a package."""

    def __init__(self, package: Path) -> None:
        self._package = str(package)

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return a stand-in for a module that a module of the package imports."""
        files = (frame.filename for frame in reversed(traceback.extract_stack()[:-1]))
        importer = next(file for file in files if "importlib" not in file)
        is_wanted = importer.startswith(self._package) or isinstance(sys.modules.get(name.split(".")[0]), Absent)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_wanted else None

    def create_module(self, spec: Any) -> Any:
        """Return the stand-in."""
        return Absent(spec.name)

    def exec_module(self, module: Any) -> None:
        """Do nothing."""


def out_of_time(*_: Any) -> None:
    raise TimeoutError


def limited(seconds: float, call: Callable[..., Any], *given: Any) -> Any:
    """Return what a call returns within so many CPU-seconds; None for an error."""
    signal.signal(signal.SIGPROF, out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return call(*given)
    except (Exception, SystemExit):
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def drawn(name: str) -> str:
    """Return what names are ordered by, so that nobody chooses."""
    return hashlib.sha256(name.encode()).hexdigest()


def kernels_of(package: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and the function of each kernel of an unpacked package, in an order that nobody chose."""
    from triton.runtime.jit import JITFunction, KernelInterface

    package = package.resolve()
    files = [path for path in package.rglob("*.py") if JIT.search(path.read_text(errors="ignore"))]
    roots = {next((up for up in path.parents if not (up / "__init__.py").exists()), package) for path in files}
    sys.path[:0] = map(str, sorted(roots))
    sys.meta_path.append(Finder(package))
    for path in sorted(files, key=lambda one: drawn(one.name))[:MOST_MODULES]:
        root = next(up for up in path.parents if up in roots)
        module = limited(
            IMPORT_SECONDS, importlib.import_module, ".".join(path.relative_to(root).with_suffix("").parts)
        )
        for name, found in sorted(vars(module or types.ModuleType("")).items(), key=lambda one: drawn(one[0])):
            configs = []
            while isinstance(found, KernelInterface) and not isinstance(found, JITFunction):
                configs += getattr(found, "configs", [])
                found = found.fn
            is_own = isinstance(found, JITFunction) and found.fn.__module__ == module.__name__
            if is_own and STORES.search(found.src):
                yield f"{path.stem}.{name}", (found, configs)


def addressed(value: ast.expr) -> Iterator[str]:
    """Yield the names that an address may begin with: of the first operand of sums."""
    if isinstance(value, ast.BinOp):
        yield from addressed(value.left)
    elif isinstance(value, ast.IfExp):
        yield from (*addressed(value.body), *addressed(value.orelse))
    elif isinstance(value, ast.Name):
        yield value.id


def addresses(source: str) -> set[str]:
    """Return the names of a kernel that are used as addresses."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(source))))
    calls = [one for one in nodes if isinstance(one, ast.Call) and ACCESS.fullmatch(ast.unparse(one.func))]
    names = {name for one in calls for value in one.args[:1] for name in addressed(value)}
    changes = [one for one in nodes if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    for _ in range(len(changes)):
        known = len(names)
        names |= {name for one in changes if one.targets[0].id in names for name in addressed(one.value)}
        if len(names) == known:
            break
    return names


def constant_of(name: str, size: int) -> Any:
    """Return the value of a constant by its name."""
    import triton.language as tl

    if TYPE.search(name):
        return tl.float16
    return False if FLAG.search(name) else size if SIZE.search(name) else 2


def guessed(function: Any, configs: Sequence[Any], kind: str, size: int) -> tuple[dict[str, str], dict[str, Any]]:
    """Return types of the parameters and values of the constants."""
    signature, constants, used = {}, {}, addresses(function.src)
    chosen = dict(configs[0].kwargs) if configs else {}
    for one in function.params:
        if one.is_constexpr or one.name in chosen:
            has_default = one.default is not inspect.Parameter.empty
            constants[one.name] = chosen.get(one.name, one.default if has_default else constant_of(one.name, size))
            continue
        is_address = POINTER.search(one.name) or one.name in used
        if "stride" in one.name.lower():
            signature[one.name] = "i32"
        elif is_address:
            signature[one.name] = f"*{'i32' if WHOLE.search(one.name) else kind}"
        else:
            signature[one.name] = "fp32" if FLOAT.search(one.name) else "i32"
    return signature, constants


def compiled(function: Any, configs: Sequence[Any], guess: tuple[str, int], target: str) -> bytes:
    """Return the code of a kernel for a target."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants = guessed(function, configs, *guess)
    names = [one.name for one in function.params]
    whole = {name: signature.get(name, "constexpr") for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name, kind in signature.items() if kind[0] == "*"}
    source = ASTSource(function, whole, {(names.index(name),): value for name, value in constants.items()}, aligned)
    warps = configs[0].num_warps if configs else 4
    lanes = 64 if target.startswith("gfx9") else 32
    return triton.compile(source, target=GPUTarget("hip", target, lanes), options={"num_warps": warps}).asm["hsaco"]


def guesses_of(package: Path) -> Iterator[tuple[str, Any, Sequence[Any], tuple[str, int], bytes]]:
    """Yield the kernels of a package that compile, each with its configurations, its guess, and its code."""
    for name, (function, configs) in kernels_of(package):
        for guess in GUESSES:
            code = limited(SECONDS, compiled, function, configs, guess, FIRST)
            if code is not None:
                yield name, function, configs, guess, code
                break


def compile_package(package: Path, kept: Path, most: int) -> None:
    """Keep the code of some kernels of a package for all targets."""
    for name, function, configs, guess, _ in islice(guesses_of(package), most):
        for target in TARGETS:
            code = limited(SECONDS, compiled, function, configs, guess, target)
            if code is not None:
                (kept / f"{package.name} {name} {target}.hsaco").write_bytes(code)


def arguments_of(signature: Mapping[str, str]) -> tuple[list[Any], list[Any]]:
    """Return drawn arguments of a launch, and the arrays among them."""
    from gpu_emulators.amd import Memory

    draw, given, arrays = np.random.default_rng(1), [], []
    for name, kind in signature.items():
        if kind[0] == "*":
            whole = kind == "*i32"
            array = draw.integers(0, 8, ELEMENTS) if whole else draw.uniform(-1, 1, ELEMENTS)
            array = array.astype(
                {"*i32": np.int32, "*fp16": np.float16, "*fp32": np.float32, "*bf16": np.float32}[kind]
            )
            arrays.append(array)
            given.append(Memory.of(name, array))
        else:
            value = struct.pack("<f", 0.5) if kind == "fp32" else struct.pack("<i", 1 if ONE.search(name) else 32)
            given.append(value)
    return [*given, bytes(8), bytes(8)], arrays


def launched(program: Any, signature: Mapping[str, str], threads: int) -> tuple[list[str], list[bytes], list[bytes]]:
    """Return what is found, and all memory before and behind a launch of two workgroups."""
    given, arrays = arguments_of(signature)
    before = [one.tobytes() for one in arrays]
    try:
        found = program.launch((2,), threads, given, limit=LIMIT).findings
        kinds = sorted({one.kind for one in found})
    except Exception as error:
        kinds = [type(error).__name__]
    return kinds, before, [one.tobytes() for one in arrays]


def mutate(package: Path, count: int) -> None:
    """Print what is seen of changed instructions of the first kernel of a package that runs and has no finding."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "toolchains"))
    from gfx_mutants import edited
    from gfx_mutated import mutants

    from gpu_emulators.amd import Program
    from gpu_emulators.amd.code_object import read

    for name, function, configs, guess, data in islice(guesses_of(package), MOST_TRIED):
        signature, _ = guessed(function, configs, *guess)
        code = read(data)
        whole = limited(SECONDS, Program, code, FIRST)
        threads = 64 * (configs[0].num_warps if configs else 4)
        if whole is None:
            continue
        kinds, before, right = launched(whole, signature, threads)
        if kinds or right == before:
            continue
        several = sorted(mutants(whole, FIRST), key=lambda one: drawn(f"{name} {one[0]} {one[1].address}"))
        for kind, one, edit in several[:count]:
            try:
                mutant = Program(edited(code, whole, edit), FIRST)
                kinds, _, numbers = launched(mutant, signature, threads)
                seen = kinds or ["other numbers"] * (numbers != right)
            except Exception as error:
                seen = [type(error).__name__]
            print(json.dumps([package.name, name, kind, f"{one.address:#x} {one.name}", seen]), flush=True)
        return


def each(what: str, most: int, packages: Path, kept: Path | None = None, output: Any = subprocess.DEVNULL) -> None:
    """Do something with each package, in a process of its own."""
    for package in sorted(packages.iterdir()):
        if kept is not None and len(list(kept.glob(f"{package.name} * {FIRST}.hsaco"))) >= most:
            continue
        command = [sys.executable, __file__, what, package, *([kept] if kept else []), "--most", most]
        variables = os.environ | {"TRITON_ALLOW_NON_CONSTEXPR_GLOBALS": "1"}
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                list(map(str, command)), env=variables, timeout=PACKAGE_SECONDS, check=False,
                stdout=output, stderr=subprocess.DEVNULL,
            )  # fmt: skip


def refused(kept: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield each package, kernel and target with what the emulator does not know."""
    from gpu_emulators.amd.code_object import read
    from gpu_emulators.amd.decoding import decode
    from gpu_emulators.amd.library import handler_names
    from gpu_emulators.amd.translate import unknown
    from gpu_emulators.common.errors import EmulatorError

    known = handler_names()
    for path in sorted(kept.glob("*.hsaco")):
        package, name, target = path.stem.split(" ")
        try:
            texts = [one.text for one in read(path.read_bytes()).kernels.values()]
            lacking = sorted({what for text in texts for what in unknown(decode(text, target), target, known)})
        except EmulatorError as error:
            lacking = [str(error)]
        yield package, name, target, lacking


def counted(kept: Path) -> Mapping[str, Any]:
    """Return the numbers of kernels and packages, and of each target what is refused in how many kernels."""
    lines = list(refused(kept))
    of_targets = {}
    for target in TARGETS:
        own = [lacking for _, _, which, lacking in lines if which == target]
        counts = Counter(what for lacking in own for what in lacking)
        of_targets[target] = {
            "kernels": len(own), "known": sum(not lacking for lacking in own), "refused": dict(counts.most_common())
        }  # fmt: skip
    kernels = {(package, name) for package, name, _, _ in lines}
    return {"kernels": len(kernels), "packages": len({package for package, _ in kernels}), **of_targets}


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "count", "mutate", "compile-one", "mutate-one"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=4, help="kernels of a package, or mutants of its kernel")
    given = parser.parse_args()
    if given.what == "count":
        print(json.dumps(counted(*given.folders), indent=1))
    elif given.what == "compile":
        given.folders[1].mkdir(parents=True, exist_ok=True)
        each("compile-one", given.most, *given.folders)
    elif given.what == "mutate":
        each("mutate-one", given.most, *given.folders, output=None)
    else:
        from gpu_emulators.amd.triton_driver import emulated

        with emulated(FIRST):
            {"compile-one": compile_package, "mutate-one": mutate}[given.what](*given.folders, given.most)


if __name__ == "__main__":
    main()
