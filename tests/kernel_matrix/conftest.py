"""What the harness's tests share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient

from kernel_matrix.collect import collect
from kernel_matrix.compare import Comparison, compare
from kernel_matrix.executors import UnavailableError
from kernel_matrix.executors.engine import connect
from kernel_matrix.junit import Record
from kernel_matrix.load import load
from kernel_matrix.machine import Device, Machine
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Case, plan
from kernel_matrix.run import Settings, run

ROOT = Path(__file__).parents[2]
CPU = Device("cpu", "test", ("any",))


class Silent:
    """Progress that nobody watches."""

    def job(self, job: str, text: str) -> None: ...

    def case(self, job: str, outcome: str) -> None: ...


@dataclass
class Doubles:
    """The package of test doubles in a folder of its own."""

    root: Path

    @property
    def matrix(self) -> Matrix:
        return load(self.root / "matrix.yaml")

    def edit(self, old: str, new: str) -> None:
        path = self.root / "matrix.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def in_containers(self) -> None:
        """Give the platform an image: that of the project's environments, made from the doubles' own lock."""
        self.edit("device: cpu", "device: cpu\n    container: containers/here/Dockerfile")
        shutil.copytree(ROOT / "containers" / "toolchains", self.root / "containers" / "toolchains")

    def run(
        self, *toolchains: str, executor: str = "current", device: Device = CPU, resume: bool = False
    ) -> Comparison:
        planned = plan(self.matrix, "quick")
        jobs = [job for job in planned.jobs if job.toolchain in toolchains]
        settings = Settings(self.root, self.root / "build", executor, workers=2, resume=resume)
        files = run(self.matrix, jobs, Machine((device,)), settings, Silent())
        mine = type(planned)(planned.package, planned.tier, tuple(jobs))
        return compare(mine, collect(files).records)


@pytest.fixture
def doubles(tmp_path: Path) -> Doubles:
    shutil.copytree(Path(__file__).parent / "doubles", tmp_path / "doubles")
    return Doubles(tmp_path / "doubles")


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """The Docker engine of this machine; without one, the tests that need it are counted as not run."""
    try:
        found = connect()
    except UnavailableError as reason:
        pytest.skip(f"needs a Docker engine: {reason}")
    yield found.client
    found.client.close()


@pytest.fixture
def contained(engine: DockerClient, doubles: Doubles) -> Doubles:
    """The doubles, with an image."""
    doubles.in_containers()
    return doubles


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], None]]:
    """Mount disks of 160 MiB where asked."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        folder.mkdir(parents=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"needs to mount a small disk: {done.stderr.strip()}")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """The project's own matrix.yaml."""
    return load(ROOT / "matrix.yaml")


@pytest.fixture
def passing() -> Callable[[Case], Record]:
    """Make the record of a case that ran and is inside its budget."""

    def make(case: Case) -> Record:
        metrics = {"elements": 8.0}
        for figure in ("max_abs", "rel_fro"):
            metrics |= {f"out.{figure}": 1e-7, f"out.limit_{figure}": 1e-6}
        return Record(case.id, "pass", "run", metrics=metrics, job={"device": "a GPU", "version.torch": "2.13.0"})

    return make
