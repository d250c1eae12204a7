"""The model of matrix.yaml. It validates the file, and the JSON Schema for editors is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.config.bench import Bench
from kernel_matrix.config.names import ProgramName, VendorName
from kernel_matrix.config.until import Until
from kernel_matrix.job import defaults

Scalar = bool | int | float | str
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
OutputName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Driver = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*$")]
Tier = Literal["quick", "full"]
Direction = Name
Stage = Literal["install", "import", "lower", "compile", "launch", "timeout", "crash"]

ASSERTED = "tests"  # the direction of the tests of a suite that asserts by itself

ScalarOrList = Scalar | list[Scalar]


def as_list(value: ScalarOrList) -> list[Scalar]:
    """Return a list as it is, and one value as a list of one."""
    return value if isinstance(value, list) else [value]


def has_values(axes: Mapping[str, Scalar], where: Mapping[str, ScalarOrList]) -> bool:
    """Return whether every key of ``where`` is an axis that has one of the values named there."""
    return all(key in axes and axes[key] in as_list(values) for key, values in where.items())


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Start(_Section):
    """The commands by which people start the harness in this repository; every message writes them so."""

    command: str = Field(
        default="kernel-matrix {command} {options}",
        description="A command of the harness: '{command}' is its name, '{options}' is what follows.",
    )
    platform: str | None = Field(
        default=None,
        description="The command that runs one platform, where it is another one: '{platform}' is the platform's name, "
        "'{options}' is what follows.",
    )


class Package(_Section):
    """The kernel package under test."""

    name: Name = Field(description="The name that is imported and shown.")
    source: str = Field(
        default=".", description="The folder that goes onto the import path, from the repository's root."
    )
    suite: str = Field(
        description="The folder of the suite that every job runs: of a conformance suite for the operators of 'ops', "
        "or, where there is no 'ops', of any tests that pytest runs. Each of these is a case then."
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
    def rule_files(self) -> tuple[str, ...]:
        """The files of its diagnosis rules."""
        return (self.rules,) if isinstance(self.rules, str) else tuple(self.rules or ())


class Limits(_Section):
    """Time limits, in seconds, and how often a case that did not pass is tried."""

    case: float = Field(gt=0, description="One case, compilation included.")
    job: float = Field(gt=0, description="One job: all cases of a toolchain on a platform.")
    attempts: int = Field(default=1, ge=1, le=5, description="A case that passes only on a repeat is 'flaky'.")


class Container(_Section):
    """The limits of a job that runs in a container; sizes in GiB."""

    memory: float = Field(default=8, gt=0, description="Memory, temporary files included; there is no swap.")
    shm: float = Field(default=1, gt=0, description="Shared memory.")
    tmp: float = Field(default=2, gt=0, description="The folder for temporary files, in memory.")
    disk: float = Field(default=10, ge=0, description="What the Docker engine's disk must have free to make an image.")
    cpus: float | None = Field(default=None, gt=0, description="CPUs; all by default.")
    pids: int = Field(default=2048, ge=16, description="Processes and threads.")
    grace: int = Field(default=5, ge=0, description="Seconds between the request to stop and the kill.")


class _Limit(_Section):
    limit: float
    source: str = Field(
        min_length=20,
        description="Where the limit comes from: a sentence, and if it was measured the command and the date.",
    )


class Factor(_Limit):
    """A factor of the noise, and where it comes from."""

    limit: float = Field(ge=1)


class Amount(_Limit):
    """An amount, and where it comes from."""

    limit: float = Field(gt=0)


class Growth(_Section):
    """The limits of the growth of an error with the number of tokens, and where they come from.

    Each limit is of the slope of log(error / noise) over log(tokens).
    """

    sums: Amount = Field(description="Of an output that its operator names under 'sums'.")
    others: Amount = Field(description="Of every other output: that of each token alone.")


def default_cap() -> Amount:
    """Return the cap of a direction for which matrix.yaml names none."""
    return Amount(limit=defaults.CAP, source=defaults.SOURCE)


class OwnBudget(_Section):
    """The limits that one operator has in place of the section's, or one of its directions or outputs."""

    op: Name
    direction: Direction | None = Field(default=None, description="Only this direction; all by default.")
    output: OutputName | None = Field(default=None, description="Only this output; all by default.")
    factor: Factor | None = Field(default=None, description="In place of the section's 'factor'.")
    rounded: Factor | None = Field(default=None, description="In place of the section's 'rounded'.")
    cap: Amount | None = Field(default=None, description="In place of the direction's entry in 'caps'.")

    @model_validator(mode="after")
    def _has_a_limit(self) -> OwnBudget:
        if not self.limits:
            raise ValueError("this entry has no limit: write 'factor', 'rounded' or 'cap', each with its source")
        return self

    @property
    def limits(self) -> dict[str, Factor | Amount]:
        """The limits that it names."""
        named = {"factor": self.factor, "rounded": self.rounded, "cap": self.cap}
        return {name: rule for name, rule in named.items() if rule is not None}

    @property
    def place(self) -> str:
        """Its name in messages: ``budgets.OP``, ``budgets.OP.DIRECTION`` or ``budgets.OP.DIRECTION.OUTPUT``."""
        parts = ["budgets", self.op, self.direction or ("*" if self.output else None), self.output]
        return ".".join(part for part in parts if part)


