"""A faulty case harms no other case: the doubles crash, hang, raise, write nothing, and do worse."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import judges
import pytest
from common import ROOT, Doubles, copy_doubles, records_in
from loops import at_least
from records import middle, states

from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.report import terminal
from kernel_matrix.results.states import Verdict
from kernel_matrix.run import room
from kernel_matrix.run.environments.local import LocalChild
from kernel_matrix.run.executors import MachineError
from kernel_matrix.run.proven import Proven


def test_a_good_kernel_passes_every_case_on_what_ran(doubles: Doubles):
    comparison = doubles.run("good")
    assert states(comparison) == ["pass"] * 3
    assert comparison.cells[0].evidence == "ran"
    assert not comparison.is_red


@pytest.mark.slow
def test_a_timed_case_has_the_machine_to_itself_and_tells_how_many_times_eager_it_was(doubles: Doubles):
    doubles.edit("targets: [any]", "targets: [any]\n    machines: [any]")
    doubles.edit("case: 15,", "case: 60,")
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 2, 3] }\n    timed: [{ tokens: 1000 }]")
    [cell] = doubles.run("good").cells
    timed = next(verdict.record for verdict in cell.cases if verdict.case.timed)
    assert timed.case.endswith("/tokens1000-timed")
    assert timed.metrics["time.ratio"] > 5
    assert timed.job["job"] == "here.good.timed"
    others = [verdict.record for verdict in cell.cases if not verdict.case.timed]
    ended = max(datetime.fromisoformat(r.job["started"]).timestamp() + float(r.job["seconds"]) for r in others)
    assert datetime.fromisoformat(timed.job["started"]).timestamp() >= ended - 1  # starts are in whole seconds


@pytest.mark.slow
def test_a_timed_case_that_times_nothing_is_an_error(doubles: Doubles):
    doubles.edit("targets: [any]", "targets: [any]\n    machines: [any]")
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1] }\n    timed: [{ tokens: 1000 }]")
    doubles.edit("backend: flaky", "backend: times-nothing")
    [cell] = doubles.run("flaky").cells
    assert [(v.state, v.reason) for v in cell.cases][1:] == [
        ("error", "RuntimeError: the case ended without a race: nothing was timed")
    ]


FAULTY = {
    "segfault": ("error", "crash", "the process died of SIGSEGV in stage launch"),
    "hang": ("error", "timeout", "no end after 15 s, in stage launch"),
    "raises": ("error", "launch", "ZeroDivisionError: the launch was refused"),
    "writes-nothing": ("fail", "", "16 NaN and 0 Inf in 16 elements"),
    "leaves": ("error", "crash", "the process ended with exit status 0 in stage launch"),
    "wrong": ("fail", "", "out: max_abs"),
    "no-device": (
        "error",
        "launch",
        "the device of this case is here, and the test was skipped: the device does not answer",
    ),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, bytecode) -> Doubles:
    return copy_doubles(tmp_path_factory.mktemp("faulty") / "doubles", bytecode)


@pytest.fixture(scope="module")
def ended(faulty: Doubles) -> dict[str, list[Verdict]]:
    """Run the faulty kernels at the same time, and return the verdicts of each."""
    comparison = faulty.run(*FAULTY, "asserts-nothing")
    assert comparison.is_red
    return {cell.cell.toolchain: list(cell.cases) for cell in comparison.cells}


@pytest.mark.slow
def test_a_faulty_kernel_costs_exactly_one_case(ended):
    for toolchain, (state, stage, words) in FAULTY.items():
        before, verdict, after = ended[toolchain]
        assert (before.state, verdict.state, after.state) == ("pass", state, "pass"), toolchain
        assert (verdict.record.stage if verdict.record else "", words in verdict.reason) == (stage, True), verdict


@pytest.mark.slow
def test_a_device_in_software_may_be_missing(doubles: Doubles):
    doubles.edit("job: 120 }", "job: 120, attempts: 2 }")
    doubles.edit("device: cpu", "device: software")
    comparison = doubles.run("no-device")
    assert states(comparison) == ["pass", "unavailable", "pass"]
    verdict = middle(comparison)
    assert (verdict.reason, verdict.evidence) == ("the device does not answer", "planned")
    assert comparison.cells[0].state == "pass"  # what is known of it; the square counts the other
    jobs = tuple(job for job in plan(doubles.matrix, "quick").jobs if job.toolchain == "no-device")
    records = [verdict.record for verdict in comparison.verdicts]
    with judges.judged(Plan("doubles", "quick", jobs), records) as judged:
        lines = list(terminal.summary(doubles.matrix, judged, ()))
    assert "unavailable, 1 case: the device does not answer" in lines


@pytest.mark.slow
def test_a_crash_keeps_what_the_process_printed(ended):
    _, verdict, _ = ended["segfault"]
    assert "Segmentation fault" in verdict.record.detail
    assert verdict.record.facts["during"] == "launch"


@pytest.mark.slow
def test_a_record_names_no_folder_of_its_machine(faulty: Doubles, ended):
    _, verdict, _ = ended["raises"]
    assert "./suite/kernel_side.py" in verdict.record.detail
    assert str(faulty.root) not in verdict.record.detail


@pytest.mark.slow
def test_a_case_that_compares_nothing_is_an_error(ended):
    for verdict in at_least(3, ended["asserts-nothing"]):
        assert (verdict.state, "no number was checked" in verdict.reason) == ("error", True), verdict


@pytest.mark.slow
def test_a_case_that_passes_only_on_a_repeat_is_flaky_and_keeps_its_attempts(doubles: Doubles, tmp_path):
    doubles.edit("job: 120 }", "job: 120, attempts: 2 }")
    doubles.edit("DOUBLES_SCRATCH:", f"DOUBLES_FLAKY: {tmp_path / 'tried'}, DOUBLES_SCRATCH:")
    comparison = doubles.run("flaky")
    assert states(comparison) == ["flaky", "pass", "pass"]
    assert comparison.cells[0].state == "flaky"
    record = comparison.cells[0].cases[0].record
    assert record is not None
    assert record.attempts == ("error:launch",)


@pytest.mark.slow
def test_a_suite_that_does_not_import_is_an_error_of_every_case_with_its_exact_message(doubles: Doubles):
    doubles.edit("DOUBLES_SCRATCH:", 'DOUBLES_BROKEN_SUITE: "1", DOUBLES_SCRATCH:')
    comparison = doubles.run("good")
    assert states(comparison) == ["error"] * 3
    record = middle(comparison).record
    assert record is not None
    assert record.stage == "import"
    assert "No module named 'a_module_that_does_not_exist'" in record.message


@pytest.mark.slow
def test_an_operator_that_the_suite_does_not_test_is_missing(doubles: Doubles):
    doubles.edit("  double:", "  triple:")
    comparison = doubles.run("good")
    assert states(comparison) == ["missing"] * 3
    assert middle(comparison).reason == (
        "the suite has no test marked op('triple', 'forward'): write @pytest.mark.op('triple', 'forward') above a test "
        "in suite, and give it the argument 'case', which says what to run and compares the result"
    )


@pytest.mark.slow
def test_the_job_limit_ends_the_case_in_flight_and_leaves_the_rest_missing(doubles: Doubles):
    doubles.edit("{ case: 15, job: 120 }", "{ case: 50, job: 20 }")
    comparison = doubles.run("hang")
    assert states(comparison) == ["pass", "error", "missing"]
    record = middle(comparison).record
    assert record is not None
    assert record.stage == "timeout"


@pytest.mark.slow
def test_a_job_that_fills_its_folder_is_ended_and_gives_the_disk_back(doubles: Doubles, monkeypatch):
    monkeypatch.setattr(room, "_SECONDS", 0.0)
    folder = doubles.root / "build" / "jobs" / "here.fills-disk"
    doubles.edit('"{cache}/scratch"', f'"{folder}/scratch"')
    doubles.edit("toolchains:\n", "container: { folder: 0.1 }\ntoolchains:\n")
    comparison = doubles.run("fills-disk")
    assert states(comparison) == ["pass", "error", "pass"]
    record = middle(comparison).record
    assert record is not None
    assert (record.stage, record.message) == ("crash", "the job's folder has more than 0.1 GiB")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 1 << 20


def test_the_room_of_a_folder_is_measured_whatever_a_job_does_there(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_SECONDS", 0.0)
    empty, sparse, closed, linked = (tmp_path / name for name in ("empty", "sparse", "closed", "linked"))
    for folder in (empty, sparse, closed, linked):
        folder.mkdir()
    for number in range(40):
        (empty / str(number)).touch()
    assert room.Room(empty, 100_000).outgrown(), "a file without content fills a disk, too"
    with (sparse / "hole").open("wb") as file:
        file.truncate(1 << 30)
    assert not room.Room(sparse, 100_000).outgrown(), "a hole takes no room"
    (linked / "elsewhere").symlink_to("/usr")
    assert not room.Room(linked, 100_000).outgrown()
    (closed / "in").mkdir()
    (closed / "in" / "file").write_bytes(b"x" * 200_000)
    (closed / "in").chmod(0)
    of_closed = room.Room(closed, 100_000)
    assert [of_closed.outgrown() for _ in range(2)][1], "a folder that the job has closed is opened"
    of_closed.clear()
    assert list(closed.iterdir()) == []


def test_a_folder_of_many_files_is_measured_less_often(tmp_path, monkeypatch):
    times = iter([100.0, 103.0, 159.0, 164.0, 164.5])
    monkeypatch.setattr(room.time, "monotonic", lambda: next(times))
    of_folder = room.Room(tmp_path, 1000)
    (tmp_path / "file").write_bytes(b"x" * 500)
    of_folder.most = 1 << 20
    assert not of_folder.outgrown(), "that took three seconds"
    of_folder.most = 0
    assert not of_folder.outgrown(), "a minute has not gone by"
    assert of_folder.outgrown()


@pytest.mark.slow
def test_an_interpreter_without_the_toolchain_makes_cells_unavailable_and_says_why(doubles: Doubles):
    doubles.edit(
        "good: { backend: good, lock: lock.txt, requires: [numpy]",
        "good: { backend: good, lock: lock.txt, requires: ['numpy<1']",
    )
    comparison = doubles.run("good")
    assert states(comparison) == ["unavailable"] * 3
    assert "good needs numpy<1" in middle(comparison).reason


def starts_proven(build: Path, job: str) -> int:
    """Return how many cases have begun, as far as the harness knows who says so."""
    try:
        entries = [*Proven(build / "jobs" / job / "journal.jsonl", build, job).new_entries()]
    except OSError:  # it begins, or writes at this moment
        return 0
    return sum(entry["entry"] == "start" for entry in entries)


@pytest.mark.slow
def test_a_killed_run_resumes_with_what_it_had(doubles: Doubles):
    """Kill the harness while a case hangs. --resume keeps the case that ended, and repeats the other one."""
    doubles.edit("targets: [any]", "targets: [x86-64]")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--matrix", str(doubles.root / "matrix.yaml")]
    command += ["--executor", "current", "--toolchain", "hang"]
    journal = doubles.root / "build" / "jobs" / "here.hang" / "journal.jsonl"
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 120
        while time.monotonic() < give_up and starts_proven(doubles.root / "build", "here.hang") < 2:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    pid = json.loads(journal.read_text().splitlines()[0])["pid"]
    subprocess.run(["kill", "-9", str(pid)], check=False)
    done = subprocess.run([*command, "--resume"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    records = records_in(doubles.root / "build" / "results", "here.hang")
    assert [(record.outcome, record.stage) for record in records] == [("pass", ""), ("error", "timeout"), ("pass", "")]
    starts = [json.loads(line)["case"][-7:] for line in journal.read_text().splitlines() if '"start"' in line]
    assert starts == ["tokens1", "tokens2", "tokens2", "tokens3"]


@pytest.mark.slow
def test_a_process_that_the_machine_has_lost_costs_its_own_case(doubles: Doubles, monkeypatch):
    journal, poll, lost = doubles.root / "build" / "jobs" / "here.hang" / "journal.jsonl", LocalChild.poll, []

    def poll_or_lose(child: LocalChild) -> int | None:
        if not lost and journal.exists() and journal.read_text().count('"start"') == 2:
            lost.append(child)
            child.kill()
            raise MachineError("the machine is gone")
        return poll(child)

    monkeypatch.setattr(LocalChild, "poll", poll_or_lose)
    comparison = doubles.run("hang")
    assert states(comparison) == ["pass", "error", "pass"]
    assert (middle(comparison).record.stage, middle(comparison).reason) == ("machine", "the machine is gone")


@pytest.mark.slow
@pytest.mark.usefixtures("ended")
def test_everything_a_job_prints_is_in_its_log(faulty: Doubles):
    assert "Segmentation fault" in (faulty.root / "build" / "jobs" / "here.segfault" / "log.txt").read_text()
