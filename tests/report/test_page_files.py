"""The page's files of data hold what the document holds, are safe in a script, and belong to one report only."""

from __future__ import annotations

import json
import math
import subprocess
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import pytest
from common import few_cells, write_results
from judges import judged, write_site
from records import TRITON
from shown import Page

from kernel_matrix.config.plan import plan
from kernel_matrix.report import page_files, site
from kernel_matrix.report.cells import Sources, number
from kernel_matrix.report.document import cell_as_json
from kernel_matrix.report.page_data import CellChunk, HistoryData, Overview, PageData, SpeedData, Transition
from kernel_matrix.report.page_files import write_data
from kernel_matrix.report.scripts import encoded, write_script
from kernel_matrix.results import history
from kernel_matrix.results.history import History, Measurement
from kernel_matrix.results.states import STATES
from kernel_matrix.store.record import Record

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\0\u2028\u2029 ]]> <!--"


@pytest.fixture(scope="module")
def planned(matrix):
    """Return the plan of a few targets: what a file says of a cell does not depend on how many there are."""
    return few_cells(plan(matrix, "quick"))


@pytest.fixture
def make(matrix, planned, tmp_path):
    """Write the site of some records and return (the document, its page)."""

    def write(records, broken=(), **others):
        whole = write_site(matrix, planned, records, tmp_path / "site", broken=broken, **others)
        return whole, Page(tmp_path / "site")

    return write


@pytest.fixture(scope="module")
def passed(matrix, planned, passing, tmp_path_factory):
    """Return the document and the page of results that passed; no test may change the page."""
    folder = tmp_path_factory.mktemp("passed") / "site"
    return write_site(matrix, planned, good(planned, passing), folder), Page(folder)


@pytest.fixture(scope="module")
def hostile(matrix, planned, tmp_path_factory):
    """Return the page of a case whose texts are hostile."""
    folder = tmp_path_factory.mktemp("hostile") / "site"
    record = Record(planned.cases[0].id, "error", "run", "launch", HOSTILE, HOSTILE, job={"device": HOSTILE})
    write_site(matrix, planned, [record], folder, broken=[HOSTILE])
    return Page(folder)


def record_outputs(record):
    """Return the names of the outputs that a record has figures of."""
    return {key.rpartition(".")[0] for key in record.metrics if key.endswith(".rel_fro")}


def good(planned, passing):
    return [passing(case) for case in planned.cases if not case.expectations]


@pytest.mark.slow
def test_every_file_is_of_its_model(passed):
    _, page = passed
    Overview.model_validate(page.overview)
    for place in range(len(page.chunks)):
        CellChunk.model_validate(page.value(f"cells/{place}"))
    assert page.overview["has"] == ["agreement"]
    assert {path.stem for path in (page.site / "data").glob("*.js")} == {"overview", *page.overview["has"]}
    properties = PageData.model_json_schema()["properties"]
    assert {"overview", "cells", "speed", "agreement", "toolchains", "checks", "history"} == set(properties)


@pytest.mark.slow
def test_the_data_are_those_of_the_document(passed, planned, passing):
    records = {record.case: record for record in good(planned, passing)}
    whole, page = passed
    jobs = [*whole.jobs]
    assert list(page.rows) == [cell.id for cell in whole.cells], "in the order of the grid"
    for cell in whole.cells:
        row, shown = page.rows[cell.id], page.cells[cell.id]
        assert (row["state"], row["evidence"], row["stale"]) == (cell.state, cell.evidence, cell.stale_cases)
        assert row["cases"] == {name: result["state"] for name, result in shown["results"].items()}
        assert Counter(row["cases"].values()) == cell.cases
        assert shown["noise"] == json.loads(cell_as_json(cell))["noise"]
        for name, result in shown["results"].items():
            record = records.get(f"{cell.id}/{name}")
            if result["state"] != "pass" or record is None:
                continue
            figures = {f"{output}.{figure}": value for output, of_output in result["outputs"].items()
                       for figure, value in of_output.items() if figure != "noise_ratio"}  # fmt: skip
            outputs = {key: number(value) for key, value in record.metrics.items() if key in figures}
            assert figures == outputs
            assert len(result["outputs"]) == len(record_outputs(record))
            assert result["repeat"].endswith(f"--case {record.case}")
            assert result["job"] in jobs
            assert result["job"] == record.job