class Accuracy(_Section):
    """Error budgets, as :func:`kernel_matrix.job.accuracy.budget` makes them: ``min(cap, factor × noise)``."""

    factor: Factor = Field(description="How many times the baseline's own error a result may be off.")
    rounded: Factor = Field(description="The factor of the Frobenius error of outputs narrower than fp32.")
    ulps: Amount = Field(description="The least noise floor, in ULP of fp32 at the output's largest value.")
    caps: dict[Direction, Amount] = Field(description="Absolute error at unit scale that no budget goes beyond.")
    growth: Growth | None = Field(
        default=None,
        description="How fast an error may grow with the number of tokens. Without it the suite has a limit of its "
        "own, or measures no growth.",
    )
    budgets: list[OwnBudget] = Field(
        default_factory=list,
        description="Operators, directions and outputs with limits of their own. Where several entries name the same "
        "limit of an output, the last one holds.",
    )

    def rules(self) -> dict[str, Factor | Amount]:
        """Return every limit with its source, by its place in this section, such as ``caps.forward``."""
        rules = self._general()
        rules |= {f"caps.{direction}": cap for direction, cap in self.caps.items()}
        if self.growth:
            rules |= {"growth.sums": self.growth.sums, "growth.others": self.growth.others}
        for own in self.budgets:
            rules |= {f"{own.place}.{name}": rule for name, rule in own.limits.items()}
        return rules

    def limits(self) -> dict[str, Any]:
        """Return the limits without their sources, as a job gets them."""
        limits: dict[str, Any] = {name: rule.limit for name, rule in self._general().items()}
        limits["caps"] = {direction: cap.limit for direction, cap in self.caps.items()}
        if self.growth:
            limits["growth"] = {"sums": self.growth.sums.limit, "others": self.growth.others.limit}
        if self.budgets:
            limits["budgets"] = [
                own.model_dump(include={"op", "direction", "output"})
                | {name: rule.limit for name, rule in own.limits.items()}
                for own in self.budgets
            ]
        return limits

    def place_of(self, name: str, op: str, direction: str, output: str) -> str:
        """Return the place of the ``factor``, ``rounded`` or ``cap`` that holds for an output."""
        for own in reversed(self.budgets):
            concerned = own.op == op and own.direction in (None, direction) and own.output in (None, output)
            if concerned and name in own.limits:
                return f"{own.place}.{name}"
        return f"caps.{direction}" if name == "cap" else name

    def _general(self) -> dict[str, Factor | Amount]:
        return {"factor": self.factor, "rounded": self.rounded, "ulps": self.ulps}

    @classmethod
    def default(cls) -> Accuracy:
        """Return the limits of a matrix that names none."""
        return cls(
            factor=Factor(limit=defaults.FACTOR, source=defaults.SOURCE),
            rounded=Factor(limit=defaults.ROUNDED, source=defaults.SOURCE),
            ulps=Amount(limit=defaults.ULPS, source=defaults.SOURCE),
            caps={ASSERTED: default_cap()},
        )


