"""A run writes the tables of its jobs, and every command reads a folder that has nothing else."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from common import CPU, Doubles, Silent, copy_doubles, harness
from records import record_with_sample as with_sample

from kernel_matrix import judging, pipeline
from kernel_matrix.audit import raw
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.selection import Selection
from kernel_matrix.run import schedule
from kernel_matrix.run.settings import Settings
from kernel_matrix.store import names
from kernel_matrix.store.load import collect
from kernel_matrix.store.write import write_all
from kernel_matrix.vendors.machine import Machine

HERE = Machine((CPU,))


class Seen(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def job(self, job: str, text: str) -> None:
        self.texts.append(text)


def run(doubles: Doubles, *, resume: bool = False) -> tuple[Path, list[str]]:
    """Run the jobs of one toolchain, and return the folder of the results with what the progress said."""
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=("good",)))
    seen = Seen()
    settings = Settings(project.root, project.build, "current", resume=resume)
    schedule.run(project.matrix, selected.jobs, HERE, settings, seen)
    return project.results, seen.texts


def options(doubles: Doubles, *words: str) -> list[str]:
    return ["--matrix", str(doubles.root / "matrix.yaml"), "--build", str(doubles.root / "build"), *words]


@pytest.fixture(scope="module")
def ended(tmp_path_factory, bytecode: Path) -> Doubles:
    """Return the doubles with the results of a run, which a test copies before it changes anything."""
    doubles = copy_doubles(tmp_path_factory.mktemp("ended") / "doubles", bytecode)
    run(doubles)
    return doubles


@pytest.fixture
def ran(ended: Doubles, tmp_path: Path) -> Doubles:
    """Return a copy of the doubles with the results of a run."""
    shutil.copytree(ended.root, tmp_path / "ran", symlinks=True)
    return Doubles(tmp_path / "ran")


@pytest.mark.slow
def test_a_run_leaves_tables_alone_and_a_second_run_replaces_them(ran):
    folder = ran.root / "build" / "results"
    [first] = names.find(folder)
    records = collect([folder]).records
    assert len(records) == 3
    assert any(record.samples for record in records)
    assert {record.run for record in records} == {first.run}
    assert {path for path in folder.rglob("*") if path.is_file()} == {*first.paths}
    run(ran)
    [second] = names.find(folder)
    assert second.name != first.name


class StoppedError(Exception):
    pass


@pytest.mark.slow
def test_before_a_run_the_tables_of_its_jobs_are_deleted_unless_it_resumes(ran, monkeypatch):
    folder = ran.root / "build" / "results"
    [files] = names.find(folder)
    copies = [(path, path.read_bytes()) for path in files.paths]

    def stop(*_: object) -> None:
        raise StoppedError

    monkeypatch.setattr(schedule, "_Schedule", stop)
    with pytest.raises(StoppedError):
        run(ran, resume=True)
    assert names.find(folder) == [files]
    with locked(ran.root / "build" / "jobs" / "here.good.lock"), pytest.raises(UserError):
        run(ran)
    assert names.find(folder) == [files], "another run is at it"
    with pytest.raises(StoppedError):
        run(ran)
    assert list(folder.rglob("*.*")) == []
    for path, content in copies:
        path.write_bytes(content)
    assert len(collect([files.path("jobs")]).records) == 3


@pytest.mark.slow
def test_the_tables_of_a_job_are_there_when_its_result_is_and_its_lock_is_taken_once(doubles, monkeypatch):
    taken, seen = [], []
    real = schedule.locked
    monkeypatch.setattr(schedule, "locked", lambda path: taken.append(path.name) or real(path))
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=("good",)))
    settings = Settings(project.root, project.build, "current")

    def look(result: Path) -> None:
        with pytest.raises(BusyError), locked(project.build / "jobs" / "here.good.lock"):
            pass
        seen.append((result.name, [files.job for files in names.find(result.parent.parent)]))

    schedule.run(project.matrix, selected.jobs, HERE, settings, Seen(), look)
    [(name, jobs)] = seen
    assert jobs == ["here.good"]
    assert name.startswith("here.good-")
    assert taken == ["here.good.lock"]


@pytest.mark.slow
def test_a_run_that_may_not_start_keeps_the_results_of_the_other(ran):
    folder = ran.root / "build" / "results"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with locked(ran.root / "build" / "jobs" / "here.good.lock"), pytest.raises(UserError, match="another run"):
        run(ran)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_where_the_tables_cannot_be_written_the_run_says_that_its_results_are_lost(doubles):
    results = doubles.root / "build" / "results"
    results.mkdir(parents=True)
    (results / "samples").write_text("no folder")
    folder, texts = run(doubles)
    assert [text for text in texts if text.startswith("its results are lost, ")]
    assert collect([folder]).records == ()


@pytest.mark.slow
def test_a_machine_without_pyarrow_leaves_a_journal_that_makes_the_same_tables(doubles, monkeypatch, tmp_path):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "kernel_matrix.store.rows", None)
        folder, texts = run(doubles)
    assert "done" in texts
    [path] = names.journals(folder)
    assert path == names.result_of(folder, "here.good")
    assert {file for file in folder.rglob("*") if file.is_file()} == {path}
    collected = collect([folder])
    assert collected.files == (path,)
    assert len(collected.records) == 3
    assert any(record.samples for record in collected.records)
    [made] = write_all(tmp_path, collected.records)
    assert made.stem == path.stem, "the tables of the same results have the same name"
    assert collect([tmp_path]).records == collected.records
    assert collect([tmp_path, folder]).records == collected.records, "a run that is there twice counts once"
    project = pipeline.load(doubles.root / "matrix.yaml")
    counts = []
    for results in (folder, tmp_path):
        with judging.judged(project, pipeline.plan(project, "quick"), [results]) as judged:
            counts.append((judged.counts, judged.loaded.broken))
    assert counts[0] == counts[1]
    assert counts[0][0]["pass"] == 3
    of_journal, of_tables = raw.read([path]), raw.read([made])
    assert of_journal.keys() == of_tables.keys()
    for case in of_tables:  # each names its own file
        assert of_journal[case][0]._replace(file="", run="") == of_tables[case][0]._replace(file="", run="")


@pytest.mark.slow
def test_a_run_on_a_machine_without_pyarrow_keeps_its_journal_and_says_that_nothing_was_judged(doubles):
    without = "import sys; sys.modules['pyarrow'] = None; from kernel_matrix import cli; sys.exit(cli.main())"
    words = ["run", *options(doubles, "--toolchain", "good", "--executor", "current")]
    ended = subprocess.run([sys.executable, "-c", without, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == UserError.exit_code
    assert "nothing was judged: this Python has no pyarrow." in ended.stderr
    assert len(names.journals(doubles.root / "build" / "results")) == 1


JOURNALS = {
    "another outcome": (lambda text: text.replace('"outcome": "pass"', '"outcome": "fail"', 1), "the file was changed"),
    "an unknown outcome": (lambda text: text.replace('"outcome": "pass"', '"outcome": "good"', 1), "Input should be"),
    "another fact": (lambda text: text.replace('"job": "here.good-', '"job": "here.wrong-'), "of another job"),
    "cut short": (lambda text: text[:-40], "no whole journal"),
    "a key too many": (lambda text: text.replace('"attempts"', '"more": 1, "attempts"', 1), "Extra inputs"),
    "no JSON": (lambda text: "[" * 100_000, "no whole journal"),
    "nothing": (lambda text: "", "no whole journal"),
    "a text for a number": (lambda text: text.replace('"seconds": ', '"seconds": "1", "x": ', 1), "no whole journal"),
    "a case twice": (lambda text: f"{text}{text.splitlines()[-1]}\n", "was changed"),
}


def test_a_journal_that_was_changed_is_refused_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kernel_matrix.store.rows", None)
    paths: dict[str, Path] = {}
    for number, kind in enumerate(JOURNALS):
        good = with_sample(job={"job": f"here.good-{number}"})
        [paths[kind]] = write_all(tmp_path, [good, replace(good, case=f"{good.case}2")])
    assert len(collect([tmp_path]).records) == 2 * len(JOURNALS)
    for kind, (change, _) in JOURNALS.items():
        paths[kind].write_text(change(paths[kind].read_text()))
    collected = collect([tmp_path])
    assert collected.records == ()
    assert {*collected.refused} == {f"here.good-{number}" for number in range(len(JOURNALS))}
    for kind, (_, words) in JOURNALS.items():
        [sentence] = [sentence for sentence in collected.broken if f"{paths[kind].name}: refused: " in sentence]
        assert words in sentence, kind


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": {}, "metrics": {"time.run": math.inf}}, "is inf"),
        ({"action": "compile"}, "which did not run"),
        ({"message": "x" * 300_000}, "longer than"),
    ],
)
def test_a_journal_with_what_no_job_writes_is_refused(tmp_path, monkeypatch, change, words):
    monkeypatch.setitem(sys.modules, "kernel_matrix.store.rows", None)
    write_all(tmp_path, [replace(with_sample(job={"job": "here.good"}), **change)])
    collected = collect([tmp_path])
    assert collected.records == ()
    assert words in collected.broken[0]


@pytest.mark.slow
def test_every_command_reads_a_folder_that_has_tables_alone(here: Doubles, tmp_path):
    done = harness("run", *options(here, "--executor", "current", "--toolchain", "good", "--toolchain", "wrong"))
    assert done.returncode == 1, done.stderr
    results, kept = here.root / "build" / "results", tmp_path / "kept"
    for table in names.TABLES:
        shutil.copytree(results / table, kept / table)
    cells = [f"here/{here.matrix.platforms['here'].targets[0]}/{name}/double.forward" for name in ("good", "wrong")]
    commands = (
        ("report", "--history", str(kept)),
        ("repro", cells[1]),
        ("compare", *cells),
        ("audit",),  # of that report
    )
    answers = {}
    for folder in (results, kept):
        done = [harness(command[0], *options(here), *command[1:], str(folder)) for command in commands]
        answers[folder] = [(answer.returncode, answer.stdout, answer.stderr) for answer in done]
    for command, *both in zip(commands, *answers.values(), strict=True):
        assert both[0] == both[1], command
        assert both[0][0] in (0, 1), both
    difference = harness("diff", *options(here), str(results), str(kept))
    assert (difference.returncode, difference.stderr) == (0, "")


@pytest.mark.slow
def test_the_audit_reads_tables_by_a_road_of_its_own(reported_results, tmp_path):
    _, files, _ = reported_results
    records = [record for record in collect(files).records if "job" in record.job]
    write_all(tmp_path, records)
    of_xml = raw.read(files)
    of_tables = raw.read(collect([tmp_path]).files)
    assert of_tables.keys() == {record.case for record in records}
    for case, [one] in of_tables.items():
        others = [other._replace(file=one.file, run=one.run) for other in of_xml[case]]
        assert one in others, case
