"""Writing, reading and asking tables takes little time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from common import ROOT, write_results
from records import JOB

from kernel_matrix.store.load import collect
from kernel_matrix.store.query import ask
from kernel_matrix.store.record import Record

pytestmark = [pytest.mark.alone, pytest.mark.nightly]  # the records alone take 15 seconds, while no other test may run


@pytest.fixture(scope="module")
def thousand() -> list[Record]:
    """Return a thousand records of kept results that ran, each with its samples."""
    kept = collect([ROOT / "docs" / "results" / "cpu-2-cores"]).records
    ran = [record for record in kept if record.samples]
    return [replace(record, case=f"{record.case}-{number}", job=JOB) for number, record in enumerate(ran[:1000])]


def test_a_job_of_a_thousand_cases_is_written_and_read_in_less_than_a_second_each(thousand, tmp_path):
    assert len(thousand) == 1000
    began = time.process_time()
    files = write_results(tmp_path, thousand)
    written = time.process_time() - began
    assert written < 1
    began = time.process_time()
    assert len(collect([files.path("jobs")]).records) == 1000
    assert time.process_time() - began < 1


def test_twenty_jobs_of_a_thousand_cases_are_asked_in_a_second(thousand, tmp_path):
    for number in range(20):
        job = {**JOB, "started": f"2026-10-{number + 1:02d}T00:00:00Z"}
        write_results(tmp_path, [replace(record, job=job, samples={}) for record in thousand])
    began = time.process_time()
    [row] = ask("SELECT count(*), count(DISTINCT run) FROM cases", [tmp_path]).rows
    assert row == (20_000, 20)
    assert time.process_time() - began < 1
