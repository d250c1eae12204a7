"""The model of matrix.yaml's section ``fuzz``: how far the search goes. Everything in it has a default."""

from __future__ import annotations

from pydantic import Field

from kernel_matrix.config.model.fields import Name, Section


class Bounds(Section):
    """The sizes that an axis may have."""

    least: int = Field(default=1, ge=0)
    most: int = Field(ge=1)


class Fuzz(Section):
    """The bounds of the search, the tiles of the kernels, and the cases that each run tries first."""

    sizes: dict[Name, Bounds] = Field(
        default_factory=dict,
        description="Bounds of the axes that are sizes; by default from 1 to the largest value of a quick case.",
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
