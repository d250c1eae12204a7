"""Results are asked in SQL, and no query can do anything else."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import object_stores
import pytest
from common import ROOT, harness, write_results
from records import BAD, GOOD, JOB
from together import first_are_quick

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.page_data import HistoryData
from kernel_matrix.results import history
from kernel_matrix.results.past import coverage, transitions
from kernel_matrix.store import names, views
from kernel_matrix.store.query import Answer, ask, in_csv, in_json, in_lines, opened
from kernel_matrix.store.record import Record

KEPT = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "queries.md"
CELL = "here/any/good/double.forward"


def job(day: int, **facts: str) -> dict[str, str]:
    return {**JOB, "started": f"2026-11-{day:02d}T10:00:00Z", "commit": f"c{day}", **facts}


def timed(day: int, ratio: float, **facts: str) -> Record:
    """Return a timed case whose output has half of the baseline's error, but for the day."""
    metrics = {
        "elements": 8.0, "out.elements": 8.0, "out.rel_fro": day * 1e-8, "out.floor_rel_fro": 1e-7,
        "out.noise_ratio": day * 0.1, "time.run": 1.0 / ratio, "time.eager": 1.0, "time.ratio": ratio,
        "time.rounds": 3.0}  # fmt: skip
    return replace(GOOD, case=f"{CELL}/tokens1-fp32-timed", metrics=metrics, job=job(day, **facts))


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """Return a folder with three runs: the second fails with a newer NumPy, the third is as the first."""
    folder = tmp_path / "history"
    for day, outcome, numpy in ((20, "pass", "2.3.0"), (21, "fail", "2.4.0"), (22, "pass", "2.4.0")):
        facts = job(day, **{"version.numpy": numpy})
        bad = replace(GOOD, outcome=outcome, message="too far" if outcome == "fail" else "", job=facts)
        other = replace(GOOD, case=f"{CELL}/tokens2-fp32", job=facts)
        slow = replace(timed(day, 2.0 if day < 22 else 1.0), job=facts)
        write_results(folder, [bad, other, slow] if day != 22 else [bad, slow])
    return folder


def rows(query: str, folder: Path) -> list[tuple[object, ...]]:
    return list(ask(query, [folder]).rows)


# --- Answers ---


def test_a_noise_ratio_is_made_from_the_errors_and_never_taken_from_a_record(tmp_path):
    metrics = {**timed(20, 2.0).metrics, "out.noise_ratio": 0.01, "other.rel_fro": 0.0, "other.floor_rel_fro": 0.0}
    metrics |= {"bad.rel_fro": 1e-8, "bad.floor_rel_fro": 1e-7, "bad.nan": 1.0, "bad.noise_ratio": 0.1}
    write_results(tmp_path, [replace(timed(20, 2.0), metrics=metrics)])
    found = dict(rows("SELECT output, noise_ratio FROM outputs", tmp_path))
    assert found == {"out": pytest.approx(2.0), "other": None, "bad": math.inf}
    assert rows("SELECT noise FROM cells", tmp_path) == [(math.inf,)]


def on(platform: str, op: str, day: int, outcome: str = "pass", action: str = "run") -> Record:
    """Return a result of an operator on a platform."""
    facts = {**job(day), "platform": platform, "toolchain": f"tool-{platform}"}
    case = f"{platform}/t/tool-{platform}/{op}.forward/tokens1-fp32"
    return replace(GOOD, case=case, outcome=outcome, action=action, job=facts)


def test_coverage_is_by_platform_and_commit_and_gaps_are_as_last_measured(tmp_path):
    for day, of_rocm in ((20, ("compile", "pass")), (21, ("run", "fail"))):
        for platform in ("cuda", "rocm"):
            add, mul = on(platform, "add", day), on(platform, "mul", day)
            if platform == "rocm":
                add = replace(add, action=of_rocm[0], outcome=of_rocm[1])
            write_results(tmp_path, [add, mul, *([on("cuda", "only", day)] if platform == "cuda" else [])])
    query = "SELECT commit, platform, operators, works, compiled, red, nothing, share FROM coverage ORDER BY 1, 2"
    assert rows(query, tmp_path) == [
        ("c20", "cuda", 3, 3, 0, 0, 0, 1.0),
        ("c20", "rocm", 2, 1, 1, 0, 0, 0.5),
        ("c21", "cuda", 3, 3, 0, 0, 0, 1.0),
        ("c21", "rocm", 2, 1, 0, 1, 0, 0.5),
    ]
    assert rows("SELECT * FROM gaps", tmp_path) == [("add.forward", "cuda", "rocm", "red")]


