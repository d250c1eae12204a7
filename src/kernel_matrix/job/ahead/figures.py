"""Figures of kernels in what compilers say: registers, spills, stack, shared memory.

``spills`` are the bytes of registers that a thread stores, for want of registers, whoever counts them: ptxas names the
bytes, AMD's compilers the vector registers, of four bytes each. What is loaded again is not counted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

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
_OF_CLANG = {
    "registers": r" VGPRs: (\d+)",
    "accumulation_registers": r" AGPRs: (\d+)",
    "scalar_registers": r" (?:Total)?SGPRs: (\d+)",
    "spills": r"VGPRs Spill: (\d+)",
    "scalar_spills": r"SGPRs Spill: (\d+)",
    "stack": r"ScratchSize \[bytes/lane\]: (\d+)",
    "shared": r"LDS Size \[bytes/block\]: (\d+)",
}


def figures_of_log(log: str) -> dict[str, float]:
    """Return the figures that ptxas has written."""
    return _figures(_OF_PTXAS, log)


def figures_of_amd(metadata: str) -> dict[str, float]:
    """Return the figures in the metadata of a code object, as assembly has it."""
    return _in_bytes(_figures(_OF_AMD, metadata))


def figures_of_clang(log: str) -> dict[str, float]:
    """Return the figures that clang has written for AMD with ``-Rpass-analysis=kernel-resource-usage``."""
    return _in_bytes(_figures(_OF_CLANG, log))


def _in_bytes(figures: dict[str, float]) -> dict[str, float]:
    """Return figures of AMD's compilers with the bytes of the spilled vector registers."""
    return {name: 4 * value if name == "spills" else value for name, value in figures.items()}


def _figures(patterns: Mapping[str, str], text: str) -> dict[str, float]:
    """Return the largest number that each pattern finds: a module may have more functions than its kernel."""
    numbers = {name: [int(number) for number in re.findall(pattern, text)] for name, pattern in patterns.items()}
    return {name: max(values) for name, values in numbers.items() if values}


def code_bytes(data: bytes, function: str = "") -> int:
    """Return the bytes in the sections that hold instructions, of one function or of all; 0 if this is no such file."""
    if data[:5] != b"\x7fELF\x02":
        return 0
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + number * entry) for number in range(count)]
    start = sections[names][4]
    wanted = f".text.{function}\0".encode() if function else b".text"
    return sum(size for name, _, _, _, _, size in sections if data.startswith(wanted, start + name))
