"""A loaded matrix.yaml, and what is asked of its plan: the values that every stage of the pipeline gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from kernel_matrix import diagnosis
from kernel_matrix.config import load as loading
from kernel_matrix.config import suite
from kernel_matrix.config.load import MATRIX_FILE, Checked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.diagnosis import Rule
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.results.history import History


@dataclass(frozen=True)
class Project:
    """A loaded matrix.yaml: its content, the folder that it stands in, and the folder that everything is written to."""

    matrix: Matrix
    root: Path
    build: Path
    checked: Checked | None = None  # holds the plan of the full tier, which loading has made to check matrix.yaml
    file: Path | None = None  # matrix.yaml itself

    @cached_property  # planning needs no rules, and reading them takes longer than planning
    def rules(self) -> tuple[Rule, ...]:
        """The diagnosis rules of the package, and those of the harness."""
        return diagnosis.rules_of(self.matrix, self.root)

    @property
    def name(self) -> str:
        """The name of the matrix's file."""
        return self.file.name if self.file else MATRIX_FILE

    @property
    def results(self) -> Path:
        """The folder of the result files of this machine's jobs."""
        return self.build / "results"

    @property
    def site(self) -> Path:
        """The folder of the dashboard."""
        return self.build / "site"


@dataclass(frozen=True)
class Selected:
    """The plan of a tier, and the jobs of it that are asked for, with only the cases that are asked for."""

    plan: Plan
    jobs: tuple[Job, ...]
    row_plan: RowPlan | None = None
    earlier: History = field(default_factory=History)

    @property
    def excluded(self) -> bool:
        """True if the row plan says that the excluded cases are tried too."""
        return self.row_plan is not None and self.row_plan.excluded

    @property
    def part(self) -> Plan:
        """The plan with only the jobs that are asked for."""
        return replace(self.plan, jobs=self.jobs)


def load(path: Path, build: Path | None = None) -> Project:
    """Read and check matrix.yaml; ``build`` is the folder ``build`` beside it by default.

    Raises:
        UserError: the file cannot be used; the message has one line per fault.
    """
    root = path.parent.resolve()
    build = Path(build or root / "build").resolve()
    checked = loading.load_and_plan(path, suite.read([build / "results"]))
    return Project(checked.matrix, root, build, checked, path.resolve())


def with_tests(project: Project, folders: Sequence[Path]) -> Project:
    """Return the project with the tests of its suite that some results are of, if its cases are such tests.

    Raises:
        UserError: a list of tests cannot be used.
    """
    if not project.file or not suite.is_suite(project.matrix):
        return project
    tests = suite.read(folders or [project.results])
    checked = loading.load_and_plan(project.file, tests)
    return replace(project, matrix=checked.matrix, checked=checked)
