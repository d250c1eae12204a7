"""Load a kernel and launch it: arguments and memory in, findings out."""

from __future__ import annotations

import copy
import ctypes
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gpu_emulators.amd import records
from gpu_emulators.amd.code_object import Argument, CodeObject, Kernel, read
from gpu_emulators.amd.decoding import GFX1250, PRELOADED_ENTRY, family_of, whole
from gpu_emulators.amd.findings import ASKS_HOST, FIRST_OF_HOST, HOST, KINDS, PAGE_OF_HOST, QUEUE, number_of, too_soon
from gpu_emulators.amd.hazards import Hazard, hazards
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.library import Launch, handler, library
from gpu_emulators.amd.lines import Lines
from gpu_emulators.amd.translate import translate
from gpu_emulators.common.errors import EmulatorError, UnknownInstructionError
from gpu_emulators.common.findings import Finding, Place
from gpu_emulators.common.library import Found, Region
from gpu_emulators.common.memory import LIMIT, MOST_FINDINGS, SPOILED, Memory, Ran, identical, in_windows, place_of

_FAMILIES = ("cdna", "rdna3", "rdna4")
_REGISTERS, _REGISTERS_OF_GFX1250 = {"cdna": 512, "rdna3": 256, "rdna4": 256}, 1024
_KEPT = 0xC0  # of the float mode: subnormal numbers of fp16 and fp64 are kept
# Of KERNEL_CODE_PROPERTIES: the private buffer, the pointers to the packet, the queue and the arguments, the number of
# the dispatch, where private memory is for flat accesses (which need no such number here); waves of 32; a stack whose
# size is not known ahead.
_BUFFER, _PACKET, _QUEUE, _ARGUMENTS, _NUMBER, _FLAT_PRIVATE = 1, 2, 4, 8, 16, 32
_SMALL_WAVE, _DYNAMIC_STACK = 1 << 10, 1 << 11
_KNOWN_PROPERTIES = _BUFFER | _PACKET | _QUEUE | _ARGUMENTS | _NUMBER | _FLAT_PRIVATE | _SMALL_WAVE | _DYNAMIC_STACK
_STACK = 16 << 10  # bytes of a lane where no compiler says how deep functions call each other
_IDS_IN_REGISTERS = ("gfx906", "gfx908", "gfx1030")  # one for each direction
_NOWHERE = 0xFFFFFFFF
_STORE_STATES = {
    **dict.fromkeys(("gfx906", "gfx908", "gfx90a"), 1),
    "gfx942": 2,
    "gfx950": 2,
}  # before the data of a store of 12 bytes and more may be written


