"""Of a large report a part is checked, chosen at random: what is wrong in it is found, and the page says what it is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from audited import HEAD, LOCK, NOW
from checkouts import AtCommit
from common import ROOT
from shown import Page

from kernel_matrix.audit import audit_sample, job_sample
from kernel_matrix.audit.job_sample import Sample, Source
from kernel_matrix.audit.page import Compat
from kernel_matrix.audit.states import Now
from kernel_matrix.base.errors import UserError
from kernel_matrix.report.document import Document
from kernel_matrix.results.states import STATES
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.validation import Bounds


@pytest.fixture
def sites(reported_results, one_op, tmp_path):
    """Return a copy of the site, the sources by platform and toolchain, and a function that audits some of them."""
    planned, files, site = reported_results
    shutil.copytree(site, tmp_path / "site")
    now = Now(NOW, dict.fromkeys(one_op.toolchains, LOCK), AtCommit(HEAD))
    sources: dict[tuple[str, str], Source] = {}
    for job in planned.jobs:
        place = job.platform, job.toolchain
        mine = [file for file in files if file.stem in (job.id, job.id.removesuffix(".timed"), f"{job.id}.timed")]
        sources[place] = Source(tuple(mine), len(job.cases))

    def audit(*places: tuple[str, str]) -> list[str]:
        chosen = {place: sources[place] for place in places}
        asked = {c.id for c in planned.cases if (c.cell.platform, c.cell.toolchain) in chosen}
        return audit_sample(tmp_path / "site", Sample(chosen, 100), one_op, ROOT, asked, now)

    return tmp_path / "site", sources, audit


def edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.DOTALL)
    assert count == 1
    path.write_text(text)


@pytest.mark.slow
def test_no_job_of_a_true_page_has_a_difference(sites):
    _, sources, audit = sites
    assert len(sources) > 4
    for place in sources:
        assert audit(place) == [], place
    assert audit(*sources) == []


@pytest.mark.slow
def test_a_figure_of_a_job_that_was_chosen_is_held_to_its_results(sites):
    site, _, audit = sites
    name, value, first = cases_of(site, "/reference/")
    value["cases"][first]["seconds"] = 7.5
    Page(site).put_tables(name, value)
    found = [place for place in sites[1] if audit(place)]
    assert len(found) == 1
    assert any("seconds: 7.5 is shown, and the results make 1.25" in text for text in audit(*found))


def cases_of(site: Path, part: str) -> tuple[str, dict[str, Any], int]:
    """Return the first file with a cell whose id has this part, and the place of the first of the cell's cases."""
    for path in sorted((site / "data" / "cells").glob("*.js")):
        value = Page(site).tables(f"cells/{path.stem}")
        for cell, detail in value["cells"].items():
            if part in cell:
                return f"cells/{path.stem}", value, detail["first"]
    raise AssertionError(part)


@pytest.mark.slow
def test_a_state_that_the_results_do_not_make_is_named(sites):
    site, sources, audit = sites
    name, value, _ = cases_of(site, "/reference/")
    passed, error = STATES.index("pass"), STATES.index("error")
    assert any(row["state"] == passed for row in value["cases"])
    value["cases"] = [{**row, "state": error} if row["state"] == passed else row for row in value["cases"]]
    Page(site).put_tables(name, value)
    assert any(": state: error is shown" in text for text in audit(*sources))


@pytest.mark.parametrize("key", ["cells", "cases", "stale_cases"])
def test_a_sum_is_held_to_all_cells(sites, key):
    site, _, audit = sites
    edit(site / "compat.json", rf'(\n  "{key}": )\d+', r"\g<1>4711")
    assert any(f"run.{key}: 4711 is shown" in text for text in audit(("cpu-llvm", "reference")))


def test_a_site_without_a_report_is_refused(sites):
    site, _, audit = sites
    (site / "compat.json").write_text('{"cells": []}')
    with pytest.raises(UserError, match="no report that can be audited"):
        audit(("cpu-llvm", "reference"))


def test_the_cells_are_read_one_by_one_as_they_are(sites):
    path = sites[0] / "compat.json"
    whole_text = json.loads(path.read_text())
    compat = Compat(path)
    assert list(compat.cells()) == whole_text["cells"]
    assert compat.rest == {**whole_text, "cells": []}


def test_a_document_that_is_written_cell_by_cell_has_the_form_of_the_whole(sites):
    text = (sites[0] / "compat.json").read_bytes()
    document = Document.model_validate_json(text)
    assert text == document.__pydantic_serializer__.to_json(document, indent=1) + b"\n"


def test_jobs_are_chosen_at_random_up_to_a_number_of_results():
    sources = {("p", f"t{n}"): Source((Path(f"{n}.xml"),), 900) for n in range(30)}
    samples = [job_sample.choose(sources, 27_000, f"{seed}") for seed in range(20)]
    assert all(sample.results == 1800 for sample in samples)
    assert len({tuple(sorted(sample.sources)) for sample in samples}) > 10
    assert all(all(".".join(place) in sample.note for place in sample.sources) for sample in samples)
    assert "Of 27,000 results 1,800 were read and counted a second time" in samples[0].note


def test_of_jobs_that_are_all_large_the_smallest_is_taken_and_else_none_is_audited_and_the_page_says_so():
    large = {("p", "a"): Source((), 9_000), ("p", "b"): Source((), 5_000)}
    assert [*job_sample.choose(large, 14_000, "").sources] == [("p", "b")]
    sample = job_sample.choose({("p", "a"): Source((), 90_000)}, 90_000, "")
    assert not sample.sources
    assert "were not computed a second time" in sample.note


def test_the_identity_of_few_runs_is_computed_anew_and_the_page_says_of_how_many_it_was_not():
    runs = range(100)
    samples = Samples(Bounds())
    assert {*samples._choose_checked(dict.fromkeys(runs, 500))} == {*runs}
    assert samples.note == ()
    chosen = [Samples(Bounds())._choose_checked(dict.fromkeys(runs, 1000)) for _ in range(10)]
    assert all(len(some) == 5 for some in chosen)
    assert len({frozenset(some) for some in chosen}) > 1
    samples._choose_checked(dict.fromkeys(runs, 1000))
    assert "Of 100 runs in tables 95 were not held to the digest in their names" in samples.note[0]
