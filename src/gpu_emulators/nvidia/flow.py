"""The order in which lanes that have parted go on: those in front of a place where ways meet come first."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpu_emulators.nvidia.parse import Instruction

_LEAVES = ("ret", "exit", "trap")
_Ways = Mapping[int, Sequence[int]]
_Back = dict[tuple[int, int], int]  # by the instruction and the one that comes then


def turns(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> tuple[list[int], _Back]:
    """Return the turn of each instruction and of the end, and that of each way back; the lanes with the least go on.

    Lanes that go back wait for all others inside the loop, and those behind the loop wait for them.
    """
    size = len(instructions)
    starts = sorted({0, *labels.values(), *(one.number + 1 for one in instructions if _parts(one))} & {*range(size)})
    ends = dict(zip(starts, [*starts[1:], size], strict=True))
    ways = {start: _behind(instructions[end - 1], end, labels, size) for start, end in ends.items()}
    last: dict[int, int] = {}  # the last block of each loop, by its first
    blocks = list(_arranged(starts, ways, last))
    first: dict[int, int] = {}
    for number in (number for block in blocks for number in range(block, ends[block])):
        first[number] = 2 * len(first) + 2
    back: _Back = {}
    for block in blocks:
        for to in ways[block]:
            if first[to] <= first[block]:
                back[ends[block] - 1, to] = first[ends[last[to]] - 1] + 1
    return [*(first[number] for number in range(size)), 2 * size + 2], back


def _parts(one: Instruction) -> bool:
    return one.parts[0] == "bra" or one.parts[0] in _LEAVES


def _behind(one: Instruction, end: int, labels: Mapping[str, int], size: int) -> list[int]:
    """Return the blocks that may follow the one whose last instruction this is."""
    goes_on = end < size and (one.guard or not _parts(one))
    to = labels.get(one.operands[0], size) if one.parts[0] == "bra" else size
    return [block for block in (to, end if goes_on else size) if block < size]


def _arranged(blocks: Collection[int], ways: _Ways, last: dict[int, int]) -> Iterator[int]:
    """Yield blocks so that each comes behind all that lead to it, but for jumps back; those of a loop are together."""
    for loop in _in_turn(_loops(blocks, ways), ways):
        head, *rest = loop
        members = [head, *_arranged(rest, ways, last)] if rest else loop
        if rest or head in ways[head]:
            last[head] = members[-1]
        yield from members


def _in_turn(loops: Sequence[Sequence[int]], ways: _Ways) -> Iterator[Sequence[int]]:
    """Yield loops so that each comes behind all that lead to it, and what soon ends before what goes on."""
    number = {block: place for place, loop in enumerate(loops) for block in loop}
    following = [{number[to] for block in loop for to in ways[block] if to in number} for loop in loops]
    length, leading = [0] * len(loops), [0] * len(loops)
    for place in reversed(range(len(loops))):
        following[place].discard(place)
        length[place] = 1 + max((length[to] for to in following[place]), default=0)
        for to in following[place]:
            leading[to] += 1
    ready = [(length[place], place) for place, count in enumerate(leading) if not count]
    while ready:
        _, place = heapq.heappop(ready)
        yield loops[place]
        for to in following[place]:
            leading[to] -= 1
            if not leading[to]:
                heapq.heappush(ready, (length[to], to))


def _loops(blocks: Collection[int], ways: _Ways) -> list[list[int]]:
    """Return the blocks that lead to each other, each such set with the block that was come to first (Tarjan)."""
    inside, found = set(blocks), []
    place: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    for root in blocks:
        work = [(root, iter(ways[root]))] if root not in place else []
        while work:
            block, rest = work[-1]
            if block not in place:
                place[block] = low[block] = len(place)
                stack.append(block)
            following = next((to for to in rest if to in inside), None)
            if following is not None:
                if following not in place:
                    work.append((following, iter(ways[following])))
                elif following in stack:
                    low[block] = min(low[block], place[following])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[block])
            if low[block] == place[block]:
                at = stack.index(block)
                found.append(stack[at:])
                del stack[at:]
    return found[::-1]  # each comes behind all that lead to it