@pytest.mark.slow
def test_a_chunk_has_the_cells_of_a_lane_together_and_files_of_an_older_report_are_removed(
    make, planned, passing, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(page_files, "CHUNK", 4_000)
        _, page = make(good(planned, passing))
    before = len(page.chunks)
    assert before > 20
    places = [(name.rsplit("/", 1)[0], row["chunk"]) for name, row in page.rows.items()]
    for name, row in page.rows.items():
        assert name in page.chunks[row["chunk"]]["cells"]
    lanes = dict.fromkeys(lane for lane, _ in places)
    chunks = {lane: sorted({chunk for other, chunk in places if other == lane}) for lane in lanes}
    for numbers in chunks.values():
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no other lane stands between"
    assert max(path.stat().st_size for path in (page.site / "data" / "cells").glob("*.js")) < 40_000
    (page.site / "data" / "speed.js").write_text("old")
    _, page = make(good(planned, passing))
    assert len(page.chunks) < before
    assert not (page.site / "data" / "speed.js").exists()
    assert not list(page.site.rglob("*.part"))


@pytest.mark.slow
def test_hostile_texts_are_data_and_end_no_script(hostile, planned):
    case, page = planned.cases[0], hostile
    for path in page.site.glob("data/**/*.js"):
        text = path.read_text(encoding="utf-8")
        assert not set("<>&\0\u2028\u2029") & set(text), path
    result = page.cells[case.cell.id]["results"][case.name]
    assert (result["reason"], result["detail"], result["job"]["device"]) == (HOSTILE, HOSTILE, HOSTILE)
    assert page.overview["problems"] == [HOSTILE]


@pytest.mark.parametrize("text", ["\ud800 alone", "\u0000", "𝔸", "\\u003c", '"); alert(1); ("', "a\nb"])
def test_any_text_comes_back_as_it_was(text, tmp_path):
    write_script(tmp_path / "data" / "x.js", "x", encoded({"text": text}))
    assert Page(tmp_path).value("x") == {"text": text}


@pytest.mark.slow
def test_a_number_that_is_not_finite_is_a_word(make, planned, passing):
    words = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    cases = [case for case in planned.cases if case.cell.id == TRITON and not case.timed][: len(words)]
    records = []
    for case, (word, value) in zip(cases, words.items(), strict=True):
        assert json.loads(encoded({"a": [1.5, value], "b": {"c": value}})) == {"a": [1.5, word], "b": {"c": word}}
        record = passing(case, h_in={"max_abs": value, "rel_fro": value, "nan": 1.0})
        records.append(replace(record, outcome="fail", message="x", seconds=abs(value)))
    _, page = make(records)
    results = page.cells[TRITON]["results"]
    assert [results[case.name]["outputs"]["h_in"]["max_abs"] for case in cases] == [*words]
    Overview.model_validate(page.overview)


@pytest.mark.slow
def test_a_huge_message_is_cut_and_says_where_the_rest_is(make, planned):
    case, huge = planned.cases[0], "y" * 2_000_000
    _, page = make([Record(case.id, "error", "run", "launch", huge, huge)])
    result = page.cells[case.cell.id]["results"][case.name]
    assert result["reason"] == "y" * 100_000 + "\n… 1900000 more characters are in the results."
    assert len(page.rows[case.cell.id]["reason"]) < 400
    assert sum(path.stat().st_size for path in (page.site / "data").rglob("*.js")) < 3_000_000


@pytest.mark.slow
def test_every_state_has_a_letter_and_a_meaning(passed):
    _, page = passed
    assert [state["name"] for state in page.overview["states"]] == list(STATES)
    assert len({state["letter"] for state in page.overview["states"]} | {"."}) == len(STATES) + 1
    assert all(state["meaning"] and state["color"] for state in page.overview["states"])


@pytest.mark.slow
def test_what_only_a_journal_says_stands_beside_the_states(matrix, make, planned, tmp_path):
    whole, page = make([])
    assert page.overview["cells"]["in_journal"] == []
    case = [case for case in planned.cases if case.cell.id == TRITON][1]
    with judged(planned, []) as results:
        sources = Sources(matrix, replace(results, in_journal={TRITON: {case.name: "pass"}}))
        write_data(whole, sources, tmp_path / "live")
    rows = Page(tmp_path / "live").rows
    names = list(rows[TRITON]["cases"])
    assert rows[TRITON]["in_journal"] == "." * names.index(case.name) + "p"
    assert rows[TRITON]["cases"][case.name] == "missing", "nothing is green before its job was judged"
    assert {row["in_journal"] for name, row in rows.items() if name != TRITON} == {""}


@pytest.mark.slow
def test_the_history_has_a_trend_for_each_device_with_several_runs(make, planned, passing):
    runs = [Measurement(started=f"2025-01-0{day}", commit="c", device="a GPU", noise={"fp32/out": float(day)})
            for day in (1, 2)]  # fmt: skip
    other = Measurement(started="2025-01-03", device="another", speed={"x": 2.0})
    _, page = make(good(planned, passing), earlier=History(measurements={TRITON: (*runs, other)}))
    history = HistoryData.model_validate(page.value("history"))
    [trend] = [trend for trend in history.trends if trend.cell == TRITON]
    assert (trend.device, trend.noise["fp32/out"][:2], len(trend.started)) == ("a GPU", [1, 2], len(trend.commits))


@pytest.mark.slow
def test_the_history_has_the_transitions_since_an_earlier_report(matrix, planned, passing, tmp_path):
    case = next(case for case in planned.cases if case.cell.id == TRITON)
    before = good(planned, passing)
    now = [record if record.case != case.id else Record(case.id, "error", "run", "launch", "it broke", job=record.job)
           for record in before]  # fmt: skip
    write_site(matrix, planned, before, tmp_path / "a")
    write_site(matrix, planned, now, tmp_path / "b", against=tmp_path / "a")
    [transition] = Page(tmp_path / "b").value("history")["transitions"]
    assert Transition.model_validate(transition).cell == TRITON
    assert (transition["before"], transition["after"]) == ("pass (ran)", "error (planned)")
    assert transition["reason"] == "it broke"


@pytest.mark.slow
def test_the_history_has_the_transitions_of_the_tables_of_earlier_runs(make, planned, passing, tmp_path):
    case = next(case for case in planned.cases if case.cell.id == TRITON)
    for day, outcome, torch in ((1, "pass", "2.12"), (2, "fail", "2.13")):
        job = {**passing(case).job, "job": "cuda.triton-3.7", "started": f"2026-11-0{day}T00:00:00Z",
               "commit": f"c{day}", "version.torch": torch}  # fmt: skip
        write_results(tmp_path / "past", [replace(passing(case), outcome=outcome, message="x" * day, job=job)])
    earlier = history.read(tmp_path / "past")
    _, page = make(good(planned, passing), earlier=earlier)
    [transition] = page.value("history")["transitions"]
    assert (transition["cell"], transition["before"], transition["after"]) == (TRITON, "pass", "fail")
    assert (transition["commit_before"], transition["commit"]) == ("c1", "c2")
    assert transition["versions"]["torch"] == ["2.12", "2.13"]


@pytest.mark.slow
def test_the_speed_file_has_the_timed_cases(make, planned, passing):
    case = next(case for case in planned.cases if case.timed and not case.exclusion)
    times = {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": 2.0, "time.rounds": 5.0}
    record = passing(case)
    whole, page = make([replace(record, metrics={**record.metrics, **times})])
    assert SpeedData.model_validate(page.value("speed")).cases == list(whole.speed)


@pytest.mark.slow
def test_node_takes_every_file_as_a_script(hostile):
    """A browser runs these files; Node reads scripts by the same rules."""
    paths = [str(path) for path in hostile.site.glob("data/**/*.js")]
    code = """
        const vm = require("vm"), fs = require("fs"), names = [];
        const context = vm.createContext({ kernelMatrix: { put: (name, value) => names.push(name) } });
        for (const path of process.argv.slice(1)) vm.runInContext(fs.readFileSync(path, "utf8"), context);
        console.log(names.length);
    """
    done = subprocess.run(["node", "-e", code, *paths], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(paths)


def test_the_page_is_built_from_the_sources_beside_it():
    """``ci/nox -s page`` builds it and compares every byte; this test needs no npm."""
    app = site.APP.parent
    kinds = {".ts", ".css", ".html", ".mjs", ".py"}
    names = [
        path.relative_to(app).as_posix()
        for folder in ("src", "scripts")
        for path in sorted((app / folder).rglob("*"), key=lambda path: path.relative_to(app / folder).as_posix())
        if path.suffix in kinds
    ]
    assert "src/main.ts" in names
    digest = sha256()
    for name in (*names, "package.json", "package-lock.json"):
        digest.update(f"{name}\n".encode() + (app / name).read_bytes())
    kept = (site.APP / "sources.sha256").read_text()
    assert kept == f"{digest.hexdigest()}\n", "build it anew: ci/nox -s page -- --write"


def test_the_licences_of_what_the_page_holds_go_with_it():
    text = (site.APP / "licenses.txt").read_text()
    assert "@observablehq/plot 0.6.17 (ISC)" in text
    assert "licenses.txt" in site.APP_FILES
    assert text.count("-" * 80) > 10, "one part for each package"
