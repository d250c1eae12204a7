"""The benchmark of this package runs for real on this machine's CPU, in its quick form."""

from __future__ import annotations

import pytest
from common import ROOT, environments_of, records_in
from loops import at_least

from kernel_matrix import pipeline
from kernel_matrix.tools.bench.run import Wish, bench
from kernel_matrix.vendors.machine import detect

pytestmark = pytest.mark.environments


def timed(tmp_path, monkeypatch, *cases):
    # The tests share the cores: a run whose threads wait for each other would take seconds.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    project = pipeline.load(ROOT / "matrix.yaml", environments_of(tmp_path / "build"))
    wish = Wish(("cpu-llvm",), ("reference",), cases, ("eager",), quick=True)
    (file,) = bench(project, detect(), wish)
    return records_in(file)


def test_every_operator_is_right_and_has_a_time(tmp_path, monkeypatch):
    records = timed(tmp_path, monkeypatch)
    assert {record.outcome for record in records} == {"pass"}, [record.message for record in records]
    kinds = {record.case.split("/")[3] for record in records}
    assert {"mhc_pre.forward", "mhc_pre.backward", "read.backward", "layer.step", "expand.forward"} <= kinds
    for record in records:
        figures = record.metrics
        assert 0 < figures["bench.p5_us"] <= figures["bench.median_us"] <= figures["bench.p95_us"]
        assert 0 < figures["bench.floor_share"] < 1
        assert figures["bench.copy_gbs"] > 0.1
        assert figures["bench.behind_us"] > 0
        assert figures["bench.rotated_bytes"] > 0
        assert 0 <= figures["bench.limit_share"] <= 1
        assert record.facts["bench.threads"] == "1"


def test_a_kernel_whose_numbers_are_off_is_refused(tmp_path, monkeypatch):
    """The comparison of the benchmark sees a reference that is off by a part in ten thousand."""
    adapter = tmp_path / "benchmarks"
    adapter.mkdir()
    for path in at_least(3, (ROOT / "benchmarks").glob("*.py")):
        (adapter / path.name).write_text(path.read_text())
    operators = (adapter / "operators.py").read_text()
    run = "        self._kernel.run(inputs, outputs)\n"
    assert run in operators
    wrong = f"{run}        outputs[0].mul_(1.0001).nan_to_num_()\n        outputs[0].view(-1)[0] += 0.5\n"
    (adapter / "operators.py").write_text(operators.replace(run, wrong, 1))
    project = pipeline.load(ROOT / "matrix.yaml", environments_of(tmp_path / "build"))
    changed = project.matrix.bench.model_copy(update={"adapter": str(adapter)})
    object.__setattr__(project, "matrix", project.matrix.model_copy(update={"bench": changed}))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    wish = Wish(("cpu-llvm",), ("reference",), ("mhc_post.forward", "sinkhorn.forward"), ("eager",), quick=True)
    (file,) = bench(project, detect(), wish)
    for record in records_in(file):
        assert record.outcome == "fail", record.case
        assert "is over" in record.message
        assert "bench.median_us" not in record.metrics
