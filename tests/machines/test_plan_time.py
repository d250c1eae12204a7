"""A plan of thousands of rows is made in the time that a person waits for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT
from test_rows import edited, second

from kernel_matrix.ci.placing import rows
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan

pytestmark = pytest.mark.alone

LARGE = """
package: {{ name: doubles, source: src, suite: suite, directions: [forward] }}
limits: {{ case: 3, job: 60 }}
accuracy:
  factor: {{ limit: 4, source: chosen for the tests of the harness }}
  rounded: {{ limit: 1.5, source: chosen for the tests of the harness }}
  ulps: {{ limit: 4, source: chosen for the tests of the harness }}
  caps: {{ forward: {{ limit: 1.0e-2, source: chosen for the tests of the harness }} }}
toolchains:
{toolchains}
platforms:
  one:
    title: one
    device: nvidia
    runner: [self-hosted, linux]
    targets: [{targets}]
    machines: [{targets}]
    toolchains: [{names}]
ops:
  double: {{ directions: [forward], axes: [tokens], cases: {{ quick: [{{ tokens: [1, 2] }}] }} }}
"""


@pytest.mark.slow
def test_a_plan_of_five_thousand_rows_takes_less_than_two_seconds(doubles):
    """This measures the CPU time of the whole command, with the start of Python: other work shares the machine."""
    names = [f"t{number}" for number in range(50)]
    targets = ", ".join(f"g{number}" for number in range(100))
    each = "\n".join(f"  {name}: {{ backend: good, lock: lock.txt, requires: [numpy] }}" for name in names)
    text = LARGE.format(toolchains=each, targets=targets, names=", ".join(names))
    (doubles.root / "matrix.yaml").write_text(text)
    matrix = load(doubles.root / "matrix.yaml")
    alone = edited(matrix, most_rows=10**6)
    assert len(rows(alone, plan(matrix, "quick").jobs, second)) == 5000, "one row per toolchain and architecture"

    out = doubles.root / "rows.json"
    command = [
        sys.executable,
        "-m",
        "kernel_matrix",
        "ci",
        "plan",
        "--github",
        "--matrix",
        str(doubles.root / "matrix.yaml"),
    ]
    before = os.times()
    with out.open("w") as stream:
        subprocess.run(
            command, cwd=ROOT, stdout=stream, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
        )
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    made = json.loads(Path(out).read_text())
    assert len(made["own"]) <= 256
    assert seconds < 2, f"{seconds:.2f} s"
    print(f"5000 rows in {seconds:.2f} s")