def test_cells_count_their_cases_by_outcome(past):
    query = "SELECT outcome, cases, passed, failed FROM cells ORDER BY started"
    assert rows(query, past) == [("pass", 3, 3, 0), ("fail", 3, 2, 1), ("pass", 2, 2, 0)]


@pytest.mark.slow
def test_a_transition_says_what_else_had_changed(past):
    query = "SELECT before, after, since, commit_before, commit, versions, reason FROM transitions ORDER BY since"
    found = [(*row[:2], str(row[2]), *row[3:]) for row in rows(query, past)]
    assert found == [
        ("pass", "fail", "2026-11-21 10:00:00", "c20", "c21", "numpy 2.3.0 -> 2.4.0", "too far"),
        ("fail", "pass", "2026-11-22 10:00:00", "c21", "c22", "", ""),
    ]
    assert transitions([past])[1] == {
        "cell": CELL, "before": "pass", "after": "fail", "since": "2026-11-21T10:00:00Z", "commit": "c21",
        "commit_before": "c20", "versions": {"numpy": ("2.3.0", "2.4.0")}, "reason": "too far"}  # fmt: skip


def test_what_works_on_a_platform_is_counted_by_commit(tmp_path):
    """An operator works where one of its cases does. The name of a commit may be short."""
    other = "here/any/good/triple.forward/tokens1-fp32"
    write_results(tmp_path, [replace(GOOD, job=job(20)), replace(GOOD, case=other, outcome="error", job=job(20))])
    long = {**job(21), "commit": "0123456789ab"}
    write_results(tmp_path, [replace(GOOD, action="compile", job=long)])
    short = {**job(22), "commit": "01234567"}
    write_results(tmp_path, [replace(GOOD, job=short), replace(GOOD, case=other, outcome="unavailable", job=short)])
    found = [(one["platform"], one["commit"], one["works"], one["operators"]) for one in coverage([tmp_path])]
    assert found == [("here", "c20", 1, 2), ("here", "01234567", 1, 2)]


@pytest.mark.slow
def test_a_run_of_fewer_cases_or_on_another_device_is_no_transition(past):
    failing = replace(GOOD, outcome="fail", job=job(23, device="another"))
    write_results(past, [failing])
    write_results(past, [replace(GOOD, case=f"{CELL}/tokens9-fp32", outcome="error", job=job(24))])
    assert len(transitions([past])) == 2


@pytest.mark.slow
def test_a_run_that_starts_in_the_future_is_no_part_of_the_past(past):
    before = history.read(past), transitions([past])
    facts = {**job(20), "started": "2099-01-01T00:00:00Z"}
    write_results(past, [replace(timed(20, 9.0), job=facts, outcome="fail"), replace(GOOD, outcome="fail", job=facts)])
    assert (history.read(past), transitions([past])) == before
    assert rows("SELECT count(*) FROM transitions", past) == [(3,)]


@pytest.mark.slow
def test_runs_without_a_start_are_no_part_of_the_past(tmp_path):
    write_results(tmp_path, [replace(timed(20, 2.0), job={**JOB, "started": "soon"})])
    known = history.read(tmp_path)
    assert (known.lanes, known.measurements, transitions([tmp_path])) == ({}, {}, [])
    assert rows("SELECT ratio, started FROM times", tmp_path) == [(2.0, None)]


@pytest.mark.slow
def test_from_compiled_to_ran_is_a_transition(tmp_path):
    for day, action in ((20, "compile"), (21, "run")):
        write_results(tmp_path, [replace(GOOD, action=action, job=job(day))])
    assert [(one["before"], one["after"]) for one in transitions([tmp_path])] == [("compiled", "pass")]


