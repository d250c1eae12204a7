"""Make small packages with suites that know nothing of the harness, and run them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common import BYTECODE, COPY, Silent, share
from judges import Found, found

from kernel_matrix import judging, pipeline
from kernel_matrix.config.selection import Selection
from kernel_matrix.results.states import Verdict
from kernel_matrix.run.settings import Settings
from kernel_matrix.store.load import Collected, collect
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

MATRIX = """
package: { name: thing, suite: tests }
limits: { case: 60, job: 600 }
toolchains:
  plain: { lock: lock.txt }
platforms:
  here:
    title: this machine
    device: cpu
    runner: [ubuntu-24.04]
    targets: [any]
    toolchains: [plain]
"""
HERE = Machine((Device("cpu", "test", ("any", "other")),))


@dataclass
class Suite:
    """Hold a package with a suite, in its own folder."""

    root: Path
    executor: str = "current"

    @classmethod
    def made(cls, root: Path, files: Mapping[str, str], matrix: str = MATRIX) -> Suite:
        """Write the files, and a matrix.yaml next to them."""
        for name, text in {"matrix.yaml": matrix, "lock.txt": "numpy==2.3.5\n", **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        (root / "tests").mkdir(exist_ok=True)
        share(root / "build", BYTECODE, COPY)
        return cls(root)

    def collected(self, selection: Selection | None = None) -> pipeline.Project:
        """Return the project with the tests that its suite has now."""
        project = pipeline.load(self.root / "matrix.yaml")
        return pipeline.collect_tests(project, selection or Selection(), HERE, self.settings(), Silent())

    def settings(self, *, resume: bool = False) -> Settings:
        return Settings(self.root, self.root / "build", self.executor, workers=1, resume=resume)

    def run(self, selection: Selection | None = None, *, resume: bool = False) -> Found:
        """Collect, run, and compare what is asked for."""
        selection = selection or Selection()
        project = self.collected(selection)
        selected = pipeline.select(project, selection)
        files = pipeline.run_selected(project, selected, HERE, self.settings(resume=resume), Silent())
        with judging.judged(project, selected.part, files) as judged:
            return found(judged)

    def results(self) -> Collected:
        return collect([self.root / "build" / "results"])


def verdicts(comparison: Found) -> dict[str, Verdict]:
    """Return the verdicts by operator and name, such as ``test_a/test_ok``."""
    return {f"{v.case.cell.op}/{v.case.name}": v for cell in comparison.cells for v in cell.cases}


def states(comparison: Found) -> dict[str, str]:
    """Return the states by operator and name."""
    return {name: v.state for name, v in verdicts(comparison).items()}


PYTHON = sys.executable
