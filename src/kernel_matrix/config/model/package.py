"""The package under test."""

from __future__ import annotations

from pathlib import PurePosixPath

from pydantic import Field

from kernel_matrix.config.model.fields import Direction, Name, Section


class Package(Section):
    """The kernel package under test."""

    name: Name = Field(description="The name that is imported and shown.")
    source: str = Field(
        default=".", description="The folder that goes onto the import path, from the repository's root."
    )
    suite: str = Field(
        description="The folder of the suite that every job runs: of a conformance suite for the operators of 'ops', "
        "or, where there is no 'ops', of any tests that pytest runs. Each of these is a case then."
    )
    sample: int | None = Field(
        default=None,
        ge=1,
        description="Where there is no 'ops': how many tests the quick tier has, spread over files and parameters. The "
        "full tier has all.",
    )
    build: str | list[str] | None = Field(
        default=None,
        description="The command that builds the package, or several. A shell runs them before the suite, in a copy of "
        "the repository, for each toolchain of each platform, with the environment's programs first on PATH.",
    )
    directions: list[Direction] = Field(
        default_factory=list,
        description="The directions that an operator may have, such as forward and backward. 'tests' is the direction "
        "of the tests of a suite without 'ops'.",
    )
    baseline: str = Field(
        default="the baseline",
        min_length=3,
        description="What a kernel's error and time are compared with, as reports name it.",
    )
    backends: str | None = Field(
        default=None, description="The folder with one folder per backend: a change inside one tests that backend."
    )
    reference: str | None = Field(
        default=None,
        description="The backend whose equations make what every result is compared with: the comparison imports it.",
    )
    probes: str | None = Field(default=None, description="The folder of the probes of its toolchains.")
    sweeps: str | None = Field(default=None, description="The folder of kept results of sweeps (JSON).")
    checks: str | None = Field(
        default=None, description="The folder of kept results of checks that are no cases, such as sanitizers (JSON)."
    )
    rules: str | list[str] | None = Field(
        default=None,
        description="The file of the diagnosis rules that this package adds to the harness's own (YAML), or several: "
        "a file of a toolchain's rules may be shared by packages.",
    )
    distributions: list[str] = Field(
        default_factory=list, description="The distributions whose versions people look for in reports."
    )
    companions: list[str] | None = Field(
        default=None,
        description="Distributions (patterns with '*') whose pins in a toolchain's lock stay while a sweep tries other "
        "versions of one package. By default all that the toolchain itself asks for.",
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of every job; '{cache}' is a folder that is kept."
    )
    preflight: str | None = Field(
        default=None, description="A script that ends with status 0 if the GPU works, run before a job uses one."
    )

    def module_of(self, backend: str) -> str | None:
        """Return the module that holds a backend, which a comparison must not import.

        None where that is not known, and for the reference, which makes what every result is compared with.
        """
        if self.backends is None or backend == self.reference:
            return None
        inside = PurePosixPath(self.backends).relative_to(self.source)
        return ".".join((*inside.parts, backend))

    @property
    def build_commands(self) -> tuple[str, ...]:
        """The commands that build it."""
        return (self.build,) if isinstance(self.build, str) else tuple(self.build or ())

    @property
    def rule_files(self) -> tuple[str, ...]:
        """The files of its diagnosis rules."""
        return (self.rules,) if isinstance(self.rules, str) else tuple(self.rules or ())