class Program:
    """One kernel of a code object, ready to run on this CPU."""

    def __init__(self, data: bytes | CodeObject, target: str, name: str | None = None) -> None:
        """Load the kernel of that name, or the only one, of a code object or of its bytes.

        Raises:
            EmulatorError: there is no such kernel, or it asks for something that the emulator does not have.
            UnknownInstructionError: it has an instruction that the emulator does not know.
        """
        code = read(data) if isinstance(data, bytes) else data
        self.kernel = _chosen(code, name)
        self.target = target
        self._family = family_of(target)
        _refuse(self.kernel)
        instructions, starts = whole(code, self.kernel, target)
        self._translation = translate(instructions, target, starts)
        self._code = b"".join(record.packed(self._handler(record)) for record in [*self._translation.records, _END])
        self._image = code.loaded
        self._variables = [_part(self._image, *place) for place in code.variables]
        self._places = self._places_of_code()
        self._lines = Lines(code.sections)

    def launch(
        self,
        grid: Sequence[int],
        threads: int | Sequence[int],
        arguments: Sequence[Memory | bytes],
        *,
        shared: int = 0,
        limit: int = LIMIT,
    ) -> Ran:
        """Run the kernel over a grid of workgroups, and return what was found.

        ``threads`` are those of a workgroup, in all or in each direction.
        ``arguments`` are those that the kernel's source has, in their order: memory, or the bytes of a value.
        ``shared`` are the bytes of LDS that only the launch asks for.

        Raises:
            EmulatorError: the arguments do not fit the kernel, or the limit of instructions is met.
            UnknownInstructionError: the kernel asks the host, such as by printf.
        """
        size = [*grid, 1, 1][:3]
        group = [*([threads] if isinstance(threads, int) else threads), 1, 1][:3]
        regions, places, given = in_windows(arguments)
        block = (ctypes.c_char * (_length(self.kernel) + 64)).from_buffer(
            bytearray(_argument_block(self.kernel, given, size, group, shared)).ljust(_length(self.kernel) + 64, b"\0")
        )
        packet = _packet(self.kernel, size, group, self.kernel.lds + shared, ctypes.addressof(block))
        regions += [identical(block), identical(packet), *self._variables, identical(self._image)]
        places += [place_of("the arguments", block), place_of("the packet of the launch", packet)]
        places.append(place_of("the code", self._image))
        launch, words = self._described(size, group, self.kernel.lds + shared, block)
        launch.packet = ctypes.addressof(packet) if self.kernel.properties & _PACKET else 0
        found, count = (Found * MOST_FINDINGS)(), ctypes.c_uint32(MOST_FINDINGS)
        executed = library().run(
            self._code,
            ctypes.c_uint32(len(self._code) // records.SIZE),
            ctypes.byref(launch),
            (Region * len(regions))(*regions),
            ctypes.c_uint32(len(regions)),
            (ctypes.c_uint32 * max(1, len(words)))(*words),
            found,
            ctypes.byref(count),
            ctypes.c_uint64(limit),
        )
        findings = (*self.hazards, *(self._finding(one, places) for one in found[: count.value]))
        if asks := [one for one in findings if one.kind == KINDS[ASKS_HOST][0]]:
            raise UnknownInstructionError(f"{self.target}: {asks[0]}")
        if executed == 2**64 - 1:
            told = f"; {findings[0]}" if findings else ""
            raise EmulatorError(f"{self.kernel.name} ran past its end, or a workgroup past {limit} instructions{told}")
        return Ran(executed, findings)

    def without(self, address: int) -> Program:
        """Return the program with the instruction at an address left out: a mutant, for the test of a test."""
        number = self._translation.record_at(address)
        mutant = copy.copy(self)
        vars(mutant).pop("hazards", None)
        nothing = records.Record("s_nop", immediate=-1)  # not even a wait state
        of_mutant = [*self._translation.records[:number], nothing, *self._translation.records[number + 1 :]]
        mutant._translation = replace(self._translation, records=of_mutant)
        place = number * records.SIZE
        mutant._code = self._code[:place] + nothing.packed(self._handler(nothing)) + self._code[place + records.SIZE :]
        return mutant

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions of the kernel, in the order of their addresses."""
        return list(self._translation.instructions.values())

    @cached_property
    def hazards(self) -> tuple[Finding, ...]:
        """Findings in the code itself: wait states that are missing. Each launch reports them too."""
        listed = self._translation.instructions
        found = hazards(listed, self._translation.records, self.target)
        return tuple(self._hazard(one, listed[one.first], listed[one.second]) for one in found)

    def _hazard(self, one: Hazard, first: Instruction, second: Instruction) -> Finding:
        register = number_of(3, one.register, self._family)
        what = too_soon(register, one.between, one.needed, one.unit, f"{first.name} at {first.address:#x}")
        line = self._lines.at(self.kernel.address + second.address)
        return Finding("hazard", self.kernel.name, second.name, second.address, what, 0, 1, line, unit="")

    def _handler(self, record: records.Record) -> int:
        address = handler(record.handler)
        if address is None:
            raise UnknownInstructionError(f"{self.target}: {self.kernel.name} has {record.handler}")
        return address

    def _places_of_code(self) -> Any:
        """Return the number of the record at each word of the code object, for jumps to addresses."""
        places = (ctypes.c_uint32 * (len(self._image) // 4))(*[_NOWHERE] * (len(self._image) // 4))
        for number, one in self._translation.instructions.items():
            if one.address in self._translation.reached:
                places[(self.kernel.address + one.address) // 4] = number
        return places

    def _described(
        self, size: Sequence[int], group: Sequence[int], lds: int, block: Any
    ) -> tuple[Launch, tuple[int, ...]]:
        kernel, launch = self.kernel, Launch()
        preloaded, first = kernel.preload & 127, kernel.preload >> 7
        content = bytes(block)
        words = struct.unpack_from(f"<{preloaded}I", content, 4 * first) if preloaded else ()
        launch.grid[:] = size
        threads = math.prod(group)
        launch.threads, launch.waves, launch.lanes = threads, -(-threads // kernel.wave), kernel.wave
        launch.block_x, launch.block_y = group[:2]
        launch.family, launch.lds, launch.scratch = _FAMILIES.index(self._family), lds, kernel.scratch
        launch.scratch += _STACK if kernel.properties & _DYNAMIC_STACK else 0
        second = kernel.resources[1]
        launch.user_scalars, launch.group_ids = second >> 1 & 31, second >> 7 & 7
        launch.item_ids, launch.has_packed_ids = second >> 11 & 3, self.target not in _IDS_IN_REGISTERS
        properties = kernel.properties
        launch.has_scratch_buffer = properties & _BUFFER
        launch.argument_register = (
            4 * bool(properties & _BUFFER) + 2 * bool(properties & _PACKET) + 2 * bool(properties & _QUEUE)
        )
        launch.queue = _address_of_host(QUEUE) if properties & _QUEUE else 0
        launch.has_number = bool(properties & _NUMBER)
        launch.arguments, launch.preloaded = ctypes.addressof(block), preloaded
        launch.text = ctypes.addressof(self._image) + kernel.address
        launch.places, launch.before = ctypes.addressof(self._places), kernel.address // 4
        launch.words = len(self._places)
        launch.start = self._translation.record_at(PRELOADED_ENTRY) if preloaded else 0
        launch.spoiled, launch.mode = SPOILED, kernel.mode(self._family)
        launch.store_states = _STORE_STATES.get(self.target, 0)
        launch.registers = _REGISTERS_OF_GFX1250 if self.target in GFX1250 else _REGISTERS[self._family]
        return launch, words

    def _finding(self, one: Found, places: Sequence[Place]) -> Finding:
        instruction = self._translation.instructions.get(one.record)
        kind, describe = KINDS[one.kind]
        address = instruction.address if instruction else 0
        return Finding(
            kind,
            self.kernel.name,
            instruction.name if instruction else "a half of a pair",
            address,
            describe(number_of(one.kind, one.first, self._family), one.second, places),
            one.wave,
            one.count,
            self._lines.at(self.kernel.address + address),
        )


_END = records.Record("s_endpgm")


def _chosen(code: CodeObject, name: str | None) -> Kernel:
    if name is None and len(code.kernels) == 1:
        return next(iter(code.kernels.values()))
    if name is None or name not in code.kernels:
        asked = "a name is needed" if name is None else f"there is no kernel {name!r}"
        raise EmulatorError(f"{asked}; the code object has {', '.join(code.kernels) or 'none'}")
    return code.kernels[name]


def _refuse(kernel: Kernel) -> None:
    if kernel.float_mode & _KEPT != _KEPT:
        raise EmulatorError(f"{kernel.name} starts in the float mode {kernel.float_mode:#x}, which clears fp16 or fp64")
    if unknown := kernel.properties & ~_KNOWN_PROPERTIES:
        raise EmulatorError(f"{kernel.name} has the properties {unknown:#x}, which are not known")
    if kernel.preload and kernel.properties & (_FLAT_PRIVATE | _NUMBER):
        raise EmulatorError(f"{kernel.name} has arguments in registers behind others than the pointer to them")


def _part(memory: Any, start: int, size: int) -> Region:
    """Return a part of this process's memory, where a kernel finds it under the same address and may write."""
    address = ctypes.addressof(memory) + start
    return Region(address, size, address, 1)


def _length(kernel: Kernel) -> int:
    return max(kernel.argument_bytes, *(one.offset + one.size for one in kernel.arguments), 0)


def _argument_block(
    kernel: Kernel, given: Iterable[Any], grid: Sequence[int], group: Sequence[int], shared: int
) -> bytes:
    """Return the bytes of the kernel's arguments: those that are given, and the hidden ones of the compiler."""
    content = bytearray(_length(kernel))
    values = iter(given)
    for argument in kernel.arguments:
        value = _hidden(argument, grid, group, shared) if argument.is_hidden else next(values, None)
        named = argument.name or f"at {argument.offset}"
        if value is None:
            raise EmulatorError(f"{kernel.name} wants the argument {named}, which is not given")
        if len(value) != argument.size:
            raise EmulatorError(f"{kernel.name}: the argument {named} has {argument.size} bytes, not {len(value)}")
        content[argument.offset : argument.offset + argument.size] = value
    if next(values, None) is not None:
        raise EmulatorError(f"{kernel.name} is given more arguments than it has")
    return bytes(content)


def _packet(
    kernel: Kernel, grid: Sequence[int], group: Sequence[int], lds: int, arguments: int
) -> ctypes.Array[ctypes.c_char]:
    """Return the packet by which a queue starts a kernel, with the size of its grid in threads.

    Source: hsa_kernel_dispatch_packet_t of the HSA Runtime Programmer's Reference Manual.
    """
    threads = [blocks * of_block for blocks, of_block in zip(grid, group, strict=True)]
    dimensions = max([number for number, size in enumerate(threads, 1) if size > 1], default=1)
    packed = struct.pack("<2H3HH3I2I4Q", 2, dimensions, *group, 0, *threads, kernel.scratch, lds, 0, arguments, 0, 0)
    return (ctypes.c_char * len(packed)).from_buffer(bytearray(packed))


def _address_of_host(kind: str) -> int:
    """Return the address where what only a host can answer is asked for."""
    return FIRST_OF_HOST + PAGE_OF_HOST * list(HOST).index(kind)


def _hidden(argument: Argument, grid: Sequence[int], group: Sequence[int], shared: int) -> bytes:
    """Return an argument that the compiler adds; what a launch without a host queue lacks is zero."""
    if argument.kind in HOST:
        return _address_of_host(argument.kind).to_bytes(argument.size, "little")
    axis = "xyz".find(argument.kind[-1])
    kind = argument.kind.removeprefix("hidden_")
    known = {
        "block_count": grid[axis],
        "group_size": group[axis],
        "remainder": 0,
        "global_offset": 0,
        "dynamic_lds_size": shared,
        "grid_dims": max([number for number, size in enumerate(grid, 1) if size > 1], default=1),
    }
    stem = kind.rsplit("_", 1)[0] if axis >= 0 and kind not in known else kind
    return known.get(stem, 0).to_bytes(argument.size, "little")
