"""The model of matrix.yaml. It validates the file, and the JSON Schema for editors is made from it.

Each module of this folder describes some sections of the file. Others import all of them from here.
"""

from __future__ import annotations

from pydantic import Field

from kernel_matrix.config.model.accuracy import Accuracy, default_cap
from kernel_matrix.config.model.ci import Ask, Ci, Event, Kubernetes, Pod, Slurm
from kernel_matrix.config.model.fields import (
    ASSERTED,
    Direction,
    Name,
    Scalar,
    ScalarOrList,
    Section,
    Tier,
    as_list,
    has_values,
)
from kernel_matrix.config.model.limits import Container, Limits, Resource
from kernel_matrix.config.model.operators import Op, Output
from kernel_matrix.config.model.package import Package
from kernel_matrix.config.model.platforms import Installer, Platform, PlatformToolchain, Toolchain
from kernel_matrix.config.model.rules import Exclusion, Expectation, Rule
from kernel_matrix.config.model.tools import Bench, BenchOp, Bounds, Fuzz

__all__ = [
    "ASSERTED",
    "Accuracy",
    "Ask",
    "Bench",
    "BenchOp",
    "Bounds",
    "Direction",
    "Event",
    "Exclusion",
    "Expectation",
    "Fuzz",
    "Installer",
    "Kubernetes",
    "Matrix",
    "Op",
    "Output",
    "Package",
    "Platform",
    "PlatformToolchain",
    "Pod",
    "Resource",
    "Rule",
    "Scalar",
    "ScalarOrList",
    "Slurm",
    "Tier",
    "Toolchain",
    "as_list",
    "default_cap",
    "has_values",
]


class Matrix(Section):
    """The whole of matrix.yaml."""

    package: Package
    limits: Limits = Field(default_factory=lambda: Limits(case=300, job=3600))
    container: Container = Field(default_factory=Container)
    installer: Installer = Field(default_factory=Installer)
    accuracy: Accuracy = Field(default_factory=Accuracy.default)
    toolchains: dict[Name, Toolchain]
    platforms: dict[Name, Platform]
    ops: dict[Name, Op] = Field(
        default_factory=dict,
        description="The operators. Without any, each test of the package's suite is a case.",
    )
    bench: Bench | None = Field(default=None, description="The benchmark; without it there is none.")
    fuzz: Fuzz = Field(default_factory=Fuzz, description="The bounds of `kernel-matrix fuzz` (docs/fuzzing.md).")
    ci: Ci = Field(default_factory=Ci)
    resources: list[Resource] = Field(default_factory=list, description="Limits of what code needs (docs/limits.md).")
    expectations: list[Expectation] = Field(default_factory=list)
    exclusions: list[Exclusion] = Field(default_factory=list)

    def lock_of(self, platform: str, toolchain: str) -> str:
        """Return the lock of a toolchain on a platform: the lock that its entry names, else the toolchain's own.

        A job of no platform has the toolchain's own.
        """
        entry = self.platforms[platform].by_toolchain.get(toolchain) if platform in self.platforms else None
        return (entry.lock if entry else None) or self.toolchains[toolchain].lock

    @property
    def rules(self) -> tuple[tuple[str, int, Rule], ...]:
        """All expectations and exclusions, each with its section and its place in it."""
        expectations = (("expectations", index, rule) for index, rule in enumerate(self.expectations))
        return *expectations, *(("exclusions", index, rule) for index, rule in enumerate(self.exclusions))

    @property
    def own_locks(self) -> dict[tuple[str, str], str]:
        """The locks that entries of platforms have of their own, by platform and toolchain."""
        return {
            (name, entry.toolchain): entry.lock
            for name, platform in self.platforms.items()
            for entry in platform.entries
            if entry.lock
        }

    @property
    def locks(self) -> tuple[str, ...]:
        """All locks, in order of their names."""
        return tuple(sorted({*(toolchain.lock for toolchain in self.toolchains.values()), *self.own_locks.values()}))
