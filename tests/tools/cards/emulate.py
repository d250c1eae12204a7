"""Run a kernel for the double of a driver: on the file that is its memory, by the emulator of PTX."""

import mmap
import os
import sys
from pathlib import Path

import numpy as np

from gpu_emulators.common.memory import Memory
from gpu_emulators.nvidia import Program


def ptx_of(image, name, cache):
    """Return the PTX of an image: itself, or what stands beside the same machine code in Triton's cache."""
    content = Path(image).read_bytes()
    if content[:4] != b"\x7fELF":
        return content.rstrip(b"\0").decode()
    for path in Path(cache).rglob(f"{name}.cubin"):
        if path.read_bytes()[: len(content)] == content:
            return path.with_suffix(".ptx").read_text()
    sys.exit(f"no PTX of {name} is in {cache}")


def main(cache, folder, process, heap, arguments, image, name, *sizes):
    x, y, z, threads, shared = map(int, sizes)
    process, heap, arguments = int(process), int(heap), int(arguments)
    program = Program(ptx_of(image, name, cache), name)
    with Path(f"{folder}/heap.{process}").open("r+b") as file:
        memory = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    places = [
        tuple(map(int, line.split())) for line in Path(f"{folder}/heap.{process}.places").read_text().splitlines()
    ]
    mem = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    given = []
    for number, size in enumerate(parameter.size for parameter in program.kernel.parameters):
        value = os.pread(mem, size, int.from_bytes(os.pread(mem, 8, arguments + 8 * number), "little"))
        at = int.from_bytes(value, "little") - heap
        place = next((one for one in places if size == 8 and one[0] <= at < sum(one)), None)
        if place is None:
            given.append(value)
        else:
            given.append(Memory(f"argument {number}", memory.ctypes.data + at, sum(place) - at))
    ran = program.launch((x, y, z), threads, given, shared=shared)
    if faults := [str(one) for one in ran.findings if "race" not in one.kind]:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main(*sys.argv[1:])
