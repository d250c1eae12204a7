"""Samples travel with the results, and samples that no job writes are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from common import ROOT, records_in
from records import record_with_sample

from kernel_matrix.ci.services import buildkite
from kernel_matrix.results.ulp import values_of
from kernel_matrix.store import samples
from kernel_matrix.store.load import collect
from kernel_matrix.store.write import write

JOB = {"job": "here.good", "device": "x"}
NAME = "here/any/good/double.forward/tokens1"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    write(folder, JOB, [record_with_sample(), record_with_sample(f"{NAME}2")])
    return folder


def test_samples_come_back_with_their_records(results):
    collected = collect([results])
    assert collected.broken == ()
    assert [r.samples for r in collected.records] == [
        record_with_sample().samples,
        record_with_sample(f"{NAME}2").samples,
    ]
    assert len(collected.records[0].samples["out"].bits) == 128 * 4
    assert collected.records[0].samples["r"].shape == (7,)


def test_a_file_of_results_named_alone_is_read_with_its_samples(results):
    [table] = (results / "jobs").iterdir()
    assert collect([table]).records[0].samples == record_with_sample().samples


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"out": 3},
        {"out": {"dtype": "int8", "shape": [1], "sha256": "0" * 16, "bits": "AA=="}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "0" * 16, "bits": "AA=="}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "0" * 16, "bits": "not base64!"}},
        {"out": {"dtype": "fp32", "shape": [-1], "sha256": "0" * 16, "bits": ""}},
        {"out": {"dtype": "fp32", "shape": [1], "sha256": "x", "bits": "AAAAAA=="}},
    ],
)
def test_an_entry_of_the_journal_that_is_no_sample_gives_none(entry):
    assert samples.of_entry(entry) == {}


def test_samples_of_a_case_that_did_not_run_are_refused(tmp_path):
    write(tmp_path, JOB, [record_with_sample(action="compile")])
    assert "which did not run" in collect([tmp_path]).broken[0]


def test_artifacts_carry_samples_with_the_results():
    action = (ROOT / ".github" / "actions" / "row" / "action.yml").read_text()
    for pattern in ("build/results/*/*.parquet", "build/results/*/*.jsonl"):
        assert pattern in action
        assert pattern in Path(buildkite.__file__).read_text()


@pytest.mark.slow
def test_a_job_writes_the_samples_of_what_ran_passing_or_not(doubles):
    doubles.run("wrong", "raises")
    records = sorted(records_in(doubles.root / "build" / "results"), key=lambda record: record.case)
    assert [(r.outcome, [*r.samples]) for r in records] == [
        *(("pass", ["out"]), ("error", []), ("pass", ["out"])),
        *(("pass", ["out"]), ("fail", ["out"]), ("pass", ["out"])),
    ]
    right, _, _, _, wrong, _ = records
    assert right.samples["out"].shape == (1, 8)
    assert np.isfinite(values_of(right.samples["out"])).all()
    assert wrong.samples["out"].sha256 != right.samples["out"].sha256


@pytest.mark.slow
def test_a_run_that_begins_anew_leaves_no_samples_of_the_run_before(doubles):
    doubles.run("good")
    assert any(record.samples for record in records_in(doubles.root / "build" / "results"))
    doubles.edit("targets: [any]", "targets: [elsewhere]")  # nothing runs there
    comparison = doubles.run("good")
    assert not any(record.samples for record in records_in(doubles.root / "build" / "results"))
    assert {verdict.state for cell in comparison.cells for verdict in cell.cases} <= {"unavailable", "compiled"}


@pytest.mark.slow
def test_a_resumed_run_keeps_the_samples(doubles):
    doubles.run("good")
    samples_before = collect([doubles.root / "build" / "results"]).records[0].samples
    doubles.run("good", resume=True)
    assert samples_before
    assert collect([doubles.root / "build" / "results"]).records[0].samples == samples_before
