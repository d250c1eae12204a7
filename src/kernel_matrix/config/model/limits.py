"""The limits of a job: its time, its attempts, its container; and of what the code of a kernel needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from kernel_matrix.config.model.fields import ScalarOrList, Section

# The names that compilers and suites have for a figure; of several the first that a result has.
FIGURES: Mapping[str, tuple[str, ...]] = {
    "registers": ("registers",),
    "spills": ("spill_bytes", "spills", "spilled_registers"),  # of older results, registers
    "shared": ("shared_bytes", "shared"),
    "stack": ("stack_bytes", "stack", "local_bytes"),
    "code": ("code_bytes", "bytes"),
}
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20}


def _bytes(value: Any) -> Any:
    """Return the bytes of a text such as ``100 KiB``; anything else as it is."""
    number, _, unit = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else value


Count = Annotated[int, Field(ge=0)]
Size = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d+ (B|KiB|MiB)$"}]}),
]


class Resource(Section):
    """The most that code may need. Where several entries name the same limit of a case, the last one holds."""

    where: dict[str, ScalarOrList] = Field(min_length=1, description="platform, target, toolchain, op or an axis.")
    registers: Count | None = Field(default=None, description="Of one thread.")
    spills: Size | None = Field(
        default=None, description="Bytes of registers that a thread spills: stored, and not loaded."
    )
    shared: Size | None = Field(default=None, description="Shared memory of a block, such as '100 KiB'.")
    stack: Size | None = Field(default=None, description="Stack of one thread.")
    code: Size | None = Field(default=None, description="Size of the machine code.")
    growth: float | None = Field(default=None, ge=1, description="How many times its last value a figure may be.")
    last: str | None = Field(default=None, description="The folder with the tables of the last results, for 'growth'.")
    source: str = Field(
        min_length=20,
        description="Where the limit comes from: a sentence, and if it was measured the command and the date.",
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> Resource:
        if not self.limits and self.growth is None:
            raise ValueError(f"this entry has no limit: write {', '.join(FIGURES)} or growth")
        if (self.growth is None) != (self.last is None):
            raise ValueError("'growth' and 'last', the folder of the last results, come together")
        return self

    @property
    def limits(self) -> dict[str, int]:
        """The limits that it names, by figure."""
        return {name: value for name in FIGURES if (value := getattr(self, name)) is not None}


class Limits(Section):
    """Time limits, in seconds without those in which others had the cores; how often a red case is tried."""

    case: float = Field(gt=0, description="One case, compilation included.")
    job: float = Field(gt=0, description="One job: all cases of a toolchain on a platform.")
    build: float = Field(default=3600, gt=0, description="One command of the package's build.")
    attempts: int = Field(default=1, ge=1, le=5, description="A case that passes only on a repeat is 'flaky'.")


class Container(Section):
    """The limits of a job that runs in a container; sizes in GiB."""

    memory: float = Field(default=8, gt=0, description="Memory, temporary files included; there is no swap.")
    shm: float = Field(default=1, gt=0, description="Shared memory.")
    tmp: float = Field(default=2, gt=0, description="The folder for temporary files, in memory.")
    disk: float = Field(default=10, ge=0, description="What the Docker engine's disk must have free to make an image.")
    folder: float = Field(
        default=10,
        gt=0,
        description="What a job may write into its folder, compilers' caches included; also without a container.",
    )
    cpus: float | None = Field(default=None, gt=0, description="CPUs; all by default.")
    pids: int = Field(default=2048, ge=16, description="Processes and threads.")
    grace: int = Field(default=5, ge=0, description="Seconds between the request to stop and the kill.")
