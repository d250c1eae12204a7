"""Slots: the entries of small square matrices, shared out over the threads of a block on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Block:
    """Share out matrices of ``streams`` rows over ``threads`` threads: entry ``part`` of a thread is a slot.

    A block has as many whole matrices as it has slots for. The slots beyond the last matrix repeat that matrix's last
    entry, and store nothing. ``minimum`` belongs to the language in which the kernel is written; a thread, a block and
    a part may be expressions of it.
    """

    streams: int
    threads: int
    minimum: Callable[[Any, Any], Any]

    @property
    def size(self) -> int:
        """Return the entries of a matrix."""
        return self.streams * self.streams

    @property
    def parts(self) -> int:
        """Return the entries of a thread."""
        return -(-self.size // self.threads)

    @property
    def slots(self) -> int:
        """Return the entries of a block, repeated ones too."""
        return self.parts * self.threads

    @property
    def height(self) -> int:
        """Return the matrices of a block."""
        return self.slots // self.size

    def blocks(self, tokens: int) -> tuple[int, int]:
        """Return the grid for a number of tokens."""
        return -(-tokens // self.height), 1

    def place(self, thread: Any, part: Any) -> Any:
        """Return the entry of the block that a slot has."""
        return self.minimum(part * self.threads + thread, self.height * self.size - 1)

    def token(self, block: Any, thread: Any, part: Any) -> Any:
        """Return the token whose matrix a slot has a part of; it may be beyond the last one."""
        return block * self.height + self.place(thread, part) // self.size

    def entry(self, thread: Any, part: Any) -> Any:
        """Return which entry of its matrix a slot has."""
        return self.place(thread, part) % self.size

    def row(self, thread: Any, part: Any) -> Any:
        """Return the row of a slot's entry in its matrix."""
        return self.place(thread, part) % self.size // self.streams

    def column(self, thread: Any, part: Any) -> Any:
        """Return the column of a slot's entry in its matrix."""
        return self.place(thread, part) % self.streams

    def in_row(self, thread: Any, part: Any, k: Any) -> Any:
        """Return the slot of entry ``k`` of a slot's row."""
        return self.place(thread, part) // self.streams * self.streams + k

    def in_column(self, thread: Any, part: Any, k: Any) -> Any:
        """Return the slot of entry ``k`` of a slot's column."""
        return self.place(thread, part) // self.size * self.size + k * self.streams + self.column(thread, part)

    def is_inside(self, thread: Any, part: Any) -> Any:
        """Return whether a slot repeats no other one."""
        return part * self.threads + thread < self.height * self.size
