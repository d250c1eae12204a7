"""A change runs what it concerns and the sentinels, or everything if nobody can tell what it concerns."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest
from common import ROOT

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.git import changed_files
from kernel_matrix.ci.event_plan import make_row_plan
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.config.selection import sampled
from kernel_matrix.machines.row_plan import choose, is_sentinel


@pytest.fixture(scope="module")
def jobs(matrix):
    return plan(matrix, "quick").jobs


def whole(matrix, jobs, chosen) -> set[str]:
    """Return the toolchains that have all their cases."""
    sizes = Counter(case.cell.toolchain for job in jobs for case in job.cases)
    left = Counter(case.cell.toolchain for job in chosen for case in job.cases)
    return {toolchain for toolchain in sizes if left[toolchain] == sizes[toolchain]}


@pytest.mark.parametrize(
    ("path", "toolchains"),
    [
        ("src/mhc/backends/triton/mhc_pre.py", {"triton-3.7", "fastest"}),
        ("src/mhc/backends/tilelang/sinkhorn.py", {"tilelang-0.1.8", "tilelang-0.1.15"}),
        ("ci/locks/tvm-0.27.cpu.txt", {"tvm-0.27", "tvm-0.27-searched"}),
        ("ci/locks/tilelang-0.1.15.in", {"tilelang-0.1.15", "tilelang-ascend-0.1.15"}),
        ("README.md", set()),
        ("docs/runners.md", set()),
        ("tests/config/test_plan.py", set()),
        ("src/mhc/jax.py", set()),  # ci.unread
        ("a-file-that-is-new", set()),
        ("src/kernel_matrix/report/sentences.py", set()),
    ],
)
def test_a_change_in_one_place_runs_what_it_concerns_and_the_sentinels(matrix, jobs, path, toolchains):
    chosen, reasons = choose(matrix, jobs, [path])
    assert whole(matrix, jobs, chosen) == toolchains
    rest = [case.cell.id for job in chosen if job.toolchain not in toolchains for case in job.cases]
    assert rest
    assert all(is_sentinel(matrix, cell) for cell in rest)
    assert set(reasons.values()) <= {f"{path} was changed", "a sentinel, which runs whatever has changed"}
    assert reasons.keys() == {job.id for job in chosen}


@pytest.mark.parametrize(
    "path",
    [
        "src/kernel_matrix/config/plan.py",
        "src/kernel_matrix/run/progress.py",
        "src/kernel_matrix/job/comparison.py",
        "ci/preflight.py",
        "src/mhc/ops/sinkhorn.py",
        "src/mhc/functional.py",
        "src/mhc/backends/shared.py",
        "src/mhc/backends/nobody_s/kernel.py",
        "tests/mhc/test_forward.py",
        "matrix.yaml",
    ],
)
def test_a_change_that_may_concern_all_runs_all(matrix, jobs, path):
    chosen, reasons = choose(matrix, jobs, ["README.md", path])
    assert chosen == [*jobs]
    assert set(reasons.values()) == {f"{path} was changed"}


def test_no_change_still_runs_the_sentinels(matrix, jobs):
    cells = {case.cell.id for job in choose(matrix, jobs, [])[0] for case in job.cases}
    assert "cpu-llvm/x86-64-v3/reference/mhc_pre.forward" in cells
    assert "rocm/gfx942/triton-3.7/mhc_pre.forward" in cells
    assert all(is_sentinel(matrix, cell) for cell in cells)


def test_a_toolchain_that_an_event_leaves_out_runs_when_its_lock_changes(matrix):
    planned = plan(matrix, "quick")
    for path, there in (("README.md", False), ("ci/locks/tilelang-0.1.8.rocm.txt", True)):
        made = make_row_plan(matrix, planned, event="pull_request", paths=[path])
        assert ("tilelang-0.1.8" in {job.toolchain for job in made.jobs}) is there


@pytest.mark.slow
def test_a_sentinel_that_is_no_cell_is_bad_input(tmp_path):
    for name in ("src", "tests", "ci", "containers", "probes", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(text.replace("*/*/triton-3.7/mhc_pre.forward", "*/*/tritn/*"))
    with pytest.raises(UserError, match=r"matrix.yaml:\d+: ci.sentinels\[1\]: no cell is called '\*/\*/tritn/\*'"):
        load(tmp_path / "matrix.yaml")


@pytest.fixture
def checkout(tmp_path):
    """Make a repository with a branch that has committed, moved, changed and added files since it left main."""
    if not shutil.which("git"):
        pytest.fail("these tests need git")

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("kept", "moved", "edited"):
        (tmp_path / name).write_text(f"{name}\n" * 20)
    git("add", ".")
    git("commit", "-m", "one")
    git("switch", "-c", "branch")
    git("mv", "moved", "elsewhere")
    git("commit", "-m", "two")
    git("switch", "main")
    (tmp_path / "of main").write_text("later\n")
    git("add", ".")
    git("commit", "-m", "three")
    git("switch", "branch")
    (tmp_path / "edited").write_text("changed\n")
    (tmp_path / "a new\nfile").write_text("new\n")
    return tmp_path


def test_what_changed_is_counted_from_where_the_branch_left(checkout):
    assert changed_files(checkout, "main") == ["a new\nfile", "edited", "elsewhere", "moved"]


def test_a_reference_that_git_does_not_know_is_bad_input(checkout):
    with pytest.raises(UserError, match=r"--changed-since nowhere: git merge-base: .*git fetch origin nowhere"):
        changed_files(checkout, "nowhere")
    with pytest.raises(UserError, match="--changed-since --output=x"):
        changed_files(checkout, "--output=x")
    assert not (checkout / "x").exists()


def names_of(job) -> set[tuple[str, str, str]]:
    return {(case.cell.op, case.cell.direction, case.name) for case in job.cases}


@pytest.mark.parametrize("count", [1, 5, 12, 100, 10**6])
def test_a_sample_has_so_many_names_of_each_job_spread_over_all_its_operators(jobs, count):
    made = sampled(jobs, count)
    assert [job.id for job in made] == [job.id for job in jobs]
    for job, whole_job in zip(made, jobs, strict=True):
        names, of_job = names_of(job), names_of(whole_job)
        assert names <= of_job
        assert len(names) == min(count, len(of_job))
        ops = {name[:2] for name in of_job}
        assert len({name[:2] for name in names}) == min(count, len(ops))
        kept = [case for case in whole_job.cases if (case.cell.op, case.cell.direction, case.name) in names]
        assert list(job.cases) == kept, "a name is taken on all targets"


def test_a_sample_is_spread_over_the_names_of_an_operator_and_is_the_same_each_time(jobs):
    job = max(jobs, key=lambda job: len(names_of(job)))
    [once], [twice] = sampled([job], 8), sampled([job], 8)
    assert once == twice
    op = once.cases[0].cell.op
    every = [name for of_op, _, name in sorted(names_of(job)) if of_op == op]
    assert len(every) > 2
    [all_but_one] = sampled([job], len(names_of(job)) - 1)
    assert len(names_of(all_but_one)) == len(names_of(job)) - 1
