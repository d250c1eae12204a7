"""The sections of matrix.yaml that tools alone read: ``bench`` and ``fuzz``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from kernel_matrix.config.model.fields import Name, ScalarOrList, Section

_Axes = Mapping[Name, ScalarOrList]
Kind = Literal["cpu", "gpu"]


class BenchOp(Section):
    """An operator of the benchmark: its axes, where they differ from the shape's, and its directions."""

    axes: list[Name] | None = Field(
        default=None, description="What a case says. By default the axes of the operator of this name under 'ops'."
    )
    directions: list[Name] | None = Field(
        default=None, description="By default the directions of the operator of this name under 'ops'."
    )
    values: _Axes = Field(default_factory=dict, description="Values of axes that no shape changes.")


class RivalError(Section):
    """The largest error that a rival may have; the package's own kernels have the budget of their cases."""

    limit: float = Field(gt=0, description="Of the Frobenius norm of the error over the norm of the golden.")
    source: str = Field(min_length=20, description="Where the limit comes from.")


class Samples(Section):
    """The number of samples that each contender gets."""

    least: int = Field(default=20, ge=5, description="Samples that each contender gets however long they take.")
    most: int = Field(default=200, ge=5, description="Samples after which a contender has enough.")
    seconds: float = Field(default=0.4, gt=0, description="Seconds of samples after which a contender has enough.")


class Bench(Section):
    """The cases that ``kernel-matrix bench`` times."""

    adapter: str = Field(description="The folder with the package's 'adapter.py', and all that it imports.")
    shapes: dict[Kind, list[_Axes]] = Field(
        min_length=1, description="Groups of axes for each kind of device; a list makes the product."
    )
    quick: list[_Axes] = Field(min_length=1, description="The groups of the quick form: a check that all of it works.")
    more: dict[Name, list[_Axes]] = Field(
        default_factory=dict, description="Other groups, each list by the name that 'bench --shapes' takes."
    )
    ops: dict[Name, BenchOp] = Field(
        min_length=1, description="Operators of this file, and what else the package's adapter times."
    )
    rivals: list[Name] = Field(
        min_length=1, description="What every kernel is compared with, as the adapter names it; the baseline first."
    )
    only: dict[Name, _Axes] = Field(
        default_factory=dict, description="Rivals that are timed only in cases with these values of axes, or of 'op'."
    )
    rival_error: RivalError
    samples: Samples = Field(default_factory=Samples)
    limit: float = Field(
        default=1800, gt=0, description="Seconds that a process may take: one that takes longer hangs."
    )


class Bounds(Section):
    """The sizes that an axis may have."""

    least: int = Field(default=1, ge=0)
    most: int = Field(ge=1)
    step: int = Field(default=1, ge=1, description="What all sizes are multiples of.")


class Fuzz(Section):
    """The bounds of the search, the tiles of the kernels, and the cases that each run tries first."""

    sizes: dict[Name, Bounds] = Field(
        default_factory=dict,
        description="Bounds of the axes that are sizes, or of one operator's ('op.axis'); by default from 1 to the "
        "largest value of a quick case.",
    )
    elements: dict[Name, int] = Field(
        default_factory=dict, description="By toolchain: the largest product of all sizes of a case."
    )
    tiles: dict[Name, dict[Name, list[int]]] = Field(
        default_factory=dict,
        description="By backend and axis: the tiles of its kernels. Their edges are tried more often.",
    )
    free: list[Name] = Field(
        default_factory=list,
        description="Axes for whose values nothing is compiled anew, by default all: they change most often.",
    )
    not_finite: list[str] = Field(
        default_factory=list, description="The operators ('op' or 'op.direction') that take NaN and infinity."
    )
    known: list[str] = Field(default_factory=list, description="Names of cases that each run tries first.")