@pytest.mark.slow
def test_a_run_that_comes_twice_counts_once_and_the_order_of_copying_does_not_matter(past, tmp_path):
    once = rows("SELECT * FROM transitions ORDER BY ALL", past)
    merged = tmp_path / "merged"
    for files in reversed(names.find(past)):
        for place in ("a", "b/c"):
            for path in files.paths:
                target = merged / place / path.parent.name / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    assert rows("SELECT count(*) FROM jobs", merged) == [(3,)]
    assert rows("SELECT * FROM transitions ORDER BY ALL", merged) == once
    assert ask("SELECT count(*) FROM jobs", [merged / "a", merged / "b", past]).rows == ((3,),)


@pytest.mark.slow
def test_the_past_has_the_figures_of_each_run(past):
    runs = history.read(past).measurements[CELL]
    assert [(one.device, one.commit) for one in runs] == [("x", "c20"), ("x", "c21"), ("x", "c22")]
    assert [one.started for one in runs] == [f"2026-11-{day}T10:00:00Z" for day in (20, 21, 22)]
    assert [one.speed for one in runs] == [{"tokens1-fp32": ratio} for ratio in (2.0, 2.0, 1.0)]
    assert [one.seconds for one in runs] == [{"tokens1-fp32": seconds} for seconds in (0.5, 0.5, 1.0)]
    assert [one.noise["fp32/out"] for one in runs] == pytest.approx([2.0, 2.1, 2.2])


@pytest.mark.slow
def test_the_page_takes_the_transitions_as_they_are(past):
    assert len(HistoryData.model_validate({"transitions": transitions([past]), "trends": []}).transitions) == 2


def test_the_jobs_of_one_day_and_commit_are_one_measurement(tmp_path):
    write_results(tmp_path, [timed(20, 2.0)])
    other = timed(20, 2.0, job="here.good.2of2", started="2026-11-20T12:00:00Z")
    write_results(tmp_path, [replace(other, case=f"{CELL}/tokens7-fp32", metrics={**other.metrics, "time.run": 0.0})])
    assert [one.started for one in history.read(tmp_path).measurements[CELL]] == ["2026-11-20T12:00:00Z"]


@pytest.mark.slow
def test_the_past_has_the_measurements_of_the_report():
    """The ratios of a report come from the plan and from records, and the ratios of the tables from SQL."""
    known = history.read(KEPT / "nvidia-h200")
    made = {
        cell: measurement
        for cell, series in known.measurements.items()
        for measurement in series
        if "fp32/h_in" in measurement.noise and cell == "cuda/sm_90/triton-3.7/mhc_pre.forward"
    }
    [(cell, measurement)] = made.items()
    assert measurement.device.startswith("NVIDIA H200")
    from kernel_matrix.results.noise import MOST_ELEMENTS, ratio_of
    from kernel_matrix.store.load import collect
    from kernel_matrix.store.record import outputs_of

    of_cell = [record for record in collect([KEPT / "nvidia-h200"]).records if record.case.startswith(f"{cell}/")
               and re.search("-fp32-", record.case.rpartition("/")[2].partition("gamma")[0])
               and record.outcome in ("pass", "fail")]  # fmt: skip
    figures = [outputs_of(record.metrics)["h_in"] for record in of_cell]
    known = [(ratio, min(one["elements"], MOST_ELEMENTS)) for one in figures if (ratio := ratio_of(one)) is not None]
    mean = sum(weight * ratio**2 for ratio, weight in known) / sum(weight for _, weight in known)
    assert measurement.noise["fp32/h_in"] == pytest.approx(math.sqrt(mean), rel=1e-9)


# --- History ---


@pytest.mark.slow
def test_the_history_of_a_report_may_be_a_folder_of_tables(past):
    known = history.read(past)
    assert known.problems == ()
    assert known.seconds[f"{CELL}/tokens1-fp32"] == 1.25
    assert str(known.lanes["here/any/good"].last_result) == "2026-11-22 10:00:00+00:00"
    assert [one.started[8:10] for one in known.measurements[CELL]] == ["20", "21", "22"]