class Installer(_Section):
    """uv's environment variables for a distribution that has another build for each kind of machine."""

    builds_of: str | None = Field(default=None, description="The distribution that has several builds.")
    cpu: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of uv that choose the build without a GPU."
    )
    gpu: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of uv that choose the build for this machine's GPU."
    )


class Toolchain(_Section):
    """A backend with pinned versions."""

    backend: Name = Field(
        default="suite", description="The backend of the package that this toolchain compiles, if the package has any."
    )
    lock: str = Field(description="The lock file that its environment is made from.")
    requires: list[str] = Field(
        default_factory=list, description="What an already provisioned interpreter must have (PEP 508)."
    )
    ahead_of_time: bool = Field(default=False, description="Whether it compiles for a GPU that is not there.")
    ops: list[str] | None = Field(
        default=None, description="The operators that its backend has, as 'op' or 'op.direction'; all by default."
    )


class PlatformToolchain(_Section):
    """One toolchain on one platform, where it differs from the rest."""

    toolchain: Name
    targets: list[Target] | None = Field(default=None, description="Only these of the platform's targets.")
    ops: list[str] | None = Field(default=None, description="Only these operators, as 'op' or 'op.direction'.")
    cases: dict[str, ScalarOrList] = Field(
        default_factory=dict,
        description="Only the cases whose axes have these values; an operator without such an axis keeps all of its.",
    )
    runs: bool = Field(default=True, description="False: compiled only, also where the hardware is.")
    emulated: bool = Field(default=False, description="What runs here is an emulator or interpreter.")
    needs: dict[ProgramName, Evidence] = Field(
        default_factory=dict,
        description="Programs of the machine, each with the evidence that this toolchain stays at without it.",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Environment variables of the job.")


class Platform(_Section):
    """A vendor's toolchain, and the architectures that it is asked for."""

    title: str = Field(description="The name that people read.")
    device: VendorName = Field(
        description="Whose hardware runs it; 'software' is a device that comes with the toolchain and emulates one."
    )
    container: str | None = Field(default=None, description="The Dockerfile of the platform's image.")
    driver: Driver | None = Field(default=None, description="The oldest driver that the image's runtime works with.")
    runner: list[str] = Field(
        min_length=1,
        description="Labels of the machines that run its jobs; '{target}' stands for the target.",
    )
    machines: list[Target] | None = Field(
        default=None,
        description="Targets that have a machine with these labels; a self-hosted one has the target's as well. "
        "The other targets are compiled on a hosted machine. By default none, and of a CPU all: every machine has one.",
    )
    targets: list[Target] = Field(min_length=1, description="Architectures, as the vendor writes them.")
    toolchains: list[Name | PlatformToolchain] = Field(min_length=1)

    @cached_property  # a copy with other toolchains would keep this: make a new Platform instead
    def entries(self) -> tuple[PlatformToolchain, ...]:
        """The toolchains in their long form."""
        return tuple(
            PlatformToolchain(toolchain=entry) if isinstance(entry, str) else entry for entry in self.toolchains
        )

    @cached_property
    def by_toolchain(self) -> dict[str, PlatformToolchain]:
        """The toolchains in their long form, by name."""
        return {entry.toolchain: entry for entry in self.entries}

    def labels(self, target: str) -> tuple[str, ...]:
        """Return the labels of a machine for ``target``: the platform's own, and the target where '{target}' stands.

        Where no label has '{target}', a self-hosted machine has the target as its last label.
        """
        if any("{target}" in label for label in self.runner):
            return tuple(label.replace("{target}", target) for label in self.runner)
        return (*self.runner, target) if "self-hosted" in self.runner else tuple(self.runner)


Output = OutputName | Annotated[dict[OutputName, dict[str, ScalarOrList]], Field(min_length=1, max_length=1)]


class Op(_Section):
    """An operator: the axes of its cases, and the cases of each tier."""

    directions: list[Direction] = Field(min_length=1)
    axes: list[Name] = Field(min_length=1, description="What a case says; 'dtype', 'scale' and 'seed' are common.")
    defaults: dict[str, Scalar] = Field(default_factory=dict, description="Axes that a group need not mention.")
    cases: dict[Tier, list[dict[str, ScalarOrList]]] = Field(
        description="Groups; each is a product of its axes, in all directions or in those that its 'direction' names."
    )
    timed: list[dict[str, ScalarOrList]] = Field(
        default_factory=list,
        description="Groups of every tier that are timed against the baseline as well, where a machine runs them.",
    )
    outputs: dict[Direction, list[Output]] | None = Field(
        default=None,
        description="The outputs by direction that every result owes figures of: a name, or a name with the values of "
        "axes under which it is owed, as { gamma: { gamma: true } }. Without it one output is enough.",
    )
    sums: list[OutputName] = Field(
        default_factory=list,
        description="The outputs that are sums over all tokens: accuracy.growth has another limit for these.",
    )
    canary: dict[str, ScalarOrList] = Field(
        default_factory=dict,
        description="Values of axes: the cases that carry canaries are chosen among those that have them, if any has.",
    )

    def owed_outputs(self, direction: Direction, axes: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Return the outputs that a case with these axes owes; none where nothing is said of them."""
        entries = (self.outputs or {}).get(direction, [])
        conditions: list[tuple[str, dict[str, ScalarOrList]]] = [
            pair for entry in entries for pair in (entry.items() if isinstance(entry, dict) else [(entry, {})])
        ]
        return tuple(name for name, where in conditions if has_values(axes, where))


class _Rule(_Section):
    where: dict[str, ScalarOrList] = Field(min_length=1, description="platform, target, toolchain, op or an axis.")
    reason: str = Field(min_length=10)
    owner: str = Field(min_length=2, description="Who looks at it again when it ends: a person or a team.")
    link: str = Field(
        pattern=r"^(https://\S+|[\w.-]+(/[\w.-]+)*(#[\w-]+)?)$",
        description="Where more is written of it: an address (https://), or a file of this repository.",
    )
    until: Until = Field(
        description="When it ends: a date, the last day on which it holds, or a version of a distribution (PEP 508). "
        "With a version it ends where the environment of a toolchain meets it."
    )


class Exclusion(_Rule):
    """Cases that are planned and not run, why, and until when."""


class Expectation(_Rule):
    """Cases that are known to fail, and until when. When one passes, the run is red until this entry is taken out."""

    outcome: Literal["fail", "error"]
    stage: Stage | None = Field(default=None, description="The stage of an error.")
    match: str = Field(min_length=5, description="A regular expression that the exact message contains.")
    versions: list[str] = Field(default_factory=list, description="Versions that it holds for (PEP 508).")


Rule = Exclusion | Expectation


class Event(_Section):
    """The cases that an event of the repository asks for."""

    tier: Tier = Field(default="quick", description="The tier of the cases.")
    toolchains: list[Name] | None = Field(default=None, description="Only these toolchains; all by default.")
    excluded: bool = Field(default=False, description="Try the excluded cases too, to see whether they still fail.")


class Ci(_Section):
    """The spread of the work over machines, and the limits after which one counts as gone."""

    hosted: str = Field(
        default="ubuntu-24.04", description="The label of the CI service's own machines, without a GPU."
    )
    most_rows: int = Field(default=256, ge=1, le=256, description="Rows of one matrix; GitHub takes no more than 256.")
    shard_minutes: float = Field(default=15, gt=0, description="A job that takes longer is cut into shards.")
    case_seconds: float = Field(default=2, gt=0, description="The estimate of a case that was never measured.")
    queue_minutes: float = Field(default=60, gt=0, description="A job that waited longer for a machine never started.")
    silent_days: float = Field(default=7, gt=0, description="A lane without a result for longer has a grey badge.")
    unread: list[str] = Field(
        default_factory=list,
        description="Files (patterns with '*') that no job reads: a change of one concerns no job.",
    )
    sentinels: list[str] = Field(
        default_factory=list, description="Cells (patterns with '*') that run whatever has changed."
    )
    events: dict[Name, Event] = Field(default_factory=dict, description="What each event asks for.")


class Matrix(_Section):
    """The whole of matrix.yaml."""

    package: Package
    start: Start = Field(default_factory=Start)
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
    ci: Ci = Field(default_factory=Ci)
    expectations: list[Expectation] = Field(default_factory=list)
    exclusions: list[Exclusion] = Field(default_factory=list)
