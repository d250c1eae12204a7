"""The rows of a suite: planned where nothing is known of its tests, run apart, and brought together by their tables."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from common import harness, records_in
from suites import MATRIX, Suite
from together import by_day

from kernel_matrix.vendors.machine import detect

TARGET = detect().devices[0].targets[-1]
TESTS = {
    "tests/test_a.py": "import os\n\ndef test_one(): pass\n\ndef test_two(): assert os.environ['N'] == '1'\n",
    "tests/test_b.py": "import os\nimport pytest\n\n@pytest.mark.parametrize('n', range(int(os.environ['N'])))\n"
    "def test_n(n): pass\n",
}
TWO = (
    MATRIX.replace("  plain: { lock: lock.txt }\n", "  one: { lock: lock.txt }\n  two: { lock: lock.txt }\n")
    .replace("[plain]", "[{toolchain: one, environment: {N: '1'}}, {toolchain: two, environment: {N: '2'}}]")
    .replace("[any]", f"[{TARGET}]")
)
ONE, OTHER = "here.one", "here.two"


def planned(folder: Path, files=None, matrix: str = TWO) -> tuple[Path, Path]:
    """Return a matrix.yaml, and the file of its rows, which were planned in a fresh clone."""
    suite = Suite.made(folder / "package", TESTS if files is None else files, matrix)
    file, rows = suite.root / "matrix.yaml", folder / "plan.json"
    made = harness(
        "ci", "plan", "--matrix", str(file), "--build", str(folder / "b"), "--tier", "full", "--write", str(rows)
    )
    assert made.returncode == 0, made.stderr
    return file, rows


def words_of(file: Path, rows: Path, row: str, build: Path) -> tuple[str, ...]:
    """Return the words that run a row."""
    words = ("--matrix", str(file), "--build", str(build), "--plan", str(rows), "--row", row)
    return ("run", "--platform", "here", "--executor", "current", *words)


def run_row(file: Path, rows: Path, row: str, build: Path, *more: str):
    """Run a row as its machine does."""
    return harness(*words_of(file, rows, row, build), *more)


def sent(build: Path, row: str, into: Path) -> None:
    """Copy what a CI service takes from a machine: tables and journals, and nothing else."""
    for path in [*build.glob("results/*/*.parquet"), *build.glob("results/*/*.jsonl")]:
        target = into / f"results-{row}" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def report(file: Path, rows: Path, build: Path, results: Path) -> tuple[int, dict[str, str], str]:
    """Make the report of rows; return its status, the states of the cases by id, and what it printed."""
    shown = harness("report", "--matrix", str(file), "--build", str(build), "--plan", str(rows), str(results))
    document = json.loads((build / "site" / "compat.json").read_text())
    states = {cell["id"]: cell["state"] for cell in document["cells"]}
    return shown.returncode, states, f"{shown.stdout}{shown.stderr}"


_ROW = """
import json, resource, sys
from kernel_matrix.cli import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([status, used.ru_utime + used.ru_stime, [*sys.modules]]))
"""
# What judges, makes tables, computes or draws: each takes longer to import than all else of a row takes.
_LONG = ("duckdb", "pyarrow", "numpy", "ml_dtypes", "rich", "docker")
_LONG += ("kernel_matrix.judg", "kernel_matrix.report", "kernel_matrix.audit", "kernel_matrix.kit")


def test_a_row_that_passed_imports_and_takes_little_beside_pytest(tmp_path):
    file, rows = planned(tmp_path)
    words = words_of(file, rows, ONE, tmp_path / "b")
    done = subprocess.run([sys.executable, "-c", _ROW, *words, "--gathered"], capture_output=True, text=True)
    status, seconds, modules = json.loads(done.stdout.splitlines()[-1])
    assert (status, "3 cases: all passed; the report judges them" in done.stdout) == (0, True), done.stdout
    assert not [name for name in modules if name.startswith(_LONG)]
    assert len(modules) < 500
    assert seconds < 1.5  # of CPU; 0.5 on a quiet machine, and 2.1 with tables and the judge


@pytest.mark.slow
def test_rows_of_a_suite_come_together_by_what_they_left(tmp_path):
    file, rows = planned(tmp_path)
    asked = {case for row in json.loads(rows.read_text())["rows"] for job in row["jobs"] for case in job["cases"]}
    assert asked == {f"here/{TARGET}/{name}/suite.tests/collected" for name in ("one", "two")}
    done = {row: run_row(file, rows, row, tmp_path / row, "--gathered") for row in (ONE, OTHER)}
    assert {row: end.returncode for row, end in done.items()} == {ONE: 0, OTHER: 1}
    assert "repeat it: " in done[OTHER].stdout, "what is red is said where it ran"
    for row in (ONE, OTHER):
        sent(tmp_path / row, row, tmp_path / "all")
    status, states, said = report(file, rows, tmp_path / "report", tmp_path / "all")
    assert (status, "kernel-matrix:" in said) == (1, False), said
    assert states == {
        f"here/{TARGET}/one/test_a.tests": "held",
        f"here/{TARGET}/one/test_b.tests": "held",  # the environment has one of the two tests
        f"here/{TARGET}/two/test_a.tests": "fail",
        f"here/{TARGET}/two/test_b.tests": "held",
    }
    document = json.loads((tmp_path / "report" / "site" / "compat.json").read_text())
    assert document["run"]["cases_by_state"] == {"fail": 1, "held": 6, "unavailable": 1}


@pytest.mark.slow
def test_a_row_that_left_nothing_has_the_tests_of_the_others_missing(tmp_path):
    file, rows = planned(tmp_path)
    assert run_row(file, rows, ONE, tmp_path / ONE).returncode == 0
    sent(tmp_path / ONE, ONE, tmp_path / "all")
    status, states, said = report(file, rows, tmp_path / "report", tmp_path / "all")
    assert (status, "refused" in said) == (1, False), said
    assert states == {
        f"here/{TARGET}/one/test_a.tests": "held",
        f"here/{TARGET}/one/test_b.tests": "held",
        f"here/{TARGET}/two/test_a.tests": "missing",
        f"here/{TARGET}/two/test_b.tests": "missing",
    }


@pytest.mark.slow
def test_rows_that_all_left_nothing_are_missing(tmp_path):
    file, rows = planned(tmp_path)
    (tmp_path / "all").mkdir()
    status, states, _ = report(file, rows, tmp_path / "report", tmp_path / "all")
    assert (status, {*states.values()}) == (1, {"missing"})


@pytest.mark.slow
def test_a_row_whose_tests_could_not_be_listed_says_why_in_the_report(tmp_path):
    conftest = "import os, signal\nif os.environ['N'] == '2':\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    file, rows = planned(tmp_path, {**TESTS, "tests/conftest.py": conftest})
    for row in (ONE, OTHER):
        run_row(file, rows, row, tmp_path / row)
        sent(tmp_path / row, row, tmp_path / "all")
    status, states, said = report(file, rows, tmp_path / "report", tmp_path / "all")
    assert (status, "refused" in said) == (1, False), said
    assert states[f"here/{TARGET}/two/suite.tests"] == "error"
    assert f"here/{TARGET}/one/suite.tests" not in states
    assert {states[f"here/{TARGET}/two/test_{name}.tests"] for name in "ab"} == {"missing"}
    summary = (tmp_path / "report" / "site" / "summary.md").read_text()
    assert "SIGKILL" in summary
    # Without the plan of the rows the page is the same.
    again = harness("report", "--matrix", str(file), "--build", str(tmp_path / "again"), str(tmp_path / "all"))
    assert again.returncode == 1
    assert again.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("first", by_day(1, ["here", "cuda"]))
def test_a_row_without_the_device_of_its_label_is_missing_whichever_row_comes_first(tmp_path, first):
    gpu = "  cuda: { title: CUDA, device: nvidia, runner: [self-hosted], targets: [sm_90], toolchains: [plain] }\n"
    file, rows = planned(
        tmp_path,
        {"tests/test_a.py": "def test_one(): pass\n"},
        f"{MATRIX.rstrip()}\n{gpu}".replace("[any]", f"[{TARGET}]"),
    )
    build = tmp_path / "b"
    plan = json.loads(rows.read_text())
    for row in plan["rows"]:
        if row["platform"] == "cuda":
            row |= {"labels": ["self-hosted", "sm_90"], "own": True}
    rows.write_text(json.dumps(plan))
    named = {row["platform"]: row["id"] for row in plan["rows"]}
    for platform in sorted(named, key=lambda name: name != first):
        words = words_of(file, rows, named[platform], build)
        harness(*(platform if word == "here" else word for word in words))
    status, states, said = report(file, rows, tmp_path / "report", build / "results")
    assert (status, "refused" in said) == (1, False), said
    of_gpu = {state for cell, state in states.items() if cell.startswith("cuda/")}
    assert (of_gpu, states[f"here/{TARGET}/plain/test_a.tests"]) == ({"missing"}, "held"), states


@pytest.mark.slow
def test_a_file_that_speaks_of_another_row_s_tests_is_refused(tmp_path):
    file, rows = planned(tmp_path)
    run_row(file, rows, ONE, tmp_path / ONE)
    sent(tmp_path / ONE, OTHER, tmp_path / "all")
    status, states, said = report(file, rows, tmp_path / "report", tmp_path / "all")
    assert (status, {*states.values()}) == (2, {"missing"})
    assert "it came from another row" in said


@pytest.mark.slow
def test_a_row_makes_and_collects_only_its_own_lane(tmp_path):
    file, rows = planned(tmp_path)
    shown = run_row(file, rows, ONE, tmp_path / ONE)
    said = f"{shown.stdout}{shown.stderr}"
    assert "collecting its tests" in said
    assert "here.two" not in said
    assert sorted(path.name for path in (tmp_path / ONE / "jobs").iterdir() if path.is_dir()) == [ONE]


@pytest.mark.slow
def test_a_case_by_its_id_collects_only_its_lane(tmp_path):
    file, _ = planned(tmp_path)
    words = ("--matrix", str(file), "--build", str(tmp_path / "b"), "--executor", "current")
    shown = harness("run", *words, "--case", f"here/{TARGET}/two/test_b.tests/test_n[1]")
    assert shown.returncode == 0, shown.stderr
    assert "here.one" not in f"{shown.stdout}{shown.stderr}"
    assert "1 held" in shown.stdout


@pytest.mark.slow
def test_rows_of_one_checkout_run_at_the_same_time(tmp_path):
    slow = {"tests/test_a.py": "import time\n\ndef test_one(): time.sleep(5)\n"}
    file, rows = planned(tmp_path, slow)
    words = ("--matrix", str(file), "--build", str(tmp_path / "b"), "--plan", str(rows), "--executor", "current")
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "kernel_matrix", "run", *words, "--row", row],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for row in (ONE, OTHER)
    ]  # fmt: skip
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    status, states, said = report(file, rows, tmp_path / "report", tmp_path / "b" / "results")
    assert (status, {*states.values()}) == (0, {"held"}), said


@pytest.mark.slow
def test_a_report_of_another_machine_s_folder_knows_its_tests(tmp_path):
    file, _ = planned(tmp_path)
    harness("run", "--matrix", str(file), "--build", str(tmp_path / "b"), "--executor", "current")
    sent(tmp_path / "b", "x", tmp_path / "brought")
    build = tmp_path / "report"
    harness("report", "--matrix", str(file), "--build", str(build), str(tmp_path / "brought"))
    document = json.loads((build / "site" / "compat.json").read_text())
    assert document["run"]["cases_by_state"] == {"fail": 1, "held": 6, "unavailable": 1}


def below(pid: int) -> Iterator[int]:
    """Yield the processes below one, from the top."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    for child, parent in (map(int, line.split()) for line in listed.splitlines()):
        if parent == pid:
            yield child
            yield from below(child)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "everyone"),
    [
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.nightly),  # test_interrupted.py has them by day
        pytest.param(signal.SIGINT, False, marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, False, marks=pytest.mark.nightly),
        (signal.SIGTERM, True),
    ],
)
def test_a_run_that_is_ended_writes_what_has_ended_and_that_the_rest_has_not(tmp_path, number, everyone):
    note = tmp_path / "begun"
    text = f"""
        import pathlib, time

        def test_one():
            pass

        def test_two():
            note = pathlib.Path({str(note)!r})
            if not note.exists():
                note.touch()
                time.sleep(600)

        def test_three():
            pass
        """
    file, rows = planned(tmp_path, {"tests/test_a.py": text})
    words = ["--matrix", str(file), "--build", str(tmp_path / "b"), "--executor", "current", "--jobs", "1"]
    command = [sys.executable, "-m", "kernel_matrix", "run", *words]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not note.exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    if everyone:  # as a cluster ends a job; the processes of the tests first, which is the hardest
        for pid in reversed([*below(run.pid)]):
            os.kill(pid, number)
        time.sleep(0.7)
    run.send_signal(number)
    _, errors = run.communicate(timeout=120)
    assert (run.returncode, "interrupted; --resume goes on" in errors) == (130, True), errors
    results = shutil.copytree(tmp_path / "b" / "results", tmp_path / "brought")
    ends = {one.case.partition("/")[2]: (one.outcome, one.stage) for one in records_in(results)}
    [first] = {name.split("/")[1] for name, end in ends.items() if end[0] == "pass"}
    of_lane = {f"{TARGET}/{name}/test_a.tests/test_{n}" for name in ("one", "two") for n in ("one", "two", "three")}
    begun = {"test_one": ("pass", ""), "test_two": ("error", "machine")}
    begun = {f"{TARGET}/{first}/test_a.tests/{name}": end for name, end in begun.items()}
    assert ends == dict.fromkeys(of_lane, ("missing", "")) | begun
    status, states, said = report(file, rows, tmp_path / "report", results)
    assert (status, sorted(states.values())) == (1, ["error", "missing"]), said

    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert "6 held" in again.stdout
    journal = (tmp_path / "b" / "jobs" / f"here.{first}" / "journal.jsonl").read_text()
    assert journal.count('"start"') == 4, "the test that had ended did not run again"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="apt-get install openssh-client")
