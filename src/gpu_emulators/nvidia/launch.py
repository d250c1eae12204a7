"""Load a kernel of PTX and launch it: arguments and memory in, findings out."""

from __future__ import annotations

import copy
import ctypes
import functools
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from gpu_emulators.common.errors import EmulatorError, UnknownInstructionError
from gpu_emulators.common.findings import Finding, Place
from gpu_emulators.common.library import Found, Region, opened
from gpu_emulators.common.memory import LIMIT, MOST_FINDINGS, SPOILED, Memory, Ran, identical, in_windows, place_of
from gpu_emulators.nvidia import access, arithmetic, records
from gpu_emulators.nvidia.findings import described
from gpu_emulators.nvidia.flow import turns
from gpu_emulators.nvidia.forms import record_of
from gpu_emulators.nvidia.operands import Registers
from gpu_emulators.nvidia.parse import Instruction, Kernel, Variable, read
from gpu_emulators.nvidia.records import Record

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90")
SOURCES = Path(__file__).with_name("native")
_TABLES = (access, arithmetic)  # they are imported for their forms


class _Launch(ctypes.Structure):
    """A launch as ``native/launch.cc`` reads it."""

    _fields_: ClassVar = [
        ("grid", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32 * 3),
        *((name, ctypes.c_uint32) for name in ("shared", "local", "registers", "spoiled")),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """Return the interpreter, compiled if no earlier one is of the same source.

    Raises:
        NoCompilerError: there is no C++ compiler.
        EmulatorError: the compiler failed.
    """
    return opened(SOURCES, records.SIZE)


@functools.cache
def _handler(name: str) -> int | None:
    address: int | None = library().find_handler(name.encode())
    return address


class Program:
    """One kernel of a text of PTX, ready to run on this CPU."""

    def __init__(self, text: str, name: str | None = None) -> None:
        """Load the kernel of that name, or the only one.

        Raises:
            EmulatorError: there is no such kernel, or the text is not PTX.
            UnknownInstructionError: it has an instruction that the emulator does not know.
        """
        module = read(text)
        self.kernel = _chosen(module.kernels, name)
        self.target = module.target
        self._offsets, size = _parameters(self.kernel)
        self._block = ctypes.create_string_buffer(size + 64)
        variables = [*module.variables, *self.kernel.variables]
        self._globals = {one: _image(one) for one in variables if one.space in ("global", "const")}
        shared, self._shared = _laid_out(variables, "shared")
        local, self._local = _laid_out(variables, "local")
        addresses = shared | local | {one.name: ctypes.addressof(image) for one, image in self._globals.items()}
        start = ctypes.addressof(self._block)
        self._registers = Registers(self.kernel, addresses | {name: start + at for name, at in self._offsets.items()})
        self._turns, back = turns(self.kernel.instructions, self.kernel.labels)
        self._records = [self._record(one, back) for one in self.kernel.instructions]

    def _record(self, instruction: Instruction, back: Mapping[tuple[int, int], int]) -> Record:
        record, number = record_of(instruction, self._registers, self.kernel.labels), instruction.number
        record.turn, record.behind = self._turns[number], back.get((number, number + 1), 0)
        if record.handler == "bra":
            [to] = record.parameters
            record.parameters = (to, back.get((number, to), self._turns[to]))
        elif record.handler == "ret" and not instruction.guard:
            record.flags |= records.ENDS
        for name in filter(None, (record.handler, record.half)):
            if _handler(name) is None:
                raise UnknownInstructionError(f"{self.kernel.name}: {instruction.opcode} is not known ({name})")
        return record

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions of the kernel, in their order."""
        return list(self.kernel.instructions)

    def without(self, number: int) -> Program:
        """Return the program with the instruction of a number left out: a mutant, for the test of a test."""
        mutant = copy.copy(self)
        mutant._records = list(self._records)
        mutant._records[number] = Record("nothing", flags=records.PRODUCTS, turn=self._turns[number])
        return mutant

    def launch(
        self,
        grid: Sequence[int],
        threads: int | Sequence[int],
        arguments: Sequence[Memory | bytes],
        *,
        shared: int = 0,
        limit: int = LIMIT,
    ) -> Ran:
        """Run the kernel over a grid of blocks, and return what was found.

        ``arguments`` are the kernel's, in their order: memory, or the bytes of a value. ``shared`` are the bytes of
        shared memory that only the launch asks for.

        Raises:
            EmulatorError: the arguments do not fit the kernel, or the limit of instructions is met.
        """
        regions, places, given = in_windows(arguments)
        self._fill(given)
        regions += [identical(self._block), *(_writable(one, image) for one, image in self._globals.items())]
        places += [place_of("the arguments", self._block)]
        places += [place_of(one.name, image) for one, image in self._globals.items()]
        code, operands = self._assembled()
        block = [*([threads] if isinstance(threads, int) else threads), 1, 1][:3]
        launch = _Launch((ctypes.c_uint32 * 3)(*[*grid, 1, 1][:3]), (ctypes.c_uint32 * 3)(*block))
        launch.shared, launch.local = self._shared + shared, self._local
        launch.registers, launch.spoiled = self._registers.count, SPOILED
        begin = b"".join(struct.pack("<IIQ", number, *key) for key, number in self._registers.given.items())
        found, count = (Found * MOST_FINDINGS)(), ctypes.c_uint32(MOST_FINDINGS)
        executed = library().run(
            code,
            ctypes.c_uint32(len(code) // records.SIZE),
            (ctypes.c_uint32 * len(operands))(*operands),
            ctypes.byref(launch),
            begin,
            ctypes.c_uint32(len(self._registers.given)),
            (Region * len(regions))(*regions),
            ctypes.c_uint32(len(regions)),
            found,
            ctypes.byref(count),
            ctypes.c_uint64(limit),
        )
        findings = tuple(self._finding(one, places) for one in found[: count.value])
        if executed == 2**64 - 1:
            told = f"; {findings[0]}" if findings else ""
            raise EmulatorError(f"{self.kernel.name} ran past its end, or a warp past {limit} instructions{told}")
        return Ran(executed, findings)

    def _fill(self, given: Sequence[bytes]) -> None:
        """Put the arguments where the kernel finds them."""
        parameters = self.kernel.parameters
        if len(given) != len(parameters):
            raise EmulatorError(f"{self.kernel.name} has {len(parameters)} arguments, and {len(given)} are given")
        for one, value in zip(parameters, given, strict=True):
            if len(value) != one.size:
                raise EmulatorError(
                    f"{self.kernel.name}: the argument {one.name} has {one.size} bytes, not {len(value)}"
                )
            ctypes.memmove(ctypes.addressof(self._block) + self._offsets[one.name], value, one.size)

    def _assembled(self) -> tuple[bytes, list[int]]:
        """Return the bytes of the records, and their operands."""
        operands: list[int] = [0]
        code = []
        for record in [*self._records, Record("ret", flags=records.ENDS, turn=self._turns[-1])]:
            code.append(record.packed(_handler(record.handler) or 0, len(operands), _handler(record.half) or 0))
            operands += [*record.to, *record.sources, *record.half_operands]
        return b"".join(code), operands

    def _finding(self, one: Found, places: Sequence[Place]) -> Finding:
        instruction = self.kernel.instructions[min(one.record, len(self.kernel.instructions) - 1)]
        kind, describe = described(self._registers.name)[one.kind]
        what = describe(one.first, one.second, places)
        opcode, line = instruction.opcode, instruction.line
        return Finding(kind, self.kernel.name, opcode, instruction.number, what, one.wave, one.count, line, "warp")


def _chosen(kernels: Mapping[str, Kernel], name: str | None) -> Kernel:
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name is None or name not in kernels:
        asked = "a name is needed" if name is None else f"there is no kernel {name!r}"
        raise EmulatorError(f"{asked}; the PTX has {', '.join(kernels) or 'none'}")
    return kernels[name]


def _parameters(kernel: Kernel) -> tuple[dict[str, int], int]:
    """Return the offset of each parameter, and the bytes of all."""
    offsets, size = {}, 0
    for one in kernel.parameters:
        size = -(-size // one.align) * one.align
        offsets[one.name] = size
        size += one.size
    return offsets, size


def _laid_out(variables: Sequence[Variable], space: str) -> tuple[dict[str, int], int]:
    """Return the address of each variable of a space, and the bytes of all; one without an end stands behind them."""
    addresses, size = {}, 0
    for one in sorted((one for one in variables if one.space == space), key=lambda one: one.size == 0):
        align = max(one.align, 16) if one.size == 0 else one.align
        size = -(-size // align) * align
        addresses[one.name] = size
        size += one.size
    return addresses, size


def _image(one: Variable) -> Any:
    """Return the memory of a global variable, with the numbers that it begins with."""
    values = b"".join((value & (1 << 8 * one.width) - 1).to_bytes(one.width, "little") for value in one.values)
    return ctypes.create_string_buffer(values.ljust(one.size, b"\0"), max(one.size, 1))


def _writable(one: Variable, image: Any) -> Region:
    region = identical(image)
    region.writable = int(one.space == "global")
    return region
