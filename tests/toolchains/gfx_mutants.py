"""Faults in the machine code for AMD's GPUs: single instructions of three kernels are changed. ``gfx_faults`` runs it.

No other lane of the matrix has these instructions, so none can see such a fault: a CPU and OpenCL run other code of the
same source, and in PTX are no waits, no masks of lanes, no descriptors of buffers, and another layout of products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from gfx_programs import add, contents, dot, normal, softmax

from gpu_emulators.amd import Memory, Program
from gpu_emulators.amd.code_object import CodeObject, read
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.common.memory import memory_of

ROW_MASK, BANK_MASK, DPP, FIRST, SECOND, THIRD = (60, 4), (56, 4), (40, 9), (32, 9), (41, 9), (50, 9)
NUMBER = 128  # of the constant 0 as an operand
ROW_SHR, ROW_BCAST = 0x110, 0x140

Edit = Callable[[Instruction], int | None]


class Kernel(NamedTuple):
    """A kernel that is right, with the arguments of one launch."""

    name: str
    run: Callable[[], Any]
    arguments: Sequence[torch.Tensor | int]


class Mutant(NamedTuple):
    """A fault, and the edit that makes it: new bits for an instruction; None leaves it as it is."""

    name: str
    kernel: str
    targets: Sequence[str]
    edit: Edit


def put(raw: int, place: tuple[int, int], value: int) -> int:
    low, width = place
    return raw & ~((1 << width) - 1 << low) | value << low


def field(raw: int, place: tuple[int, int]) -> int:
    low, width = place
    return raw >> low & (1 << width) - 1


def of_sum(place: tuple[int, int], value: int, control: int) -> Edit:
    """Change a field of the additions that read other lanes by this control of DPP."""

    def edit(one: Instruction) -> int | None:
        is_it = one.name == "v_add_f32" and "DPP" in one.encoding and field(one.raw, DPP) == control
        return put(one.raw, place, value) if is_it else None

    return edit


def exchanged(one: Instruction) -> int | None:
    """Exchange the factors of a product of matrices: the result has its rows and columns exchanged."""
    if "mfma" not in one.name and "wmma" not in one.name:
        return None
    first, second = field(one.raw, FIRST), field(one.raw, SECOND)
    return put(put(one.raw, FIRST, second), SECOND, first)


def endless(one: Instruction) -> int | None:
    """Take the end out of the descriptors of buffers: lanes that are masked out read and write behind it."""
    return put(one.raw, (32, 32), 0xFFFFFFFF) if one.name == "s_mov_b32" and one.literal == 0x7FFFFFFE else None


def impatient(one: Instruction) -> int | None:
    """Wait for one load fewer, where all are waited for."""
    waits_for_all = one.name == "s_waitcnt" and not one.raw & 0xF and one.raw & 0xF00 == 0xF00
    return one.raw | 1 if waits_for_all else None


def half_a_wave(one: Instruction) -> int | None:
    """Read the last lane of 32, where a wave has 64."""
    is_it = one.name == "v_readlane_b32" and field(one.raw, SECOND) == NUMBER + 63
    return put(one.raw, SECOND, NUMBER + 31) if is_it else None


def of_first_lane(one: Instruction) -> int | None:
    """Take the first lane of the other row of 16, not the last."""
    return put(put(one.raw, SECOND, NUMBER), THIRD, NUMBER) if one.name == "v_permlanex16_b32" else None


def maskless(one: Instruction) -> int | None:
    """Keep all lanes, where only some go on: a copy of EXEC is kept, and EXEC stays."""
    if not one.name.startswith("s_and_saveexec"):
        return None
    return (one.raw & ~0xFF | 126) & ~0xFF00 | {"s_and_saveexec_b64": 0x0100, "s_and_saveexec_b32": 0x0000}[one.name]


def behind_the_lds(one: Instruction) -> int | None:
    return put(one.raw, (0, 16), 8192) if one.name in ("ds_write_b32", "ds_store_b32") else None


BOTH, CDNA, RDNA = ("gfx942", "gfx1100"), ("gfx942",), ("gfx1100",)
MUTANTS = (
    Mutant("the descriptor of a buffer has no end", "add", BOTH, endless),
    Mutant("a wait is for one load too few", "add", CDNA, impatient),
    Mutant("a mask leaves a row of lanes out", "softmax", BOTH, of_sum(ROW_MASK, 0b0101, ROW_SHR + 8)),
    Mutant("a mask leaves a bank of lanes out", "softmax", BOTH, of_sum(BANK_MASK, 0b0111, ROW_SHR + 8)),
    Mutant("lanes are moved by one, not by two", "softmax", BOTH, of_sum(DPP, ROW_SHR + 1, ROW_SHR + 2)),
    Mutant("the upper half gets another row", "softmax", CDNA, of_sum(DPP, ROW_BCAST + 2, ROW_BCAST + 3)),
    Mutant("the wave is taken for one of 32 lanes", "softmax", CDNA, half_a_wave),
    Mutant("the other row gives its first lane", "softmax", RDNA, of_first_lane),
    Mutant("the mask of lanes is lost", "softmax", BOTH, maskless),
    Mutant("a value is behind the end of the LDS", "softmax", BOTH, behind_the_lds),
    Mutant("the factors of a product are exchanged", "dot", BOTH, exchanged),
)


def kernels() -> list[Kernel]:
    x, y = normal(2, 1000)
    row = normal(1, 250)
    a, b = normal(32, 32, dtype=torch.bfloat16), normal(32, 32, dtype=torch.bfloat16)
    sums, shares, product = torch.empty(1000), torch.empty(1, 250), torch.empty(32, 32)
    return [
        Kernel("add", lambda: add[1,](x, y, sums, 1000, B=1024), (x, y, sums, 1000)),
        Kernel("softmax", lambda: softmax[1,](row, shares, 250, B=256), (row, shares, 250)),
        Kernel("dot", lambda: dot[1,](a, b, product, 32, M=32, N=32, B=32), (a, b, product, 32)),
    ]


def told(program: Program, kernel: Kernel, metadata: Any, **limits: int) -> tuple[list[str], list[bytes]]:
    """Launch, and return the kinds of findings and all memory."""
    threads, shared = metadata.num_warps * metadata.warp_size, metadata.shared
    arguments: list[Memory | bytes] = [
        memory_of("x", one) if isinstance(one, torch.Tensor) else one.to_bytes(4, "little") for one in kernel.arguments
    ]
    found = program.launch((1,), threads, [*arguments, bytes(8), bytes(8)], shared=shared, **limits).findings
    return sorted({one.kind for one in found}), contents(arguments)


def edited(code: CodeObject, program: Program, edit: Edit) -> CodeObject:
    text = bytearray(program.kernel.text)
    for one in program.instructions:
        if (made := edit(one)) is not None:
            text[one.address : one.address + one.size] = made.to_bytes(one.size, "little")
    assert text != program.kernel.text, "no instruction is edited"
    return replace(code, kernels={program.kernel.name: replace(program.kernel, text=bytes(text))})


def judged(kernel: Kernel, target: str) -> dict[str, list[str]]:
    """Return what is found of the kernel and of each mutant of it, or that numbers are others."""
    compiled = kernel.run()
    code = read(compiled.asm["hsaco"])
    whole = Program(code, target)
    found, right = told(whole, kernel, compiled.metadata)
    results = {f"{kernel.name} as it is": found}
    for mutant in MUTANTS:
        if mutant.kernel == kernel.name and target in mutant.targets:
            program = Program(edited(code, whole, mutant.edit), target)
            kinds, numbers = told(program, kernel, compiled.metadata)
            results[mutant.name] = kinds or ["other numbers"] * (numbers != right)
    return results


def instructions(target: str) -> dict[str, list[str]]:
    """Return what is found of all mutants."""
    return {name: found for kernel in kernels() for name, found in judged(kernel, target).items()}