@pytest.mark.parametrize("ran_at_home", by_day(1, [True, False]))
def test_the_tests_of_a_suite_that_a_person_has_sent_are_all_told(tmp_path, ran_at_home):
    file, _ = planned(tmp_path / "there", {"tests/test_a.py": "def test_one(): pass\n\ndef test_two(): pass\n"})
    key = tmp_path / "alice"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    words = ("--matrix", str(file), "--platform", "here", "--toolchain", "one", "--executor", "current")
    bare = "import sys; sys.modules |= {'pyarrow': None, 'duckdb': None}; from kernel_matrix import cli; cli.main()"
    sends = ("send", "--as", "alice", "--key", str(key), "--to", str(tmp_path / "sent.txt"))
    made = [sys.executable, "-c", bare, *sends, *words]
    done = subprocess.run(
        made, capture_output=True, text=True, check=False, env={**os.environ, "KERNEL_MATRIX_COMMIT": "0123456789ab"}
    )
    assert "2 pass, signed with" in done.stdout, done.stdout + done.stderr

    home, _ = planned(tmp_path / "home", {"tests/test_a.py": "def test_one(): pass\n\ndef test_two(): pass\n"})
    where = ("--matrix", str(home))
    if ran_at_home:
        of_two = harness("run", *where, "--executor", "current", "--toolchain", "two")
        assert of_two.returncode == 0, of_two.stderr
    results = home.parent / "build" / "results"
    taken = harness("take", "--from", str(tmp_path / "sent.txt"), "--by", "alice", "--keys", f"{key}.pub", *where)
    assert taken.returncode == 0, taken.stderr
    shown = harness("report", *where, str(results))
    assert shown.stderr == ""
    document = json.loads((home.parent / "build" / "site" / "compat.json").read_text())
    assert document["run"]["cases_by_state"] == {"told": 2, "held" if ran_at_home else "missing": 2}
