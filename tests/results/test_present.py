"""A result counts as a present one only if the checkout, the locks, the versions and the clock agree with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from checkouts import ANOTHER, AtCommit
from common import ROOT
from judges import compare, judge, judge_each
from loops import at_least
from records import TRITON, case_of, compiled
from repositories import sh

from kernel_matrix import pipeline
from kernel_matrix.ci.loosened import since_commit
from kernel_matrix.config.file_readers import Concerned, concerned, readers_of
from kernel_matrix.config.plan import plan
from kernel_matrix.results.present import Pins, Present, present
from kernel_matrix.store.record import Record

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HEAD, OLD, STRANGE = "a" * 12, "b" * 12, "c" * 12
LOCK = "1" * 64


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


@pytest.fixture
def case(planned):
    return case_of(planned, TRITON)


@pytest.fixture
def measured(case, passing):
    """Make the record of a run on a commit, in an environment of the present lock."""

    def make(**job: str) -> Record:
        record = passing(case)
        facts = {"commit": HEAD, "started": "2026-05-01T11:00:00Z", "lock.sha256": LOCK, "version.triton": "3.6.0"}
        return replace(record, job={**record.job, **facts, **{name.replace("_", "."): v for name, v in job.items()}})

    return make


def here(**changes) -> Present:
    pins = {"triton-3.7": Pins("locks/triton.txt", LOCK, ("triton==3.6.*",))}
    return replace(Present(NOW, AtCommit(HEAD), pins), **changes)


# By what a result says of its job: why it is stale.
STALE = {
    (): "",
    ("commit", OLD): ANOTHER,
    ("lock_sha256", "2" * 64): "it was measured with another locks/triton.txt (sha256 222222222222)",
    ("version_triton", "3.5.1"): "its versions do not meet triton==3.6.*",
    ("started", "2099-01-01T00:00:00Z"): "it started at 2099-01-01T00:00:00Z, which is in the future",
    ("started", "tomorrow"): "its start time 'tomorrow' cannot be read",
    ("started", (NOW + timedelta(minutes=5)).isoformat()): "",  # clocks may differ by some minutes
}


@pytest.mark.slow
def test_what_differs_from_the_present_makes_a_result_stale_and_is_said(case, measured):
    results = {" ".join(job): [measured(**dict([job] if job else []))] for job in STALE}
    found = judge_each(
        case, {**results, "nothing": [Record(case.id, "unavailable", message="no device")]}, present=here()
    )
    assert found.pop("nothing").stale == "", "what was not measured is not stale"
    told = {name: (verdict.state, verdict.evidence, verdict.stale) for name, verdict in found.items()}
    assert told == {" ".join(job): ("pass", "ran", reason) for job, reason in STALE.items()}


def test_nobody_asks_for_the_versions_of_an_environment_that_could_not_be_made(case, measured):
    bare = {name: value for name, value in measured().job.items() if name != "version.triton"} | {
        "version.mhc": "0.1.0"
    }

    def error(stage: str, **job: str) -> list[Record]:
        return [Record(case.id, "error", "run", stage, "no network", job=bare | job)]

    results = {
        "not made": error("install"),
        "not made of another lock": error("install", **{"lock.sha256": "2" * 64}),
        "made": error("launch"),
    }
    found = judge_each(case, results, present=here())
    assert {name: verdict.stale for name, verdict in found.items()} == {
        "not made": "",
        "not made of another lock": STALE["lock_sha256", "2" * 64],
        "made": "its versions do not meet triton==3.6.*",
    }


@pytest.mark.slow
def test_a_toolchain_with_a_lock_of_its_own_on_a_platform_is_held_to_that_one(case, measured):
    place = (case.cell.platform, case.cell.toolchain)
    own = here(entries={place: Pins("locks/triton-here.txt", "2" * 64, ("triton==3.6.*",))})
    reason = f"it was measured with another locks/triton-here.txt (sha256 {LOCK[:12]})"
    found = judge_each(case, {"the general": [measured()], "own": [measured(lock_sha256="2" * 64)]}, present=own)
    assert {name: verdict.stale for name, verdict in found.items()} == {"the general": reason, "own": ""}
    elsewhere = here(entries={("webgpu", case.cell.toolchain): own.entries[place]})
    assert judge(case, [measured()], elsewhere).stale == "", "another platform's lock does not concern it"


@pytest.mark.slow
def test_a_stale_record_decides_only_where_it_tried_more_than_the_present_ones(case, measured):
    wrong = replace(measured(commit=OLD), outcome="fail", message="x")
    assert judge(case, [wrong, measured()], here()).state == "pass", "of equals the present one decides"
    now = replace(compiled(case), job=measured().job)
    verdict = judge(case, [measured(commit=OLD), now], here())
    assert (verdict.state, bool(verdict.stale)) == ("pass", True)
    broken = Record(case.id, "error", "compile", "compile", "no", job=measured().job)
    assert judge(case, [measured(commit=OLD), broken], here()).state == "error", "no old success hides a present error"


def of_all_cells(planned, passing, digests):
    """Make a passing record of one case in every cell of its operator, with these inputs in turn."""
    first = case_of(planned, TRITON)
    cases = [c for c in planned.cases if (c.cell.op, c.cell.direction, c.name, c.exclusion, c.expectations) ==
             (first.cell.op, first.cell.direction, first.name, None, ()) and c.cell.action != "compile"]  # fmt: skip
    digests = [*digests, *[digests[-1]] * (len(cases) - len(digests))]
    return [replace(passing(c), facts={"inputs.sha256": digest}) for c, digest in zip(cases, digests, strict=True)]


def verdict_of(comparison, record):
    return next(v for cell in comparison.cells for v in cell.cases if v.case.id == record.case)


@pytest.mark.slow
def test_other_inputs_than_most_results_of_the_case_have_are_refused(planned, passing):
    records = of_all_cells(planned, passing, ["odd", "even"])
    comparison = compare(planned, records)
    refused = verdict_of(comparison, records[0])
    assert (refused.state, refused.evidence) == ("missing", "planned")
    assert refused.reason == "refused: other inputs (odd) than most results of the same case have (even)"
    assert verdict_of(comparison, records[1]).state == "pass"
    assert Counter(v.state for c in comparison.cells for v in c.cases)["pass"] == len(records) - 1


@pytest.mark.slow
def test_where_two_inputs_are_equally_frequent_none_is_taken(planned, passing):
    records = of_all_cells(planned, passing, ["odd", "even"])[:2]
    comparison = compare(planned, records)
    for record in records:
        assert verdict_of(comparison, record).state == "missing"
        assert "than as many other results of the same case have" in verdict_of(comparison, record).reason


@pytest.mark.slow
def test_another_machine_s_result_with_the_common_inputs_still_counts(planned, passing):
    records = of_all_cells(planned, passing, ["even"])
    other = replace(records[0], outcome="fail", message="wrong", facts={"inputs.sha256": "odd"})
    assert verdict_of(compare(planned, [other, *records]), other).state == "pass"


@pytest.mark.slow
def test_the_present_s_inputs_are_not_outvoted_by_stale_ones(planned, passing):
    records = of_all_cells(planned, passing, ["new", "old"])
    records = [replace(r, job={**r.job, "commit": HEAD if r.facts["inputs.sha256"] == "new" else STRANGE})
               for r in records]  # fmt: skip
    comparison = compare(planned, records, here(toolchains={}))
    assert verdict_of(comparison, records[0]).state == "pass"
    assert verdict_of(comparison, records[1]).state == "missing"


def test_a_new_vendor_concerns_its_own_platforms_alone(doubles):
    folder = "src/kernel_matrix/vendors"
    assert concerned(doubles.matrix, [f"{folder}/apple.py"]) == Concerned()
    assert concerned(doubles.matrix, [f"{folder}/cpu.py"]) == Concerned(platforms={"here": f"{folder}/cpu.py"})
    for name in ("vendor", "registry", "system", "a_vendor_that_is_gone"):
        path = f"{folder}/{name}.py"
        assert concerned(doubles.matrix, [path]) == Concerned(everything=path), "it may decide which cases run"
        assert readers_of(doubles.matrix, path) is None, "and no number depends on it"


def test_an_image_of_two_platforms_concerns_both(doubles):
    here = doubles.matrix.platforms["here"].model_copy(update={"container": "containers/one/Dockerfile"})
    other = here.model_copy(update={"container": "containers/two/Dockerfile"})
    matrix = doubles.matrix.model_copy(update={"platforms": {"a": here, "b": here, "c": other}})
    path = "containers/one/Dockerfile"
    assert concerned(matrix, [path]) == Concerned(platforms={"a": path, "b": path})


@pytest.mark.slow
def test_what_became_looser_is_read_from_a_matrix_of_another_name(repository):
    path = (repository / "matrix.yaml").rename(repository / "mine.yaml")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    path.write_text(path.read_text().replace("limit: 1.0e-2", "limit: 2.0e-2"))
    project = pipeline.load(path)
    [limit] = [loosening for loosening in since_commit(project, "HEAD") if "caps" in loosening.place]
    assert (limit.before, limit.after) == ("0.01", "0.02")


def test_the_lock_of_an_entry_concerns_that_entry_alone(matrix):
    of_entry = concerned(matrix, ["ci/locks/tvm-0.27-webgpu.in", "ci/locks/tilelang-0.1.15-webgpu.cpu.txt"])
    assert (of_entry.toolchains, of_entry.platforms, of_entry.everything) == ({}, {}, "")
    assert of_entry.file_for("webgpu", "tvm-0.27") == "ci/locks/tvm-0.27-webgpu.in"
    assert of_entry.file_for("webgpu", "tilelang-0.1.15") == "ci/locks/tilelang-0.1.15-webgpu.cpu.txt"
    assert of_entry.file_for("cpu-llvm", "tvm-0.27") == of_entry.file_for("webgpu", "tilelang-0.1.8") == ""


def test_the_present_has_the_locks_of_entries(matrix):
    now = present(matrix, ROOT)
    digests = {
        path.name: sha256(path.read_bytes()).hexdigest() for path in at_least(25, (ROOT / "ci" / "locks").glob("*.txt"))
    }
    of_tvm = "ci/locks/tvm-0.27-webgpu.txt", digests["tvm-0.27-webgpu.cpu.txt"], ("apache-tvm==0.27.*",)
    assert now.entries["webgpu", "tvm-0.27"] == Pins(*of_tvm)
    of_torch = "ci/locks/torch-2.13.txt", digests["torch-2.13.cpu.txt"], now.toolchains["reference"].requires
    assert now.entries["rocm", "reference"] == Pins(*of_torch, digests["torch-2.13.rocm.txt"])
    assert now.entries["metax", "reference"].sha256 == "", "no lock has its vendor's builds"
