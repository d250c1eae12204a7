"""A result counts as a present one only if the checkout, the locks, the versions and the clock agree with it."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import ROOT
from judges import compare, judge, judge_each, judged_files
from ruamel.yaml import YAML
from test_compare import TRITON, case_of, compiled

from kernel_matrix import pipeline
from kernel_matrix.base import git
from kernel_matrix.config import load as loading
from kernel_matrix.config.concern import Concerned, concerned, read_by_results
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import plan
from kernel_matrix.results.present import Pins, Present, present
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record
from kernel_matrix_ci.loosened import since_commit

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
    known = {HEAD: Concerned(), OLD: Concerned(toolchains={"triton-3.6": "kernels/triton/a.py"}), STRANGE: None}
    pins = {"triton-3.6": Pins("locks/triton.txt", LOCK, ("triton==3.6.*",))}
    return replace(Present(NOW, HEAD, True, pins, known), **changes)


# By what a result says of its job: why it is stale.
STALE = {
    (): "",
    ("commit", OLD): f"kernels/triton/a.py was changed since commit {OLD}",
    ("commit", STRANGE): f"commit {STRANGE} is not in this checkout",
    ("commit", ""): "it names no commit",
    ("commit", f"{HEAD}+changes"): f"it is of commit {HEAD} with changes that are in no commit",
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
def test_a_change_that_does_not_concern_the_toolchain_makes_nothing_stale(case, measured):
    other = here(changed={OLD: Concerned(toolchains={"inductor": "kernels/inductor/a.py"}, platforms={"rocm": "x"})})
    assert judge(case, [measured(commit=OLD)], other).stale == ""
    everything = here(changed={OLD: Concerned(everything="matrix.yaml")})
    assert judge(case, [measured(commit=OLD)], everything).stale == f"matrix.yaml was changed since commit {OLD}"


@pytest.mark.slow
def test_a_working_tree_with_changes_agrees_with_what_was_measured_in_it(case, measured):
    changed = f"{HEAD}+changes"
    assert judge(case, [measured(commit=changed)], here(commit=changed)).stale == ""


@pytest.mark.slow
def test_a_copy_without_history_knows_its_own_commit_only(case, measured):
    copy = here(commit=HEAD + "0" * 28, is_checkout=False, changed={})
    found = judge_each(case, {"own": [measured()], "old": [measured(commit=OLD)]}, present=copy)
    assert found["own"].stale == "", "a shortened name is the same commit"
    assert "this is aaaaaaaaaaaa, without its history" in found["old"].stale


@pytest.mark.slow
def test_outside_a_checkout_nothing_is_known_of_commits_and_that_is_said(planned, case, measured):
    nowhere = here(commit="", is_checkout=False, changed={})
    comparison = compare(planned, [measured(commit=STRANGE)], nowhere)
    assert not any(cell.stale for cell in comparison.cells)
    assert comparison.notes == ("This is no git checkout: whether a result is of another commit is not known.",)


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


def sh(root: Path, *command: str) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(doubles, monkeypatch) -> Path:
    """Make the doubles a git repository with one commit."""
    monkeypatch.delenv("KERNEL_MATRIX_COMMIT", raising=False)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@example.org")
    sh(doubles.root, "git", "init", "-q")
    sh(doubles.root, "git", "add", "-A")
    sh(doubles.root, "git", "commit", "-qm", "one")
    return doubles.root


def test_a_checkout_knows_what_was_changed_since_each_commit_of_the_records(repository, doubles, monkeypatch):
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    (repository / "README.md").write_text("text\n")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    (repository / "src/new.py").write_text("")
    asked = []
    real = git.changed_since
    monkeypatch.setattr(git, "changed_since", lambda root, commit: asked.append(commit) or real(root, commit))
    records = [Record("a", "pass", job={"commit": commit}) for commit in (first, f"{first}+changes", STRANGE) * 3]
    made = present(doubles.matrix, repository, [*records, Record("a", "pass", job={"commit": "--output=x"})])
    assert made.is_checkout
    assert asked == [], "git is asked for a commit when a result of it is stale"
    assert made.commit.endswith("+changes")
    assert made.changed[first] == Concerned(everything="src/new.py"), "README.md concerns nobody"
    assert made.changed[STRANGE] is None
    assert made.changed["--output=x"] is None, "the name of a commit is never an option"
    assert sorted(asked) == sorted({first, STRANGE, "--output=x"}), "git is asked once for each commit"
    without = present(doubles.matrix, repository, records, [repository / "src/new.py"])
    assert without.changed[first] == Concerned(), "a result file is no change of the source"
    assert {pins.sha256 for pins in made.toolchains.values()} == {
        sha256((repository / "lock.txt").read_bytes()).hexdigest()
    }


def since(repository: Path, doubles) -> Concerned:
    """Return whom the changes since the first commit concern."""
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    return present(load_text(doubles), repository, [Record("a", "pass", job={"commit": first})]).changed[first]


def load_text(doubles):
    """Return the matrix without the checks of its files and names."""
    return Matrix.model_validate(YAML(typ="safe").load((doubles.root / "matrix.yaml").read_text()))


CODE = '''"""Scale."""
LIMIT = 3  # tokens


def scale(x):
    """Return x twice."""
    return 2 * x
'''


@pytest.mark.parametrize(
    ("old", "new", "concerns"),
    [
        ("  # tokens", "", False),
        ("Return x twice.", "Return the double of x.\n\n    It is new.\n    ", False),
        ('"""Scale."""\n', "", False),
        ("\n\n\ndef", "\ndef", False),
        ("2 * x", "3 * x", True),
        ("LIMIT = 3", 'LIMIT = 3\n"""A text that is no docstring."""', True),
        ("return 2", "return (2", True),  # no Python
    ],
)
def test_comments_and_docstrings_of_a_python_file_make_nothing_stale(repository, doubles, old, new, concerns):
    path = repository / "src/shared.py"
    path.write_text(CODE)
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    assert old in CODE
    path.write_text(CODE.replace(old, new))
    assert since(repository, doubles) == Concerned(everything="src/shared.py" if concerns else "")


def test_a_python_file_that_is_no_utf_8_is_compared_byte_by_byte(repository, doubles):
    path = repository / "src/shared.py"
    path.write_bytes(b"# coding: latin-1\nNAME = '\xe9'\n")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    assert since(repository, doubles) == Concerned()
    path.write_bytes(b"# coding: latin-1\nNAME = '\xe8'\n")  # another character, which UTF-8 cannot tell from the first
    assert since(repository, doubles) == Concerned(everything="src/shared.py")


def test_a_docstring_beside_what_no_job_reads_of_the_matrix_makes_nothing_stale(repository, doubles):
    path = repository / "src/shared.py"  # its name comes after matrix.yaml
    path.write_text(CODE)
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    path.write_text(CODE.replace("Return x twice.", "Return the double of x."))
    doubles.edit("title: this machine", "title: another title")
    changed = since(repository, doubles)
    assert [changed.file_for("here", name) for name in ("good", "wrong")] == ["", ""]


def test_a_python_file_that_is_gone_or_new_concerns_whom_it_did(repository, doubles):
    (repository / "src/gone.py").write_text("# a comment\n")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    (repository / "src/gone.py").unlink()
    assert since(repository, doubles) == Concerned(everything="src/gone.py")
    sh(repository, "git", "checkout", "-q", ".")
    (repository / "src/new.py").write_text("# a comment\n")
    assert since(repository, doubles) == Concerned(everything="src/new.py")


NEW_PLATFORM = (
    "  there: { title: a new one, device: apple, runner: [macos], targets: [a, b], toolchains: [new, good] }\nops:"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  here:\n", "  here:\n    machines: []\n"),
        ("title: this machine", "title: another title"),
        ("runner: [linux]", "runner: [self-hosted, linux]"),
        ("targets: [any]", "targets: [any, new]"),
        ("tokens: [1, 2, 3]", "tokens: [1, 2, 3, 4]"),
        ("ops:\n", "ops:\n  half: { directions: [forward], axes: [tokens], cases: { quick: [{ tokens: 1 }] } }\n"),
        ("axes: [tokens]", "axes: [tokens]\n    outputs: { forward: [out] }"),
        ("ops:", NEW_PLATFORM),
        ("  good: {", "  new: { backend: new, lock: new.txt, requires: [numpy] }\n  good: {"),
        ("toolchains: [good,", "toolchains: [new, { toolchain: good, needs: { g++: planned } },"),
        ("requires: [numpy] }", "requires: ['numpy>=1'] }"),
        ("source: chosen for the tests of the harness", "source: measured on a Tuesday with care"),
        ("baseline: plain NumPy", "baseline: plain and simple NumPy"),
        ("limits:", "ci: { silent_days: 3 }\nlimits:"),
    ],
)
def test_what_no_job_reads_of_the_matrix_makes_no_result_stale(repository, doubles, old, new):
    doubles.edit(old, new)
    changed = since(repository, doubles)
    assert [changed.file_for("here", name) for name in ("good", "wrong")] == ["", ""]


@pytest.mark.parametrize(
    ("old", "new", "good", "wrong"),
    [
        ("  good: { backend: good,", "  good: { backend: wrong,", "toolchains.good", ""),
        ("  good: { backend: good,", "  good: { ahead_of_time: true, backend: good,", "toolchains.good", ""),
        ("toolchains: [good,", "toolchains: [{ toolchain: good, emulated: true },", "platforms.here.toolchains", ""),
        ("toolchains: [good,", "toolchains: [{ toolchain: good, environment: { A: b } },",
         "platforms.here.toolchains", ""),
        ("device: cpu", "device: software", "platforms.here", "platforms.here"),
        ("device: cpu", "device: cpu\n    driver: '580'", "platforms.here", "platforms.here"),
        ("limit: 1.0e-2", "limit: 2.0e-2", "accuracy", "accuracy"),
        ("job: 120", "job: 121", "limits", "limits"),
        ("suite: suite", "suite: suites", "package", "package"),
        ("limits:", "container: { memory: 9 }\nlimits:", "container", "container"),
        ("limits:", "installer: { builds_of: numpy }\nlimits:", "installer", "installer"),
        ("axes: [tokens]", "axes: [size]\n    defaults: { size: 1 }", "ops.double.axes", "ops.double.axes"),
    ],
)  # fmt: skip
def test_what_a_job_reads_of_the_matrix_makes_its_results_stale_and_is_named(
    repository, doubles, old, new, good, wrong
):
    doubles.edit(old, new)
    changed = since(repository, doubles)
    parts = [f"matrix.yaml ({part})" if part else "" for part in (good, wrong)]
    assert [changed.file_for("here", name) for name in ("good", "wrong")] == parts


@pytest.mark.parametrize("edit", [lambda text: f"{text}\nnew: section\n", lambda text: f"{text}\n  : [\n"])
def test_an_unknown_section_or_a_text_that_cannot_be_read_makes_everything_stale(repository, doubles, edit):
    matrix = doubles.matrix
    path = repository / "matrix.yaml"
    path.write_text(edit(path.read_text()))
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    changed = present(matrix, repository, [Record("a", "pass", job={"commit": first})]).changed[first]
    assert changed.everything.startswith("matrix.yaml")


def test_a_new_vendor_concerns_its_own_platforms_alone(doubles):
    folder = "src/kernel_matrix/vendors"
    assert concerned(doubles.matrix, [f"{folder}/apple.py"]) == Concerned()
    assert concerned(doubles.matrix, [f"{folder}/cpu.py"]) == Concerned(platforms={"here": f"{folder}/cpu.py"})
    for name in ("vendor", "registry", "system", "a_vendor_that_is_gone"):
        path = f"{folder}/{name}.py"
        assert concerned(doubles.matrix, [path]) == Concerned(everything=path), "it may decide which cases run"
        assert read_by_results(doubles.matrix, [path]) == Concerned(), "and no number depends on it"


def test_an_image_of_two_platforms_concerns_both(doubles):
    here = doubles.matrix.platforms["here"].model_copy(update={"container": "containers/one/Dockerfile"})
    other = here.model_copy(update={"container": "containers/two/Dockerfile"})
    matrix = doubles.matrix.model_copy(update={"platforms": {"a": here, "b": here, "c": other}})
    path = "containers/one/Dockerfile"
    assert concerned(matrix, [path]) == Concerned(platforms={"a": path, "b": path})


@pytest.mark.parametrize(
    ("executor", "is_stale"), [("venv", False), ("current", False), ("container", True), ("", True)]
)
def test_a_file_that_only_images_are_made_from_concerns_results_of_containers(repository, doubles, executor, is_stale):
    doubles.edit("device: cpu", "device: cpu\n    container: containers/here/Dockerfile")
    first = committed(repository)
    (repository / "containers" / "here" / "Dockerfile").write_text("FROM scratch\n")
    committed(repository)
    record = Record("a", "pass", job={"commit": first, "executor": executor, "started": "2026-05-01T11:00:00Z"})
    made = present(doubles.matrix, repository, [record], now=NOW)
    found = "containers/here/Dockerfile was changed since commit" in made.stale("here", "good", record)
    assert found == is_stale
    (repository / "src" / "shared.py").write_text("LIMIT = 4\n")
    committed(repository)
    assert "was changed since commit" in present(doubles.matrix, repository, [record], now=NOW).stale(
        "here", "good", record
    )


def committed(repository: Path) -> str:
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "one more")
    return sh(repository, "git", "rev-parse", "--short=12", "HEAD")


def test_the_matrix_may_have_another_name(repository, doubles):
    (repository / "matrix.yaml").rename(repository / "mine.yaml")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    records = [Record("a", "pass", job={"commit": first})]
    path = repository / "mine.yaml"
    matrix = loading.load(path)
    path.write_text(path.read_text().replace("title: this machine", "title: another"))
    assert present(matrix, repository, records, name=path.name).changed[first] == Concerned()
    path.write_text(path.read_text().replace("limit: 1.0e-2", "limit: 2.0e-2"))
    changed = present(matrix, repository, records, name=path.name).changed[first]
    assert changed == Concerned(everything="mine.yaml (accuracy)")


@pytest.mark.slow
def test_a_pipeline_compares_by_the_matrix_of_another_name(repository, doubles):
    (repository / "matrix.yaml").rename(repository / "mine.yaml")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    files = doubles_results(repository, pipeline.load(repository / "mine.yaml"))
    path = repository / "mine.yaml"
    path.write_text(path.read_text().replace("title: this machine", "title: another"))
    project = pipeline.load(path)
    comparison = judged_files(project, pipeline.plan(project, "quick"), [files])
    assert not any(cell.stale for cell in comparison.cells)
    path.write_text(path.read_text().replace("limit: 1.0e-2", "limit: 2.0e-2"))
    project = pipeline.load(path)
    comparison = judged_files(project, pipeline.plan(project, "quick"), [files])
    assert any("mine.yaml (accuracy) was changed" in cell.stale for cell in comparison.cells)
    [limit] = [loosening for loosening in since_commit(project, "HEAD") if "caps" in loosening.place]
    assert (limit.before, limit.after) == ("0.01", "0.02")


def doubles_results(repository: Path, project) -> Path:
    """Write a result of the toolchain ``good`` on the present commit, and return its folder."""
    planned = pipeline.plan(project, "quick")
    job = next(job for job in planned.jobs if job.toolchain == "good")
    facts = {
        "platform": job.platform,
        "toolchain": job.toolchain,
        "commit": git.commit(repository),
        "started": "2026-05-01T11:00:00Z",
        "version.numpy": "2.0",
        "device.vendor": "cpu",
        "device.targets": "any",
        "lock.sha256": sha256((repository / "lock.txt").read_bytes()).hexdigest(),
    }
    records = [Record(case.id, "error", "run", "launch", "x") for case in job.cases]
    folder = repository / "build" / "results"
    folder.mkdir(parents=True)
    junit.write(folder / f"{job.id}.xml", job.id, records, facts)
    return folder


def test_a_matrix_of_a_commit_beside_this_branch_is_compared_and_not_that_where_it_left(repository, doubles):
    """A result of a branch with other limits is stale here, where they are as they were before the branch."""
    main = sh(repository, "git", "rev-parse", "--abbrev-ref", "HEAD")
    matrix = doubles.matrix
    sh(repository, "git", "switch", "-qc", "branch")
    doubles.edit("limit: 1.0e-2", "limit: 2.0e-2")
    sh(repository, "git", "commit", "-qam", "other limits")
    there = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    sh(repository, "git", "switch", "-q", main)
    changed = present(matrix, repository, [Record("a", "pass", job={"commit": there})]).changed[there]
    assert changed == Concerned(everything="matrix.yaml (accuracy)")


def test_paths_are_those_below_the_matrix_in_a_larger_repository(repository, doubles):
    inner = repository / "inner"
    inner.mkdir()
    (inner / "new.py").write_text("")
    (repository / "outer.py").write_text("")
    assert git.changed_since(inner, sh(repository, "git", "rev-parse", "HEAD")) == ["new.py"]


def test_outside_git_the_present_has_no_commit(doubles, monkeypatch):
    monkeypatch.delenv("KERNEL_MATRIX_COMMIT", raising=False)
    made = present(doubles.matrix, doubles.root, [Record("a", "pass", job={"commit": OLD})])
    assert (made.commit, made.is_checkout, dict(made.changed)) == ("", False, {})
    assert made.note


def test_the_lock_of_an_entry_concerns_that_entry_alone(matrix):
    of_entry = concerned(matrix, ["ci/locks/tvm-0.27-webgpu.in", "ci/locks/tilelang-0.1.15-webgpu.txt"])
    assert (of_entry.toolchains, of_entry.platforms, of_entry.everything) == ({}, {}, "")
    assert of_entry.file_for("webgpu", "tvm-0.27") == "ci/locks/tvm-0.27-webgpu.in"
    assert of_entry.file_for("webgpu", "tilelang-0.1.15") == "ci/locks/tilelang-0.1.15-webgpu.txt"
    assert of_entry.file_for("cpu-llvm", "tvm-0.27") == of_entry.file_for("webgpu", "tilelang-0.1.8") == ""


def test_the_present_has_the_locks_of_entries(matrix):
    now = present(matrix, ROOT, ())
    lock = ROOT / "ci" / "locks" / "tvm-0.27-webgpu.txt"
    digest = sha256(lock.read_bytes()).hexdigest()
    assert now.entries["webgpu", "tvm-0.27"] == Pins(str(lock.relative_to(ROOT)), digest, ("apache-tvm==0.27.*",))
    assert ("cpu-llvm", "tvm-0.27") not in now.entries
