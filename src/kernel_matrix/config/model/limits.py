"""The limits of a job: its time, its attempts, and the size of its container."""

from __future__ import annotations

from pydantic import Field

from kernel_matrix.config.model.fields import Section


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
