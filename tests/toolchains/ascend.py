"""Run the kernels for Ascend NPUs on a CPU, and compare them with the golden.

``python ascend.py triton`` or ``python ascend.py tilelang``, with ``few`` behind it for one shape.

No NPU is needed, and none is emulated: Triton's interpreter runs the source of the device functions, and g++ compiles
the AscendC with a header that stands in for the vendor's (``asc.h``). That shows that the equations of the kernels are
right. What an NPU would do is not known, so this is no evidence in the matrix.
Each line is ``RESULT OP DIRECTION DTYPE STREAMS HIDDEN OUTPUT ERROR``, the largest error over the largest number.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch

from mhc.backends import load
from mhc.ops import expand, mhc_head, mhc_post, mhc_pre, sinkhorn

OPS = {"mhc_pre": mhc_pre, "sinkhorn": sinkhorn, "mhc_post": mhc_post, "mhc_head": mhc_head, "expand": expand}
TOKENS = 5
# The kernels of TileLang take a second each to lower: these have every kind of step that the others have.
FEW = {("mhc_pre", "forward"), ("mhc_pre", "backward"), ("sinkhorn", "backward")}
SHAPES = [(4, 200, torch.float32), (3, 77, torch.float32), (4, 200, torch.bfloat16)]

Operands = Mapping[str, torch.Tensor | int]
Run = Callable[[str, str, Any, Any], Any]


def inputs_of(op: str, streams: int, hidden: int, dtype: torch.dtype, *, gamma: bool, form: str) -> tuple[Any, Any]:
    """Return inputs of the forward and of the backward."""
    module, n = OPS[op], streams

    def draw(*shape: int, of: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape).to(of)

    if op == "sinkhorn":
        values = {"iterations": 7, "eps": sinkhorn.FORMS[form], "form": form}
        logits = draw(TOKENS, n, n)
        backward = sinkhorn.SinkhornBackwardInputs(logits, draw(TOKENS, n, n), **values)
        return sinkhorn.SinkhornInputs(logits, **values), backward
    if op == "expand":
        grads = draw(TOKENS, n, hidden, of=dtype)
        return expand.ExpandInputs(draw(TOKENS, hidden, of=dtype), n), expand.ExpandBackwardInputs(grads)
    x = draw(TOKENS, n, hidden, of=dtype)
    if op == "mhc_post":
        tensors = (x, draw(TOKENS, hidden, of=dtype), draw(TOKENS, n), draw(TOKENS, n, n))
        backward = mhc_post.MhcPostBackwardInputs(*tensors, draw(TOKENS, n, hidden, of=dtype))
        return mhc_post.MhcPostInputs(*tensors), backward
    mixes, alphas = (n * (n + 2), 3) if op == "mhc_pre" else (n, 1)
    mapping = (draw(mixes, n * hidden) / (n * hidden) ** 0.5, draw(alphas), draw(mixes))
    tensors = (x, *mapping, draw(n, hidden) if gamma else None)
    constants = {"norm_eps": 1e-3, "pre_eps": 1e-2} | ({"post_scale": 1.5} if op == "mhc_pre" else {})
    forward = (mhc_pre.MhcPreInputs if op == "mhc_pre" else mhc_head.MhcHeadInputs)(*tensors, **constants)
    exact = load("reference", op).golden(forward)
    saved = (*tensors, exact.m.float(), exact.r.float(), draw(TOKENS, hidden, of=dtype))
    if op == "mhc_pre":
        return forward, module.MhcPreBackwardInputs(*saved, draw(TOKENS, n), draw(TOKENS, n, n), **constants)
    return forward, module.MhcHeadBackwardInputs(*saved, **constants)


def operands_of(op: str, direction: str, inputs: Any, out: Any) -> dict[str, Any]:
    """Return the tensors by the names that kernels have for them, and the scratch between several kernels."""
    outputs = {f"grad_{name}" if direction == "backward" else name: t for name, t in out._asdict().items()}
    operands = {**inputs._asdict(), **outputs, "tokens": TOKENS}
    if op == "mhc_head":
        operands["h_in" if direction == "forward" else "grad_h_in"] = operands.get("out", operands.get("grad_out"))
    if op in ("mhc_pre", "mhc_head") and direction == "backward":
        operands |= {name: torch.full_like(inputs.m, torch.nan) for name in ("grad_logits", "grad_sums")}
    return operands


def with_triton(op: str, direction: str, inputs: Any, out: Any) -> None:
    """Launch the device functions of a kernel in Triton's interpreter, over a grid that covers all tokens."""
    kernel = importlib.import_module("mhc.backends.triton_ascend.operators").KERNELS[op, direction]
    operands = operands_of(op, direction, inputs, out)
    for function, types, constants, programs in kernel.sources(inputs.spec):
        width = constants.get("WIDTH", constants.get("HIDDEN", 1))
        counts = {
            "tokens": TOKENS,
            "blocks of tokens": -(-TOKENS // constants.get("BLOCK_TOKENS", 1)),
            "columns": -(-width // constants.get("BLOCK_HIDDEN", 1)),
        }
        names = function.arg_names[: len(types)]
        # A tensor that a kernel does not have is not read: any other stands in its place.
        values = [operands.get(name) if operands.get(name) is not None else inputs[0] for name in names]
        there = {name: value for name, value in constants.items() if name in function.arg_names}
        function[tuple(counts[name] for name in programs) or (1,)](*values, **there)


def with_tilelang(op: str, direction: str, inputs: Any, out: Any) -> None:
    """Compile the AscendC of a kernel with g++, and run it on one core after the other."""
    kernel = importlib.import_module("mhc.backends.tilelang_ascend.operators").KERNELS[op, direction]
    operands = operands_of(op, direction, inputs, out)
    for function in kernel.functions:
        source, names, cores = ascendc_of(function, inputs.spec)
        library, name = compiled(source), f"{function.__name__}_kernel"
        values = [operands.get(name) if operands.get(name) is not None else inputs[0] for name in names]
        pointers = [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in values]
        block = ctypes.c_int64.in_dll(library, "block_idx")
        getattr(library, name).argtypes = [ctypes.c_int32 if isinstance(v, int) else ctypes.c_void_p for v in values]
        for core in range(cores):
            block.value = core
            getattr(library, name)(*pointers)


def ascendc_of(function: Callable[[Any], Any], spec: Any) -> tuple[str, list[str], int]:
    """Return the AscendC of a kernel, the names of its parameters, and how many cores it asks for."""
    from tilelang import tvm

    from mhc.backends.tilelang_ascend.ascendc import lowered

    code = lowered(function, spec)
    names = [parameter.name for parameter in code.parameters]
    tokens = {parameter: TOKENS for parameter in code.parameters if parameter.name == "tokens"}
    cores = tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(code.cores, tokens))
    return code.source, names, int(cores)


def compiled(source: str) -> ctypes.CDLL:
    """Compile AscendC with the header next to this file, whose core's memory is where the source has address 0."""
    lines = ['#include "asc.h"', *(line for line in source.splitlines() if not line.startswith("#include"))]
    text, memories = re.subn(r"= \(__ubuf__ (\w+) \*\)0;", r"= (\1*)ub;", "\n".join(lines))
    assert memories == 1, source
    with tempfile.TemporaryDirectory() as folder:
        path, library = Path(folder, "kernel.cc"), Path(folder, "kernel.so")
        path.write_text(text)
        flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-fPIC", "-shared"]
        subprocess.run(["g++", *flags, f"-I{Path(__file__).parent}", str(path), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


RUNS: dict[str, Run] = {"triton": with_triton, "tilelang": with_tilelang}


def main(which: str, few: bool) -> None:
    """Run every operator in both directions and in all shapes, or a few kernels in one, and print the errors."""
    torch.manual_seed(0)
    shapes = [(SHAPES[1], False)] if few else list(product(SHAPES, (False, True)))
    for op, ((streams, hidden, dtype), second) in product(OPS, shapes):
        form = "deepseek" if second else "paper"
        pair = inputs_of(op, streams, hidden, dtype, gamma=not second, form=form)
        for direction, inputs in zip(("forward", "backward"), pair, strict=True):
            if few and which == "tilelang" and (op, direction) not in FEW:
                continue
            module = OPS[op]
            out = module.empty_outputs(inputs) if direction == "forward" else module.empty_grads(inputs)
            for tensor in out:
                if tensor is not None:
                    tensor.fill_(torch.nan)
            RUNS[which](op, direction, inputs, out)
            golden = load("reference", op, direction).golden(inputs)
            for name, exact in golden._asdict().items():
                if exact is not None:
                    error = (getattr(out, name).double() - exact).abs().max() / exact.abs().max()
                    words = (op, direction, str(dtype).removeprefix("torch."), streams, hidden, name)
                    print("RESULT", *words, f"{error.item():.3g}")


if __name__ == "__main__":
    main(sys.argv[1], few="few" in sys.argv[2:])
