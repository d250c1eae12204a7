"""Hazards that a compiler must avoid: what the hardware does not wait for by itself.

A search over the control flow of a kernel: on CDNA by wait states, on RDNA by vector instructions. The numbers come
from AMD's ISA documents, "Manually Inserted Wait States", and from LLVM's hazard recognizer. The kernel need not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_emulators.amd.accesses import EXEC, LDS, MFMA, MODE, SCALARS, VALU, VCC, VMEM, WAIT, Access, accesses
from gpu_emulators.amd.decoding import GFX1250, family_of
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.records import Record

_WITH_PRODUCTS = ("gfx90a", "gfx942", "gfx950")  # products of gfx908 have other rules
_NEWEST = ("gfx942", "gfx950")
_FARTHEST, _FARTHEST_OF_PRODUCT = 5, 19
_LANE = re.compile(r"v_(read|readfirst|write)lane_b32")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_(legacy_)?f(16|32|64)")
_PRODUCT = re.compile(r"v_mfma_\w32_(\d+)x\d+x(\d+)_(?:\d+b_)?(\w+)")
_PERMLANE = re.compile(r"v_permlane(x?16|64)_(var_)?b32")
_WITH_LATE_RESULTS = ("gfx1100",)  # of v_exp and its like; RDNA 3.5 and 4 have them in time
_BETWEEN, _TRANSCENDENTAL_BETWEEN = 5, 1  # so many vector instructions do not replace that wait
_NO_EXEC = frozenset((EXEC, EXEC + 1))
_MASK = frozenset((VCC, VCC + 1))

Need = tuple[frozenset[int], int]  # registers that are touched too early, and the wait states that they need


@dataclass(frozen=True)
class Hazard:
    """A second instruction that touches a register too soon after the first one; by the numbers of their records."""

    first: int
    second: int
    register: int
    between: int
    needed: int
    unit: str = "wait states"


def hazards(instructions: Mapping[int, Instruction], records: Sequence[Record], target: str) -> list[Hazard]:
    """Return the hazards of a kernel, in the order of their second instructions."""
    if target in GFX1250:  # whose rules are not here
        return []
    found: dict[tuple[int, int], Hazard] = {}
    places = accesses(instructions, records)
    for number, first in places.items():
        if family_of(target) != "cdna":
            several = _search_on_rdna(places, number, target)
        elif needs := _needs_after(first, target):
            several = _search(places, number, needs, target)
        else:
            continue
        for hazard in several:
            found.setdefault((hazard.first, hazard.second), hazard)
    return sorted(found.values(), key=lambda one: (one.second, one.first))


def _needs_after(first: Access, target: str) -> Callable[..., Iterator[Need]] | None:
    """Return what an instruction of CDNA makes others wait for."""
    if first.kind == VALU:
        return _after_vector
    if first.kind == MFMA and target in _WITH_PRODUCTS:
        return _after_product
    return _after_mode if MODE in first.writes else None


def _search_on_rdna(places: Mapping[int, Access], number: int, target: str) -> Iterator[Hazard]:
    """Walk all ways from an instruction on, as long as too few vector instructions are between."""
    first = places[number]
    is_late = target in _WITH_LATE_RESULTS and bool(_TRANSCENDENTAL.match(first.name))
    if not (is_late or first.kind == MFMA or first.name.startswith("v_cmpx")):
        return
    ways = [(number + away, 0, 0, first.writes) for away in first.flows]
    seen = set()
    while ways:
        state = place, vectors, slow, live = ways.pop()
        if place not in places or state in seen:
            continue
        seen.add(state)
        second = places[place]
        if is_late and second.kind in (VMEM, LDS, WAIT):
            continue
        if touched := _too_early(first, second, live):
            needed = _BETWEEN + 1 if is_late else 1
            yield Hazard(number, place, min(touched), vectors, needed, "vector instructions")
        if second.kind in (VALU, MFMA) and (is_late or first.kind == MFMA or second.name != "v_nop"):
            vectors, slow = vectors + 1, slow + bool(_TRANSCENDENTAL.match(second.name))
        if vectors <= (_BETWEEN if is_late else 0) and slow <= _TRANSCENDENTAL_BETWEEN:
            ways += [(place + away, vectors, slow, live - second.writes) for away in second.flows]


def _too_early(first: Access, second: Access, live: frozenset[int]) -> frozenset[int]:
    """Return the registers of the first instruction that the second one of RDNA touches, if it may be too early."""
    if first.kind == MFMA:
        return second.reads & live if second.kind == MFMA else frozenset()
    if first.name.startswith("v_cmpx"):
        return _NO_EXEC & live if _PERMLANE.fullmatch(second.name) else frozenset()
    return (second.reads | second.summand) & live if second.kind in (VALU, MFMA) else frozenset()


def _search(
    places: Mapping[int, Access], number: int, needs: Callable[..., Iterator[Need]], target: str
) -> Iterator[Hazard]:
    """Walk all ways from an instruction on, as far as its longest wait, and yield what comes too soon."""
    first = places[number]
    farthest = _FARTHEST_OF_PRODUCT if first.kind == MFMA else _FARTHEST
    ways = [(number + away, 0, first.writes) for away in first.flows]
    seen: dict[int, int] = {}
    while ways:
        place, states, live = ways.pop()
        if states > farthest or place not in places or seen.get(place, farthest + 1) <= states:
            continue
        seen[place] = states
        second = places[place]
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


def _after_mode(_first: Access, second: Access, live: frozenset[int], _target: str) -> Iterator[Need]:
    """Yield what must wait for a new MODE: reading it, and setting it again."""
    yield second.reads & live, 2


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
