"""The work that a CI service gets: what each event asks for, and how it is spread over machines."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from kernel_matrix.config.model.fields import Name, Section, Target, Tier

# Slurm's own words stand in the comments of a script, one a line: nothing of them may begin another one.
Word = Annotated[str, StringConstraints(pattern=r"^[^\s'\"\\$`]*$", max_length=300)]
Option = Annotated[str, StringConstraints(pattern=r"^--[a-z][a-z-]*(=[^\s'\"\\$`]+)?$", max_length=300)]

Runtime = Literal["apptainer", "charliecloud", "podman", "pyxis"]


class Event(Section):
    """The cases that an event of the repository asks for."""

    tier: Tier = Field(default="quick", description="The tier of the cases.")
    toolchains: list[Name] | None = Field(default=None, description="Only these toolchains; all by default.")
    minutes: float | None = Field(
        default=None, gt=0, description="Machine minutes that it may take: the cases that tell most are chosen."
    )
    excluded: bool = Field(default=False, description="Try the excluded cases too, to see whether they still fail.")


class Ask(Section):
    """A row's request of a cluster, in Slurm's words. The cluster's own defaults hold for the rest."""

    partition: Word = Field(default="", description="The partition.")
    account: Word = Field(default="", description="The account that pays.")
    qos: Word = Field(default="", description="The quality of service.")
    gres: Word = Field(default="", description="The device, such as 'gpu:h100'. A row takes one of it.")
    constraint: Word = Field(default="", description="The features of the node, such as 'avx512'.")
    cpus: int | None = Field(default=None, ge=1, description="Cores of a row.")
    memory: Word = Field(default="", description="Memory of a row, such as '16G'.")
    minutes: int | None = Field(default=None, ge=1, description="The most minutes that a row asks for.")
    options: list[Option] = Field(default_factory=list, description="More options of sbatch, such as '--exclusive'.")
    image: Word = Field(default="", description="An image with the harness, as the runtime names it: rows run in it.")
    runtime: Runtime = Field(default="apptainer", description="The program that runs a row in the image.")


class Slurm(Ask):
    """The rows as jobs of a Slurm cluster. What stands here holds for every row; a target may say otherwise."""

    targets: dict[Target, Ask] = Field(
        default_factory=dict,
        description="Targets that have a node, and what a row of each asks for. Rows of other targets are compiled on "
        "any node; those of a CPU run there.",
    )
    queue_minutes: float = Field(default=1440, gt=0, description="A row that waited longer for a node never started.")
    disk: Word = Field(
        default="",
        description="A folder of each node's own disk, such as '/tmp', where nodes do not see the checkout: a row gets "
        "a copy there, and its results come back.",
    )
    setup: str = Field(default="", description="Lines of shell before each row, such as 'module load python/3.12'.")


class Pod(Section):
    """A row's request of a Kubernetes cluster, in its words."""

    image: Word = Field(default="", description="The platform's image with the harness, by digest.")
    resources: dict[str, int] = Field(default_factory=dict, description="Devices, such as 'nvidia.com/gpu: 1'.")
    nodes: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes that have the device.")
    cpus: int | None = Field(default=None, ge=1, description="Cores of a row.")
    memory: Word = Field(default="", description="Memory of a row, such as '16Gi'.")


class Kubernetes(Pod):
    """The rows as pods without a container engine. What stands here holds for every row; a target may say otherwise."""

    claim: Name = Field(description="The claim of the volume that has the checkout, and gets the results.")
    targets: dict[Target, Pod] = Field(default_factory=dict, description="What a row of each target asks for.")


class Ci(Section):
    """The spread of the work over machines, and the limits after which one counts as gone."""

    hosted: str = Field(
        default="ubuntu-24.04", description="The label of the CI service's own machines, without a GPU."
    )
    most_rows: int = Field(default=256, ge=1, le=256, description="Rows of one matrix; GitHub takes no more than 256.")
    shard_minutes: float = Field(default=15, gt=0, description="A job that takes longer is cut into shards.")
    case_seconds: float = Field(default=2, gt=0, description="The estimate of a case that was never measured.")
    queue_minutes: float = Field(default=60, gt=0, description="A job that waited longer for a machine never started.")
    silent_days: float = Field(default=7, gt=0, description="A lane without a result for longer has a grey badge.")
    read: list[str] = Field(
        default_factory=list,
        description="Files (patterns with '*') that jobs read and that lie outside of the package's source and suite.",
    )
    unread: list[str] = Field(
        default_factory=list,
        description="Files (patterns with '*') of the package's source and suite that no job reads: a change of one "
        "concerns no job.",
    )
    sentinels: list[str] = Field(
        default_factory=list, description="Cells (patterns with '*') that run whatever has changed."
    )
    events: dict[Name, Event] = Field(default_factory=dict, description="What each event asks for.")
    slurm: Slurm | None = Field(default=None, description="What rows ask a Slurm cluster for (docs/how-to/slurm.md).")
    kubernetes: Kubernetes | None = Field(
        default=None, description="What rows ask a Kubernetes cluster for (docs/how-to/pods.md)."
    )
