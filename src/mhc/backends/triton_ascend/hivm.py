"""Lower Triton's device functions with triton-ascend and ascendnpu-ir: to HIVM, and to machine code where that goes.

triton-ascend asks an NPU's driver for its name before it compiles, so its own ``triton.compile`` needs the hardware.
The stages before are called one by one here. ascendnpu-ir has the program ``bishengir-compile``: it optimises HIVM, the
vendor's form of vector and cube instructions with their synchronisation, and hands that to ``hivmc``, which is in
Huawei's CANN toolkit alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import ascendnpuir
import triton
from triton._C.libtriton import ir
from triton.backends.ascend import compiler as ascend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mhc.backends import Artifact, stage
from mhc.backends.triton_ascend.source import Source
from mhc.toolchain.cache import Entry, cached

_COMPILER = Path(ascendnpuir.__file__).with_name("bin") / "bishengir-compile"
_FLAGS = ("--enable-hfusion-compile=true", "--enable-hivm-compile=true", "--enable-triton-kernel-compile=true")
# The only error after which HIVM is complete: all passes ran, and the next program is not on this machine.
_NO_HIVMC = "External hivmc run fails, returning module before running external compiler"
_NAME = re.compile(r"func\.func @(\w+)\(.*global_kernel")
# What shows that the text is the optimised form: a store to the NPU's memory, flags between its pipes, and no operation
# of the dialects that the compiler begins with.
_STORE = re.compile(r"call @store_ubuf_to_gm_|\bmemref\.store .*address_space<gm>|\bhivm\.hir\.store\b")
_FLAG, _BEFORE = "hivm.hir.set_flag", re.compile(r"^\s*(?:%\S+ = )?(linalg|hfusion|tensor|tt)\.\w+", re.MULTILINE)


def compile_source(source: Source, target: str, device: str) -> Artifact:
    """Compile one device function for the ``device`` of a ``target``.

    Raises:
        RuntimeError: a compiler failed, or what came out is no optimised HIVM.
    """
    with stage("lower"):
        text = linalg(source, device)
        hivmc = shutil.which("hivmc")

        def key() -> list[str]:
            return [text, device, *_FLAGS, triton.__version__, str(_COMPILER.stat().st_size), hivmc or ""]

        data, facts = cached(key, lambda: _compiled(text, device, hivmc is not None))
    return Artifact(facts["kind"], target, data)


def linalg(source: Source, device: str) -> str:
    """Return the device function in MLIR's dialect ``linalg``, as triton-ascend makes it for its next compiler.

    Raises:
        RuntimeError: a pass failed; the message is its own.
    """
    names, constants = source.function.arg_names, source.constants
    signature = dict(zip(names, source.types, strict=False))
    given = {name: constants[name] for name in names if name not in signature}
    target = GPUTarget("npu", device, 0)
    backend = ascend.AscendBackend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    code = ASTSource(source.function, signature, given)
    module = code.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    module = ascend.make_ttir(module, metadata, options)
    try:
        text = ascend.ttir_to_linalg(module, metadata, options, named_ops=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"triton-adapter-opt: {_short(error.stderr.decode(errors='replace'))}") from None
    return str(ascend._parse_linalg_metadata(text, metadata)[0])


def _compiled(text: str, device: str, with_hivmc: bool) -> Entry:
    with tempfile.TemporaryDirectory(prefix="mhc-") as name:
        folder = Path(name)
        (folder / "kernel.mlir").write_text(text, encoding="utf-8")
        command = [str(_COMPILER), "kernel.mlir", f"--target={device}", *_FLAGS, f"--save-temps={folder}"]
        done = subprocess.run(
            [*command, "-o", "kernel.o"], capture_output=True, text=True, check=False, cwd=folder, errors="replace"
        )
        if done.returncode == 0 and (objects := sorted(folder.glob("kernel*.o"))):
            return objects[0].read_bytes(), {"kind": "npu-object"}
        if with_hivmc or _NO_HIVMC not in done.stderr:
            raise RuntimeError(f"bishengir-compile: {_short(done.stderr)}")
        hivm = folder / "module.hivm.opt.mlir"
        if not hivm.is_file():
            raise RuntimeError(f"bishengir-compile left no HIVM: {_short(done.stderr)}")
        data = hivm.read_bytes()
    check(data.decode(errors="replace"), _NAME.findall(text)[0])
    return data, {"kind": "hivm-source"}


def check(text: str, name: str) -> None:
    """Hold that a text is the optimised HIVM of a device function.

    Raises:
        RuntimeError: it is not.
    """
    entry = re.search(rf"^  func\.func @{name}\(.*hacc\.entry.*function_kind<DEVICE>", text, re.MULTILINE)
    fault = "has no function of that name for the NPU" if entry is None else ""
    fault = fault or ("stores nothing" if not _STORE.search(text) else "")
    fault = fault or ("has no flags between its pipes" if _FLAG not in text else "")
    if not fault and (operation := _BEFORE.search(text)):
        fault = f"still has an operation {operation[0].strip()}"
    if fault:
        raise RuntimeError(f"bishengir-compile: what it wrote for {name} {fault}")


def _short(text: str) -> str:
    """Return the lines of a log that say what is wrong, without the folder that they are about."""
    lines = [line for line in text.splitlines() if "error" in line.lower()] or text.splitlines()[-3:]
    return " ".join(re.sub(r"\S*/kernel\.(ttir\.)?mlir", "kernel.mlir", line).strip() for line in lines)[:2000]
