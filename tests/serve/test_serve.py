"""serve shows a run that goes on in another process, from its results and journals, and never greener than its end."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from types import SimpleNamespace

import pytest
from common import ROOT, Doubles, figures_of, harness
from serving import serving
from shown import Page

from kernel_matrix import pipeline
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.job.journal import Journal
from kernel_matrix.results.history import History
from kernel_matrix.run.proven import Mark
from kernel_matrix.serve import jobs as live_jobs
from kernel_matrix.serve import page as live_page
from kernel_matrix.serve.jobs import LiveJob, LiveJobs, LiveRun
from kernel_matrix.serve.page import LivePage, in_words
from kernel_matrix.serve.server import PageServer
from kernel_matrix.store.record import Record
from kernel_matrix.store.write import write

CELL = "here/any/good/double.forward"
CASES = [f"{CELL}/tokens{tokens}" for tokens in (1, 2, 3)]
DOUBLES = load(ROOT / "tests" / "support" / "doubles" / "matrix.yaml")
METRICS = figures_of(plan(DOUBLES, "quick").cases[0])  # of a case that passed, and carried canaries


@pytest.fixture
def project(doubles: Doubles):
    doubles.edit("limits:", "limits: { case: 15, job: 120, attempts: 2 } #")
    return pipeline.load(doubles.root / "matrix.yaml")


@pytest.fixture
def held(project):
    """Hold the lock of a job in another process, as a run does, and write its journal."""
    folder = project.build / "jobs"
    (folder / "here.good").mkdir(parents=True)
    code = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder / "here.good.lock")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield folder / "here.good"
    process.kill()
    process.wait()
    process.stdout.close()


class ProvenJournal(Journal):
    """The journal of a job as its run keeps it: each entry is proven as soon as it is written."""

    def __init__(self, folder, key="k" * 32):
        super().__init__(folder / "journal.jsonl", key)
        self.begin()
        self.take_place()
        self.mark = Mark(folder.parent.parent, folder.name, "")
        self.mark.take_place()

    def write(self, kind, **fields):
        super().write(kind, **fields)
        self.prove()

    def prove(self):
        for _ in self.new_entries():
            pass
        self.mark.note(self)


def journal_of(folder, key="k" * 32):
    return ProvenJournal(folder, key)


def end(journal, case, outcome, **fields):
    given = {"action": "run", "attempt": 1, "seconds": 1.0, **fields}
    if outcome == "pass" and given["action"] == "run":
        given.setdefault("metrics", METRICS)
    journal.write("end", case=case, outcome=outcome, **given)


def page_of(project) -> LivePage:
    return LivePage(project, pipeline.plan(project, "quick"), History())


def shown(project) -> Page:
    return Page(project.build / "serve")


@pytest.mark.slow
def test_a_case_that_only_a_journal_knows_is_missing_and_says_what_the_journal_says(project, held):
    journal = journal_of(held)
    end(journal, CASES[0], "pass")
    end(journal, CASES[1], "fail", message="max_abs 1 is over 0.1")
    page = page_of(project)
    assert page.refresh()
    row = shown(project).rows[CELL]
    assert row["cases"] == {"tokens1": "missing", "tokens2": "missing", "tokens3": "missing"}
    assert row["in_journal"] == "p", "a failed case is tried again first"
    end(journal, CASES[1], "fail", message="max_abs 1 is over 0.1", detail="a traceback")
    page.wait_until = 0.0
    assert page.refresh()
    assert shown(project).rows[CELL]["in_journal"] == "pF"
    results = shown(project).cells[CELL]["results"]
    assert results["tokens1"]["reason"].startswith("The journal of its job says pass. It counts when the job has ended")
    assert results["tokens2"]["message"] == "max_abs 1 is over 0.1"
    assert results["tokens2"]["detail"] == "a traceback"
    run = shown(project).overview["run"]
    assert run["cases_by_state"] == {"missing": 3}, "nothing is green, and the states add up to what was asked for"
    assert run["left_out"] == 36
    running = shown(project).overview["run_notes"]["running"]
    assert running.startswith("0 of 1 jobs have ended, and 1 run. 2 of 3 cases have ended.")
    assert re.search(r"About 1 minute is left, until \d\d:\d\d UTC\.$", running)


def with_expectations(doubles, of_tokens):
    """Expect cases to fail; ``of_tokens`` has what else is expected of a number of tokens. Return the project."""
    path = doubles.root / "matrix.yaml"
    values = {"outcome": "fail", "match": "max_abs", "reason": "it is wrong"}
    values |= {"owner": "the tests", "link": "lock.txt", "until": "'numpy>=99'"}
    entries = [
        ", ".join(f"{name}: {value}" for name, value in {"where": where, **values, **other}.items())
        for tokens, other in of_tokens.items()
        for where in [f"{{ toolchain: good, tokens: {tokens} }}"]
    ]
    path.write_text(f"{path.read_text()}expectations: [{', '.join(f'{{ {entry} }}' for entry in entries)}]\n")
    return pipeline.load(path)


def in_journal(project, held, **facts):
    """Return the letters of a journal in which all cases have passed, in a job with these facts."""
    journal = journal_of(held)
    journal.write("job", job="here.good", pid=1, facts={"version.numpy": "2.0", **facts})
    for case in CASES:
        end(journal, case, "pass")
    page_of(project).refresh()
    return shown(project).rows[CELL]["in_journal"]


@pytest.mark.slow
def test_a_case_that_passes_and_is_expected_to_fail_is_fixed_and_another_version_fixes_nothing(doubles, held):
    assert in_journal(with_expectations(doubles, {2: {}, 3: {"versions": "[numpy<2]"}}), held) == "pXp"


@pytest.mark.slow
def test_an_expectation_that_has_ended_fixes_nothing(doubles, held):
    ended = {1: {"until": "'numpy>=1'"}, 2: {"until": "2020-01-01"}}
    assert in_journal(with_expectations(doubles, ended), held) == "ppp"


@pytest.mark.slow
def test_a_compilation_that_is_expected_to_fail_is_fixed_too(doubles, held):
    lowering = {"outcome": "error", "stage": "lower", "match": "no such function"}
    project = with_expectations(doubles, {2: lowering})
    journal = journal_of(held)
    code = {"action": "compile", "metrics": {"artifact.bytes": 9.0}, "facts": {"artifact.kind": "cubin"}}
    end(journal, CASES[0], "pass", **code)
    end(journal, CASES[1], "pass", **code)
    page_of(project).refresh()
    assert shown(project).rows[CELL]["in_journal"] == "cX"


@pytest.mark.slow
def test_a_pass_without_proof_is_no_pass_in_the_page_of_a_run(project, held):
    end(journal_of(held), CASES[0], "pass", metrics={**METRICS, "out.max_abs": 1.0})
    page_of(project).refresh()
    assert shown(project).rows[CELL]["in_journal"] == "E"


@pytest.mark.slow
def test_a_pass_waits_for_the_case_that_carries_the_canaries_of_its_cell(project, held):
    journal = journal_of(held)
    without = {name: value for name, value in METRICS.items() if not name.startswith("canary.")}
    end(journal, CASES[0], "pass", metrics=without)
    page = page_of(project)
    page.refresh()
    assert shown(project).overview["cells"]["in_journal"] == []
    end(journal, CASES[1], "pass")
    page.wait_until = 0.0
    page.refresh()
    assert shown(project).rows[CELL]["in_journal"] == "pp"


@pytest.mark.slow
def test_a_result_takes_the_place_of_its_journal(project, held):
    end(journal_of(held), CASES[0], "pass")
    page = page_of(project)
    page.refresh()
    project.results.mkdir()
    records = [Record(case, "error", "run", "launch", "it broke in the end") for case in CASES]
    write(project.results, {"job": "here.good", "started": "2026-01-01T00:00:00Z"}, records)
    page.wait_until = 0.0
    assert page.refresh()
    row = shown(project).rows[CELL]
    assert row["state"] == "error"
    assert shown(project).overview["cells"]["in_journal"] == []
    assert "1 of 1 jobs have ended" in shown(project).overview["run_notes"]["running"]


@pytest.mark.slow
def test_nothing_is_written_anew_where_nothing_has_changed(project, held, monkeypatch):
    seconds = itertools.count(1)  # each look at the clock takes a second, however busy the machine is
    monkeypatch.setattr(live_page, "time", SimpleNamespace(monotonic=lambda: next(seconds), time=time.time))
    journal = journal_of(held)
    end(journal, CASES[0], "pass")
    page = page_of(project)
    assert page.refresh()
    page.wait_until = 0.0
    assert not page.refresh()
    end(journal, CASES[1], "pass")
    assert page.refresh()
    end(journal, CASES[2], "pass")
    assert not page.refresh(), "making the page takes a part of the time only"


@pytest.mark.slow
def test_the_journal_of_an_earlier_run_does_not_count_for_a_job_that_waits(project, held):
    end(journal_of(held), CASES[0], "pass")
    old = time.time() - 3600
    os.utime(held / "journal.jsonl", (old, old))
    page = page_of(project)
    page.refresh()
    assert shown(project).overview["cells"]["in_journal"] == []
    assert "and 0 run. 0 of 3 cases" in shown(project).overview["run_notes"]["running"]


@pytest.mark.slow
def test_a_forged_or_broken_entry_and_all_behind_it_gives_nothing(project, held):
    journal = journal_of(held)
    end(journal, CASES[0], "pass")
    with (held / "journal.jsonl").open("a") as file:
        file.write(f'{{"entry": "end", "case": "{CASES[1]}", "outcome": "pass"}}\n{{"entry": "end"')
    journal.prove()
    page = page_of(project)
    page.refresh()
    assert shown(project).rows[CELL]["in_journal"] == "p"
    end(journal, CASES[2], "pass")
    jobs = LiveJobs(project, pipeline.plan(project, "quick").jobs, pipeline.plan(project, "quick").cases)
    assert set(jobs.look().jobs[0].ends) == {CASES[0]}


def test_a_journal_that_was_changed_gives_nothing_until_its_job_begins_anew(project, held):
    journal = journal_of(held)
    end(journal, CASES[0], "fail")
    path = held / "journal.jsonl"
    path.write_text(path.read_text().replace('"fail"', '"pass"'))
    jobs = LiveJobs(project, pipeline.plan(project, "quick").jobs, pipeline.plan(project, "quick").cases)
    assert jobs.look().jobs[0].ends == {}
    end(journal_of(held), CASES[1], "pass")
    assert set(jobs.look().jobs[0].ends) == {CASES[1]}


def test_a_job_that_begins_anew_is_read_anew(project, held):
    end(journal_of(held), CASES[0], "pass")
    jobs = LiveJobs(project, pipeline.plan(project, "quick").jobs, pipeline.plan(project, "quick").cases)
    assert set(jobs.look().jobs[0].ends) == {CASES[0]}
    (held / "journal.jsonl").rename(held / "journal.old")
    end(journal_of(held, "l" * 32), CASES[2], "pass")
    assert set(jobs.look().jobs[0].ends) == {CASES[2]}


def test_a_pause_while_the_clocks_are_read_makes_no_process_younger(held, monkeypatch):
    began, pauses = time.time(), itertools.count(60, 60)  # the process of ``held`` holds its lock by now
    clocks = time.time, time.clock_gettime
    monkeypatch.setattr(time, "time", lambda: clocks[0]() + next(pauses))
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clocks[1](clock) + next(pauses))
    [pid] = live_jobs._held(held.parent).values()
    assert live_jobs._process_start(pid) <= began


def test_the_cases_of_a_part_of_a_job_are_those_that_its_run_has_written(project, held):
    (held / "job.json").write_text(json.dumps({"cases": [{"id": CASES[1]}]}))
    jobs = LiveJobs(project, pipeline.plan(project, "quick").jobs, pipeline.plan(project, "quick").cases)
    assert jobs.look().jobs[0].cases == (CASES[1],)


@pytest.mark.slow
def test_without_a_run_the_page_is_that_of_the_last_report(doubles):
    options = ("--matrix", str(doubles.root / "matrix.yaml"))
    (doubles.root / "build" / "results").mkdir(parents=True)
    assert harness("report", *options).returncode == 1
    project = pipeline.load(doubles.root / "matrix.yaml")
    page = page_of(project)
    assert not page.refresh()
    assert page.served == project.site
    time.sleep(0.02)
    write(project.results, {"job": "here.good"}, [Record(case, "pass", "run") for case in CASES])
    assert page.refresh(), "a result came after the report"
    assert page.served == project.build / "serve"
    assert shown(project).overview["run_notes"]["running"] == ""


@pytest.mark.slow
def test_the_lock_of_a_dead_process_is_no_run(project):
    (project.build / "jobs").mkdir(parents=True)
    (project.build / "jobs" / "here.good.lock").write_text("")
    page = page_of(project)
    page.refresh()
    assert shown(project).overview["run_notes"]["running"] == ""
    assert not live_jobs._held(project.build / "jobs")


def run_of(**ends):
    """Return a run of two jobs of ten cases each; so many cases have ended."""
    jobs = []
    for name, count in ends.items():
        cases = tuple(f"{name}/{number}" for number in range(10))
        done = dict.fromkeys(cases[:count])
        jobs.append(LiveJob(name, cases, count == 10, count > 0, {} if count == 10 else done))
    return LiveRun(tuple(jobs), began=1_000_000.0)


@pytest.mark.parametrize(
    ("ends", "elapsed", "words"),
    [
        ({"a": 10, "b": 0}, 600, "1 of 2 jobs have ended, and 0 run. 10 of 20 cases"),
        ({"a": 10, "b": 0}, 600, "About 10 minutes are left, until 14:06 UTC."),
        ({"a": 5, "b": 5}, 6000, "About 1.7 hours are left"),
        ({"a": 0, "b": 0}, 5, "About 2 minutes are left"),
    ],
)
def test_what_is_left_follows_from_the_pace_so_far_or_from_earlier_runs(ends, elapsed, words):
    run = run_of(**ends)
    seconds = {case: 12.0 for job in run.jobs for case in job.cases}
    assert words in in_words(run, seconds, 2, run.began + elapsed)


def test_without_known_times_no_end_is_promised():
    words = in_words(run_of(a=3), {}, 2, 1_000_100.0)
    assert words.startswith("0 of 1 jobs have ended, and 1 run. 3 of 10 cases")
    assert "left" not in words
    assert in_words(LiveRun(), {}, 2, 0.0) == ""


@pytest.fixture
def server(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "index.html").write_text("new")
    (tmp_path / "b" / "index.html").write_text("old")
    (tmp_path / "b" / "summary.md").write_text("summary")
    (tmp_path / "secret").write_text("secret")
    server = PageServer(0, lambda: (tmp_path / "a", tmp_path / "b"))
    with serving(server):
        yield server


def get(server, path, **headers):
    headers.setdefault("Cookie", f"{server.cookie}={server.token}")
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def test_the_server_has_the_newest_page_and_lets_no_browser_keep_it(server):
    response, text = get(server, "/")
    assert (response.status, text) == (200, "new")
    assert response.getheader("Cache-Control") == "no-store"
    assert get(server, "/summary.md")[1] == "summary"
    assert get(server, "/nothing")[0].status == 404


@pytest.mark.parametrize(
    "path", ["/../secret", "/%2e%2e/secret", "/a/../../secret", "//secret", "/..%2fsecret", "/\\..\\secret"]
)
def test_the_server_gives_nothing_outside_of_its_folders(server, path):
    response, text = get(server, path)
    assert (response.status, "secret" in text.lower().replace(path, "")) == (404, False)


def test_the_server_answers_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "/", Host="evil.example:80")[0].status == 403
    assert get(server, "/", Host=f"localhost:{server.server_address[1]}")[0].status == 200


def test_whoever_knows_the_address_gets_a_cookie_and_nobody_else_sees_anything(server):
    for cookie in ("", "=", f"{server.cookie}=other", f"other={server.token}", "a=\x80"):
        response, text = get(server, "/", Cookie=cookie)
        assert (response.status, "new" in text) == (403, False)
    assert get(server, "/?token=other", Cookie="")[0].status == 403
    _, _, path = server.address.rpartition(f":{server.server_address[1]}")
    response, _ = get(server, path, Cookie="")
    assert (response.status, response.getheader("Location")) == (303, "/")
    cookie, *words = response.getheader("Set-Cookie").split("; ")
    assert {*words} >= {"HttpOnly", "SameSite=Strict"}
    assert get(server, "/", Cookie=f"other=1; {cookie}")[1] == "new"


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_no_page_of_another_origin_includes_the_data(server, site, status):
    response, _ = get(server, "/", **{"Sec-Fetch-Site": site})
    assert (response.status, response.getheader("Cross-Origin-Resource-Policy")) == (status, "same-origin")


def test_links_in_the_folder_are_not_followed(server, tmp_path):
    (tmp_path / "a" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "a" / "root").symlink_to("/")
    (tmp_path / "b" / "link").write_text("another file of this name")
    (tmp_path / "a" / "index.html").unlink()
    (tmp_path / "a" / "index.html").symlink_to(tmp_path / "secret")
    for path in ("/", "/link", f"/root{tmp_path}/secret", "/root/etc/passwd"):
        assert get(server, path)[0].status == 404
    (tmp_path / "b").rename(tmp_path / "c")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    assert get(server, "/summary.md")[0].status == 404


def test_a_name_that_no_file_can_have_is_not_there(server, capfd):
    for path in ("/%00", f"/{'x' * 300}", "/index.html/x"):
        assert get(server, path)[0].status == 404
    assert capfd.readouterr().err == ""


def test_a_port_that_is_in_use_is_one_sentence(doubles, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = harness("serve", "--matrix", str(doubles.root / "matrix.yaml"), "--port", str(port))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line == f"kernel-matrix: --port {port}: it is in use. Give another one, such as --port {port % 65535 + 1}."


def test_a_port_that_is_no_port_is_one_sentence(doubles):
    done = harness("serve", "--matrix", str(doubles.root / "matrix.yaml"), "--port", "99999")
    assert (done.returncode, done.stderr) == (2, "kernel-matrix: --port 99999: a port is a number from 0 to 65535.\n")


@pytest.mark.slow
def test_once_writes_the_page_and_ends(doubles):
    done = harness("serve", "--matrix", str(doubles.root / "matrix.yaml"), "--once")
    assert done.returncode == 0
    index = doubles.root / "build" / "serve" / "index.html"
    assert done.stdout == f"dashboard: {index}\n"
    assert index.is_file()


@pytest.mark.slow
def test_the_page_fills_while_another_process_runs_and_ctrl_c_ends_the_server(here: Doubles):
    matrix = ("--matrix", str(here.root / "matrix.yaml"))
    command = [sys.executable, "-m", "kernel_matrix"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    serving = subprocess.Popen([*command, "serve", *matrix, "--port", "0"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    try:
        whole = re.search(r"http://\S+", serving.stdout.readline())[0]
        address, _, _ = whole.partition("?")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.open(whole).close()
        run = subprocess.run([*command, "run", *matrix, "--executor", "current", "--toolchain", "wrong"], env=env,
                             stdout=subprocess.DEVNULL, check=False)  # fmt: skip
        assert run.returncode == 1
        until = time.monotonic() + 300
        states: dict[str, int] = {}
        while "pass" not in states and time.monotonic() < until:
            time.sleep(0.3)
            with browser.open(f"{address}data/overview.js") as answer:
                text = answer.read().decode()
            overview = json.loads(text[text.index(",") + 1 : text.rindex(")")])
            states = overview["run"]["cases_by_state"] if not overview["run_notes"]["running"] else {}
        serving.send_signal(signal.SIGINT)
        output, _ = serving.communicate(timeout=120)
    finally:
        serving.kill()
        serving.wait()
    assert states == {"pass": 2, "fail": 1}, "nothing is missing of what the run was not asked for"
    assert (serving.returncode, output) == (0, "The dashboard is no longer served.\n")
