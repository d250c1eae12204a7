"""What the harness's tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernel_matrix.collect import collect
from kernel_matrix.compare import Comparison, compare
from kernel_matrix.junit import Record
from kernel_matrix.load import load
from kernel_matrix.machine import Device, Machine, detect
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Case, plan
from kernel_matrix.run import Settings, run

ROOT = Path(__file__).parents[2]


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

    def run(self, toolchain: str, *, resume: bool = False) -> Comparison:
        planned = plan(self.matrix, "quick")
        jobs = [job for job in planned.jobs if job.toolchain == toolchain]
        settings = Settings(self.root, self.root / "build", "current", workers=2, resume=resume)
        files = run(self.matrix, jobs, Machine((Device("cpu", "test", ("any",)),)), settings, Silent())
        mine = type(planned)(planned.package, planned.tier, tuple(jobs))
        return compare(mine, collect(files).records)


@pytest.fixture
def doubles(tmp_path: Path) -> Doubles:
    shutil.copytree(Path(__file__).parent / "doubles", tmp_path / "doubles")
    return Doubles(tmp_path / "doubles")


@pytest.fixture
def here(doubles: Doubles) -> Doubles:
    """The doubles on a target that this machine has, with time enough for a machine that has much to do."""
    doubles.edit("{ case: 3, job: 60 }", "{ case: 60, job: 120 }")
    doubles.edit("targets: [any]", f"targets: [{detect().devices[0].targets[-1]}]")
    return doubles


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
