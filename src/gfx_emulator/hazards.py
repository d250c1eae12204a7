"""Hazards of CDNA that a compiler must avoid by wait states: what the hardware does not wait for by itself.

A search over the control flow of a kernel. The wait states come from AMD's ISA documents, "Manually Inserted Wait
States", and of LLVM's hazard recognizer. The kernel need not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gfx_emulator.accesses import EXEC, LDS, MFMA, SCALARS, VALU, VCC, VMEM, Access, access
from gfx_emulator.decoding import Instruction, family_of
from gfx_emulator.records import Record

_WITH_PRODUCTS = ("gfx90a", "gfx942", "gfx950")  # products of gfx908 have other rules
_NEWEST = ("gfx942", "gfx950")
_FARTHEST, _FARTHEST_OF_PRODUCT = 5, 19
_LANE = re.compile(r"v_(read|readfirst|write)lane_b32")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_(legacy_)?f(16|32|64)")
_PRODUCT = re.compile(r"v_mfma_\w32_(\d+)x\d+x(\d+)_(?:\d+b_)?(\w+)")
_NO_EXEC = frozenset((EXEC, EXEC + 1))
_MASK = frozenset((VCC, VCC + 1))

Need = tuple[frozenset[int], int]  # registers that are touched too early, and the wait states that they need


@dataclass(frozen=True)
class Hazard:
    """A second instruction that touches a register too soon after the first one; by their places in the kernel."""

    first: int
    second: int
    register: int
    states: int
    needed: int


def hazards(instructions: Sequence[Instruction], records: Sequence[Record], target: str) -> list[Hazard]:
    """Return the hazards of a kernel, in the order of their second instructions; none of a target that is not CDNA."""
    if family_of(target) != "cdna":
        return []
    accesses = [access(one, record, n) for n, (one, record) in enumerate(zip(instructions, records, strict=True))]
    found: dict[tuple[int, int], Hazard] = {}
    for number, first in enumerate(accesses):
        if first.kind == VALU:
            needs: Callable[..., Iterator[Need]] = _after_vector
        elif first.kind == MFMA and target in _WITH_PRODUCTS:
            needs = _after_product
        else:
            continue
        for hazard in _search(accesses, number, needs, target):
            found.setdefault((hazard.first, hazard.second), hazard)
    return sorted(found.values(), key=lambda one: (one.second, one.first))


def _search(
    accesses: Sequence[Access], number: int, needs: Callable[..., Iterator[Need]], target: str
) -> Iterator[Hazard]:
    """Walk all ways from an instruction on, as far as its longest wait, and yield what comes too soon."""
    first = accesses[number]
    farthest = _FARTHEST_OF_PRODUCT if first.kind == MFMA else _FARTHEST
    ways = [(number + away, 0, first.writes) for away in first.flows]
    seen: dict[int, int] = {}
    while ways:
        place, states, live = ways.pop()
        if states > farthest or place >= len(accesses) or seen.get(place, farthest + 1) <= states:
            continue
        seen[place] = states
        second = accesses[place]
        for registers, needed in needs(first, second, live, target):
            if registers and states < needed:
                yield Hazard(number, place, min(registers), states, needed)
        left = live - second.writes if second.writes else live
        ways += [(place + away, states + second.states, left) for away in second.flows]


def _after_vector(first: Access, second: Access, live: frozenset[int], target: str) -> Iterator[Need]:
    """Yield what must wait for what a vector instruction wrote."""
    read = second.reads & live
    if second.kind == VMEM:
        yield _scalars(read), 5
    elif second.kind == VALU:
        yield second.selector & live & _scalars(live), 4
        if second.name.startswith("v_div_fmas"):
            yield read & _MASK, 4
        if second.is_dpp:
            yield second.crossed & live, 2
            yield _NO_EXEC & live, 5
        if target in _NEWEST:
            yield from _on_newest(first, second, live)
    elif second.kind == MFMA and target in _WITH_PRODUCTS:
        yield _NO_EXEC & live, 4
        if not first.name.startswith("v_dot"):
            yield (second.reads | second.summand) & live, 2


def _on_newest(first: Access, second: Access, live: frozenset[int]) -> Iterator[Need]:
    """Yield what must wait on gfx942 and gfx950 alone."""
    read = second.reads & live
    yield _scalars(read) - _NO_EXEC, 2
    if _LANE.fullmatch(second.name):
        yield _NO_EXEC & live, 4
        yield second.crossed & live, 1
    if first.is_partial or (_TRANSCENDENTAL.match(first.name) and not _TRANSCENDENTAL.match(second.name)):
        yield read - _scalars(read), 1


def _after_product(first: Access, second: Access, live: frozenset[int], target: str) -> Iterator[Need]:
    """Yield what must wait for a product of matrices: its result, and the sum that it takes."""
    passes, is_fast = _passes(first.name, target)
    rest = passes + (3 if is_fast else 2)
    if second.kind == MFMA:
        yield second.reads & live, rest
        if second.summand != first.writes:
            is_ahead = target in _NEWEST and _passes(second.name, target)[1] and not is_fast
            yield second.summand & live, 0 if is_ahead else rest - 2 if target in _NEWEST else passes
        elif target in _NEWEST and passes == 2:
            yield second.summand & live, 2
    elif second.kind in (VALU, VMEM, LDS):
        yield (second.reads | second.writes) & live, rest
        if second.kind == VALU and is_fast:
            yield second.writes & first.summand - first.writes, passes - 1


def _passes(name: str, target: str) -> tuple[int, bool]:
    """Return how many passes a product takes, and whether it is of the faster ones, whose result comes a step later.

    On gfx950 some results come one step later than this.
    """
    match = _PRODUCT.fullmatch(name)
    if match is None:
        return 0, False
    rows, depth, kind = int(match[1]), int(match[2]), match[3]
    if target not in _NEWEST:
        return {4: 2, 16: 8, 32: 16}[rows], True
    is_long = depth in {4: (), 16: (1, 4), 32: (1, 2, 4)}[rows] and kind != "xf32"
    return {4: 2, 16: 4, 32: 8}[rows] * (2 if is_long else 1), kind != "f32"


def _scalars(registers: frozenset[int]) -> frozenset[int]:
    return frozenset(number for number in registers if number >= SCALARS)