@pytest.mark.slow
def test_a_broken_run_of_the_history_is_named_and_the_others_count(past):
    first, *_ = names.find(past)
    first.path("outputs").write_bytes(b"PAR1")
    known = history.read(past)
    assert "is no whole Parquet file" in known.problems[0]
    assert len(known.measurements[CELL]) == 2


def test_a_history_of_which_no_table_can_be_used_is_a_problem_and_no_end(past):
    for files in names.find(past):
        files.path("jobs").write_bytes(b"")
    known = history.read(past)
    assert "No table can be used" in known.problems[0]
    assert (known.measurements, known.tables) == ({}, ())


@pytest.mark.slow
def test_a_site_with_tables_beside_it_has_both_histories(past):
    measurement = history.Measurement(started="2026-10-01T00:00:00Z", noise={"fp32/out": 0.5})
    lanes = {"here/any/good": history.LaneHistory(message="2 of 3 cells", silent_since=history.now())}
    (past / history.FILE).write_text(history.to_json(lanes, history.now(), {CELL: (measurement,)}))
    known = history.read(past)
    assert [one.started[:7] for one in known.measurements[CELL]] == ["2026-10", *["2026-11"] * 3]
    assert known.lanes["here/any/good"].last_result is not None


# --- No query can do anything else ---

FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{file}''')",
    "COPY (SELECT 1) TO '{file}'",
    "COPY (SELECT 1) TO '{new}'",
    "WITH x AS (COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)) SELECT * FROM x",
    "WITH x AS (COPY (SELECT 1) TO '{new}' (USE_TMP_FILE false)) SELECT * FROM x",
    "ATTACH '{new}' AS other",
    "ATTACH '{new}' AS other; SELECT 1",
    "EXPORT DATABASE '{new}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA enable_external_access",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW cells",
    "CALL pragma_version()",
    "SELECT 1; SELECT 2",
    "",
    "   ",
    "-- nothing",
    "SELEC 1",
    "SELECT colour FROM cells",
    "SELECT * FROM folder",
    "SELECT 1 FROM",
    "SELECT CAST('x' AS INTEGER)",
    "SELECT '\0",
]


@pytest.mark.parametrize("query", first_are_quick(4, FORBIDDEN))
def test_a_query_that_is_no_select_of_the_views_is_one_sentence_and_changes_nothing(past, tmp_path, query):
    file = names.find(past)[0].path("cases")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = harness("query", query.format(file=file, new=tmp_path / "new"), str(past))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kernel-matrix: The query ")
    assert len(done.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7",
        "SELECT levenshtein(repeat('ab', 500000), repeat('ba', 500000))",  # one call, which nothing interrupts
    ],
    ids=["recursion", "product", "long texts"],
)
@pytest.mark.slow
def test_a_query_that_never_ends_is_one_sentence(past, query):
    command = [sys.executable, "-m", "kernel_matrix", "query", query, str(past), "--seconds", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kernel-matrix: The query has taken 1 s. --seconds gives it more time.\n"


def test_a_folder_without_tables_is_one_sentence(tmp_path):
    done = harness("query", "SELECT 1", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are no tables of results here" in done.stderr
    assert "there is no such folder" in harness("query", "SELECT 1", str(tmp_path / "nowhere")).stderr
    assert "Give a query" in harness("query").stderr


def test_a_broken_table_is_named_and_the_others_answer(past):
    first, *_ = names.find(past)
    first.path("cases").write_bytes(first.path("cases").read_bytes()[:-9])
    done = harness("query", "SELECT count(*) AS n FROM jobs", str(past), "--csv")
    assert (done.returncode, done.stdout) == (2, "n\n2\n")
    assert "is no whole Parquet file" in done.stderr


def test_pages_that_are_broken_are_one_sentence(past):
    path = names.find(past)[0].path("cases")
    whole = bytearray(path.read_bytes())
    whole[4:100] = b"\xff" * 96
    path.write_bytes(whole)
    done = harness("query", "SELECT * FROM cases", str(past))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


# --- Forms ---


def test_the_answer_is_printed_for_people_and_for_programs():
    long = "<b>" + "x" * 100 + "\x1b[31m\n"
    answer = Answer(("name", "n", "x"), ((long, 1, math.nan), ("b", None, math.inf)))
    lines = in_lines(answer)
    assert lines[0].split() == ["name", "n", "x"]
    assert lines[2].split()[0] == "<b>" + "x" * 54 + "..."
    assert lines[-1] == "(2 rows)"
    assert "\x1b" not in "".join(lines)
    assert list(csv.reader(io.StringIO(in_csv(answer))))[1] == [long, "1", "nan"]
    assert json.loads(in_json(answer)) == [{"name": long, "n": 1, "x": "nan"}, {"name": "b", "n": None, "x": "inf"}]


@pytest.mark.slow
def test_every_type_of_the_tables_can_be_printed(past):
    with opened([past, KEPT / "nvidia-h200"]) as database:
        tables = (*names.TABLES, *views.VIEWS)
        relations = [database.connection.sql(f"SELECT * FROM {table} LIMIT 2") for table in tables]
        answers = [Answer(tuple(one.columns), tuple(one.fetchall())) for one in relations]
    assert len(answers) == len(tables)
    for answer in answers:
        assert answer.rows or "transitions" in tables
        assert in_lines(answer)
        assert in_csv(answer)
        assert isinstance(json.loads(in_json(answer)), list)


def test_hostile_text_comes_back_as_it_is(tmp_path):
    write_results(tmp_path, [BAD])
    assert rows("SELECT message FROM cases", tmp_path) == [(BAD.message,)]


# --- Object stores ---


ADDRESSES = {
    "s3": "s3://bucket/history?scheme=http&endpoint_override=127.0.0.1:{port}&region=x",
    "gs": "gs://anonymous@bucket/history?scheme=http&endpoint_override=127.0.0.1:{port}&retry_limit_seconds=5",
}


@pytest.fixture(params=list(ADDRESSES))
def store(past: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of the past in a stand-in for an object store on this machine."""
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true",
                        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    command = [sys.executable, str(Path(object_stores.__file__)), request.param, str(past.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        yield ADDRESSES[request.param].format(port=server.stdout.readline().strip())
        server.terminate()


@pytest.mark.slow
def test_an_object_store_is_asked_like_a_folder(past, store):
    query = "SELECT cell, before, after, versions FROM transitions ORDER BY since"
    assert ask(query, [store]).rows == ask(query, [past]).rows
    assert harness("query", "SELECT count(*) AS n FROM jobs", store, "--csv").stdout == "n\n3\n"


def test_an_object_store_that_does_not_answer_is_one_sentence(store):
    with pytest.raises(UserError, match="it cannot be read: "):
        ask("SELECT 1", [store.replace("/history", "/nothing")])
    with pytest.raises(UserError, match="it cannot be read"):
        ask("SELECT 1", ["nowhere://bucket/history"])
    with pytest.raises(UserError, match="not both"):
        ask("SELECT 1", [store, "build/results"])


# --- Another engine ---


def documented() -> list[str]:
    """Return the queries of the page: a command of the console, and below it its output."""
    return re.findall(r"^\$ kernel-matrix query \"(.*?)\" docs/results$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_has_thirteen_queries():
    assert len(documented()) == 13


@pytest.mark.slow
def test_the_page_shows_what_its_queries_answer():
    text, (first, *_) = PAGE.read_text(), documented()
    printed = harness("query", first, "docs/results").stdout
    with opened([KEPT], rows=False) as database:
        answers = {}
        for query in documented():
            result = database.connection.execute(query)
            columns = tuple(str(column[0]) for column in result.description)
            answers[query] = in_lines(Answer(columns, tuple(result.fetchall())))
    assert printed == "\n".join(answers[first]) + "\n"
    for query, lines in answers.items():
        output = "\n".join(lines) + "\n"
        shown = text.partition(f'$ kernel-matrix query "{query}" docs/results\n')[2].partition("```")[0]
        assert shown == output, query
