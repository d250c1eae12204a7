"""``diff`` says what broke, was mended, became less exact or slower, or is gone between two runs."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from common import ROOT, few_cells, figures_of, job_of
from judges import compare, write_site
from records import TRITON, all_cases, compiled
from serving import served

from kernel_matrix import pipeline
from kernel_matrix.cli import main
from kernel_matrix.config.plan import plan
from kernel_matrix.job.accuracy import measure
from kernel_matrix.job.sample import take
from kernel_matrix.report.difference import ratio_limit
from kernel_matrix.results import history, trend
from kernel_matrix.results.history import Measurement
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record
from kernel_matrix.store.samples import of_entry as samples_of
from kernel_matrix.store.write import write as write_results

OUTPUT = "h_in"  # one of the outputs of TRITON


def noise(ratio):
    """Return the figures of an output with this noise ratio."""
    return {"rel_fro": ratio * 1e-7, "floor_rel_fro": 1e-7, "elements": 400.0}


@pytest.fixture(scope="module")
def planned(matrix):
    """Return the plan of two toolchains: a difference does not depend on how many cells there are."""
    few = few_cells(plan(matrix, "quick"))
    jobs = [job for job in few.jobs if job.platform == "cuda" and job.toolchain in ("reference", "triton-3.7")]
    return replace(few, jobs=tuple(jobs))


@pytest.fixture(scope="module")
def good(planned, passing):
    """Return records of all cases, whose outputs have the noise ratio 0.8."""
    return tuple(all_cases(planned, lambda case: passing(case, **dict.fromkeys(case.owed.outputs, noise(0.8)))))


STARTED = "2026-05-01T00:00:00Z"


def write_run(matrix, planned, records, folder, earlier=None, started=STARTED):
    dated = [replace(r, job={**r.job, "started": started, "commit": "c0ffee"}) for r in records]
    write_site(matrix, planned, dated, folder, earlier=earlier)


@pytest.fixture(scope="module")
def kept(matrix, planned, tmp_path_factory):
    """Return a function that returns the site of some records: several tests compare the same ones."""
    sites = []

    def site_of(records):
        folder = next((folder for others, folder in sites if others == tuple(records)), None)
        if folder is None:
            folder = tmp_path_factory.mktemp("kept") / "site"
            write_run(matrix, planned, records, folder)
            sites.append((tuple(records), folder))
        return folder

    return site_of


@pytest.fixture
def site(matrix, planned, kept, tmp_path):
    """Write the site of some records, as a run that started at that time."""

    def write(name, records, earlier=None, started=STARTED):
        if (earlier, started) == (None, STARTED):
            shutil.copytree(kept(records), tmp_path / name)
        else:
            write_run(matrix, planned, records, tmp_path / name, earlier, started)
        return tmp_path / name

    return write


@pytest.fixture
def diff(capsys, monkeypatch):
    """Run the command and return (exit status, standard output, standard error)."""
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*words):
        status = main(["diff", "--matrix", str(ROOT / "matrix.yaml"), *map(str, words)])
        return status, *capsys.readouterr()

    return run


def of_triton(records, change):
    return [change(r) if r.case.startswith(f"{TRITON}/") else r for r in records]


def fail(record):
    return replace(record, outcome="fail", message="out: max_abs 1 is over 0.1")


@pytest.fixture
def with_figures(planned):
    """Return a function that changes figures of OUTPUT in a record of TRITON; all else is as in ``good``."""
    by_id = {case.id: case for case in planned.cases}

    def make(**named):
        def change(record):
            case = by_id[record.case]
            outputs = dict.fromkeys(case.owed.outputs, noise(0.8)) | {OUTPUT: {**noise(0.8), **named}}
            return replace(record, metrics=figures_of(case, **outputs))

        return change

    return make


@pytest.fixture
def with_ratio(with_figures):
    """Return a function that gives OUTPUT this noise ratio in a record of TRITON."""
    return lambda ratio: with_figures(**noise(ratio))


@pytest.mark.slow
def test_two_equal_runs_do_not_differ(planned, site, good, diff):
    before, now = site("before", good), site("now", good)
    status, text, _ = diff(before, now)
    assert status == 0
    cells = {case.cell for case in planned.cases if not case.exclusion}
    assert f"nothing differs; in the same state: {len(cells)} cells not red, 0 red" in text, (
        "all of these records are believed"
    )
    status, text, _ = diff(before, now, "--json")
    found = json.loads(text)
    assert (status, found["broke"], found["less_exact"], found["gone"], found["slower"]) == (0, [], [], [], [])
    assert "Nothing differs from" in diff(before, now, "--markdown")[1]


@pytest.mark.slow
def test_what_broke_is_named_with_the_command_that_repeats_it(site, good, diff):
    before, now = site("before", good), site("now", of_triton(good, fail))
    status, text, _ = diff(before, now)
    assert status == 1
    assert f"broke: {TRITON}: pass (ran) -> fail (ran): out: max_abs 1 is over 0.1" in text
    assert f"  repeat it: kernel-matrix run --platform cuda --case {TRITON}" in text
    status, text, _ = diff(before, now, "--markdown")
    assert status == 1
    assert "## Broke" in text
    assert f"| {TRITON.replace('_', '&#95;')} | pass (ran) | fail (ran) | out: max&#95;abs 1 is over 0.1 |" in text
    [one] = json.loads(diff(before, now, "--json")[1])["broke"]
    assert (one["cell"], one["state"]) == (TRITON, "fail")


@pytest.mark.slow
def test_what_was_mended_is_no_reason_for_a_status(site, good, diff):
    status, text, _ = diff(site("before", of_triton(good, fail)), site("now", good))
    assert status == 0
    assert f"mended: {TRITON}: fail (ran) -> pass (ran)" in text


@pytest.mark.parametrize("how", ["unavailable", "compiled", "no record"])
@pytest.mark.slow
def test_what_has_no_result_now_or_only_of_less_evidence_is_gone_and_not_broken(planned, site, good, diff, how):
    by_id = {case.id: case for case in planned.cases}
    lost = {"unavailable": lambda r: Record(r.case, "unavailable", message="no machine"),
            "compiled": lambda r: compiled(by_id[r.case])}  # fmt: skip
    now = of_triton(good, lost[how]) if how in lost else [r for r in good if not r.case.startswith(f"{TRITON}/")]
    status, text, _ = diff(site("before", good), site("now", now))
    assert status == 0
    assert f"gone: {TRITON}: pass (ran) -> " in text
    assert "broke:" not in text


@pytest.mark.slow
def test_a_cell_that_is_not_planned_any_more_is_gone(matrix, planned, site, good, diff, tmp_path):
    before = site("before", good)
    less = replace(planned, jobs=tuple(job for job in planned.jobs if job.toolchain != "triton-3.7"))
    whole = write_site(matrix, less, good, tmp_path / "less")
    assert TRITON not in {cell.id for cell in whole.cells}
    assert f"gone: {TRITON}: pass (ran) -> not planned" in json_lines(diff(before, tmp_path / "less", "--json")[1])


def json_lines(text):
    return "\n".join(f"gone: {one['cell']}: {one['before']} -> {one['after']}" for one in json.loads(text)["gone"])


@pytest.mark.slow
def test_an_output_whose_noise_ratio_grew_is_less_exact(site, good, diff, with_ratio):
    before, now = site("before", good), site("now", of_triton(good, with_ratio(3.0)))
    status, text, _ = diff(before, now)
    assert status == 1
    assert f"less exact: {TRITON}, " in text
    assert f"{OUTPUT}: noise ratio 0.8 -> 3, over " in text
    assert "## Less exact" in diff(before, now, "--markdown")[1]
    assert {one["output"] for one in json.loads(diff(before, now, "--json")[1])["less_exact"]} == {OUTPUT}
    assert diff(now, before)[0] == 0, "more exact is no fault"


@pytest.mark.slow
def test_runs_over_other_cases_are_not_compared_and_that_is_said(site, good, diff, with_ratio):
    """A full tier has other cases than a quick one, and so another noise ratio, without anything being less exact."""
    worse = of_triton(good, with_ratio(3.0))
    first = next(record.case for record in worse if record.case.startswith(f"{TRITON}/"))
    _, text, _ = diff(site("before", good), site("now", [record for record in worse if record.case != first]))
    assert "outputs is not compared: the two runs measured other cases." in text
    dtype = "fp32" if "-fp32-gamma" in first else "bf16"
    assert f"less exact: {TRITON}, {dtype} " not in text


@pytest.mark.slow
def test_a_share_of_misrounded_elements_that_grew_is_less_exact(site, good, diff, with_figures):
    def narrow(share):
        return with_figures(itemsize=2.0, misrounded=share, floor_misrounded=0.01, elements=1000.0)

    before, now = (site(name, of_triton(good, narrow(share))) for name, share in (("a", 0.01), ("b", 0.08)))
    status, text, _ = diff(before, now)
    assert status == 1
    assert f"{OUTPUT}: share of misrounded elements 0.01 -> 0.08, over " in text
    assert diff(before, site("c", of_triton(good, narrow(0.012))))[0] == 0


@pytest.mark.slow
def test_the_summary_of_a_pull_request_says_what_is_less_exact(matrix, planned, site, good, with_ratio, tmp_path):
    now = of_triton(good, with_ratio(3.0))
    write_site(matrix, planned, now, tmp_path / "new", against=site("old", good))
    summary = (tmp_path / "new" / "summary.md").read_text()
    assert "outputs less exact." in summary
    assert "## Less exact" in summary


def test_another_order_of_summation_is_not_less_exact():
    """Two kernels that sum the same numbers in different orders: over 200 draws no pair is outside the limit."""
    draws = np.random.default_rng(7)
    for elements in (5, 20, 150, 1000):
        for _ in range(50):
            values = draws.standard_normal((elements, 64)).astype(np.float32)
            golden = values.astype(np.float64).sum(axis=1)
            pairwise = values.reshape(elements, 32, 2).sum(axis=2, dtype=np.float32)
            halves, other = pairwise.sum(axis=1), values[:, ::-1].reshape(elements, 32, 2).sum(axis=2).sum(axis=1)
            floor = measure(np.add.reduce(values, axis=1), golden).rel_fro
            one, two = (measure(result.astype(np.float32), golden).rel_fro / floor for result in (halves, other))
            assert two <= ratio_limit(one, elements)[0]


def test_the_limit_follows_the_spread_of_earlier_runs():
    alone, few = ratio_limit(1.0, 10_000)[0], ratio_limit(1.0, 10_000, [1.0] * 4)[0]
    assert alone == few == pytest.approx(1.3)
    steady, why = ratio_limit(1.0, 10_000, [1.0] * 5)
    assert steady == pytest.approx(1.04)
    assert why == "the scatter of 10000 elements"
    scattered, why = ratio_limit(1.0, 10_000, [1.0, 1.4, 1.1, 0.9, 1.2])
    assert scattered == pytest.approx(1.9)
    assert why == "the spread of 5 earlier runs"


@pytest.mark.slow
def test_only_measurements_on_the_same_device_count(site, good, diff, with_ratio):
    """Five earlier runs with the same ratio make the limit strict; runs on another device do not."""
    [[one]] = [runs for cell, runs in history.read(site("past", good)).measurements.items() if cell == TRITON]
    runs = tuple(one.model_copy(update={"started": f"2026-05-0{day}T00:00:00Z"}) for day in range(1, 7))
    past = history.History(measurements={TRITON: runs})
    before = site("before", good, past, "2026-05-08T00:00:00Z")
    slightly = [replace(r, job={**r.job, "device": "a GPU"}) for r in of_triton(good, with_ratio(1.0))]
    elsewhere = [replace(r, job={**r.job, "device": "another"}) for r in slightly]
    after = history.read(before)
    strict, text, _ = diff(before, site("now", slightly, after, "2026-05-09T00:00:00Z"))
    assert strict == 1
    assert " elements)" in text
    assert "and a quarter" not in text
    assert diff(before, site("other", elsewhere, after, "2026-05-09T00:00:00Z"))[0] == 0


def test_the_history_keeps_a_run_once_and_the_last_of_many():
    one = Measurement(started="2026-05-01", device="d", noise={"fp32/out": 0.8}, speed={"c": 2.0}, seconds={"c": 1e-3})
    kept = history.with_run(history.with_run({}, {"cell": one}), {"cell": one})
    assert kept == {"cell": (one,)}
    for number in range(100):
        kept = history.with_run(kept, {"cell": one.model_copy(update={"started": f"2026-06-{number:03}"})})
    assert len(kept["cell"]) == history.MOST_MEASUREMENTS
    assert kept["cell"][-1].started == "2026-06-099"
    text = history.to_json({}, history.now(), kept)
    assert history.from_json(text.encode()).measurements == kept


@pytest.mark.slow
def test_a_site_s_history_has_the_noise_and_the_times_of_its_cells(planned, site, passing):
    case = next(case for case in planned.cases if case.timed and not case.exclusion)
    record = passing(case, **{OUTPUT: noise(2.0)})
    times = {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": 2.0, "time.rounds": 5.0}
    folder = site("one", [replace(record, metrics={**record.metrics, **times})])
    [measurement] = history.read(folder).measurements[case.cell.id]
    ratios = {**dict.fromkeys(case.owed.outputs, 0.5), OUTPUT: 2.0}
    assert measurement.noise == {f"{case.axes['dtype']}/{output}": ratio for output, ratio in ratios.items()}
    assert list(measurement.speed.values()) == [2.0]
    assert list(measurement.seconds.values()) == [1e-3]
    assert (measurement.started, measurement.commit, measurement.device) == ("2026-05-01T00:00:00Z", "c0ffee", "a GPU")


def series(speeds, device="d"):
    return [Measurement(started=f"2026-05-{day:02}", commit=f"c{day}", device=device, speed={"case": speed})
            for day, speed in enumerate(speeds, 1)]  # fmt: skip


def scatter(count, level=2.0, seed=0):
    return [level * float(np.exp(value)) for value in np.random.default_rng(seed).normal(0, 0.02, count)]


@pytest.mark.slow
def test_a_change_of_speed_that_lasts_is_found_with_its_first_run():
    runs = series([*scatter(12), *scatter(4, 1.5, 1)])
    [one] = trend.slower("cell", runs, runs[11].started)
    assert (one.since, one.commit, one.runs) == ("2026-05-13", "c13", 16)
    assert (one.before, one.after) == (pytest.approx(2.0, rel=0.05), pytest.approx(1.5, rel=0.05))


@pytest.mark.slow
@pytest.mark.parametrize("slow", [[1.0], [1.0, 1.0]])
def test_one_or_two_slow_runs_are_no_change(slow):
    for place in (15, 8):
        speeds = [*scatter(place), *slow, *scatter(15 - place, seed=1)]
        assert trend.slower("cell", series(speeds), "") == []


@pytest.mark.slow
def test_faster_is_not_slower():
    assert trend.slower("cell", series([*scatter(12), *scatter(4, 2.6, 1)]), "") == []


@pytest.mark.slow
def test_a_change_that_the_former_run_could_know_of_is_not_new():
    runs = series([*scatter(12), *scatter(6, 1.5, 1)])
    assert trend.slower("cell", runs, runs[13].started), "the former run had two runs since the change"
    assert trend.slower("cell", runs, runs[14].started) == []


def test_a_run_on_another_device_is_no_change():
    runs = [*series(scatter(12)), *series(scatter(16, 1.5, 1), "other")[12:]]
    assert trend.slower("cell", runs, "") == []
    assert trend.too_short([runs]) == 1


@pytest.mark.slow
def test_scatter_alone_is_rarely_taken_for_a_change():
    alarms = sum(bool(trend.slower("cell", series(scatter(14, seed=seed)), "")) for seed in range(100))
    assert alarms <= 3


def test_a_case_with_few_runs_is_not_judged_and_counted():
    runs = series(scatter(trend.FEWEST - 1))
    assert trend.slower("cell", runs, "") == []
    assert trend.too_short([runs, series(scatter(trend.FEWEST))]) == 1


@pytest.fixture
def timed(planned, site, passing):
    """Write a site of runs with these speeds, one a day, after the runs of an earlier site: the last one's report."""
    case = next(case for case in planned.cases if case.timed and not case.exclusion)

    def report(name, speed, day, past):
        times = {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": speed, "time.rounds": 5.0}
        record = passing(case)
        record = replace(record, metrics={**record.metrics, **times})
        return site(name, [record], history.History(measurements=past), f"2026-05-{day:02}T00:00:00Z")

    def write(name, speeds, earlier=None, first=1):
        past = history.read(earlier or report("first", 1.0, 1, {})).measurements
        *_, one = past[case.cell.id]
        past = past if earlier else {}
        for day, speed in enumerate(speeds[:-1], first):
            then = {"started": f"2026-05-{day:02}T00:00:00Z", "speed": dict.fromkeys(one.speed, speed)}
            past = history.with_run(past, {case.cell.id: one.model_copy(update=then)})
        return report(name, speeds[-1], first + len(speeds) - 1, past)

    return write


@pytest.mark.slow
def test_slower_is_said_and_is_no_reason_for_a_status(timed, diff):
    speeds = [*scatter(12), *scatter(3, 1.5, 1)]
    before = timed("before", speeds[:12])
    now = timed("now", speeds[12:], before, 13)
    status, text, _ = diff(before, now)
    assert status == 0
    assert "slower: " in text
    assert "since 2026-05-13T00:00:00Z (commit c0ffee; 15 runs)" in text
    assert "## Slower" in diff(before, now, "--markdown")[1]


@pytest.mark.slow
def test_without_the_library_one_sentence_asks_for_it(timed, diff, monkeypatch):
    monkeypatch.setattr(trend, "is_available", lambda: False)
    folder = timed("one", [2.0])
    status, text, _ = diff(folder, folder)
    assert status == 0
    assert text.splitlines()[-1] == trend.LACKING
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["trends"][-1]
    assert trend.LACKING.endswith(f"pip install '{needed}'")


@pytest.fixture
def sampled(passing, planned, tmp_path, monkeypatch):
    """Write a folder of results whose cases have samples: the samples of TRITON hold this array."""
    monkeypatch.setattr(pipeline, "plan_for", lambda *_: planned)  # the whole plan has no other result here

    def write(name, array, **facts):
        (tmp_path / name).mkdir()
        cases = [case for case in planned.cases if case.cell.id == TRITON]
        # One object, which all records of a suite share.
        records, job = [], {**job_of(cases[0]), "job": "cuda.triton-3.7", "device": "x"}
        for case in cases:
            record = passing(case, **{OUTPUT: {"elements": float(array.size), "ulp_p99": 1.0, "largest": 4.0}})
            key = f"{case.cell.op}.{case.cell.direction}/{case.name}"
            samples = samples_of({OUTPUT: take(key, OUTPUT, array)})
            named = {"inputs.sha256": "ab" * 8, **facts}
            records.append(replace(record, samples=samples, facts=named, job=job))
        if name == "a":  # what comes after it has the same figures
            states = {cell.state for cell in compare(planned, records).cells if cell.cell.id == TRITON}
            assert states == {"pass"}, "these records are believed"
        write_results(tmp_path / name, job, records)
        return tmp_path / name

    return write


def stepped(array, steps):
    return (array.view(np.int32) + np.int32(steps)).view(np.float32)


ARRAY = np.linspace(1, 2, 400, dtype=np.float32).reshape(20, 20)


@pytest.mark.slow
def test_an_output_further_from_the_former_run_than_that_was_from_the_golden_is_less_exact(sampled, diff):
    before = sampled("a", ARRAY)
    for steps, expected in ((0, 0), (6, 0), (7, 1)):
        status, text, _ = diff(before, sampled(str(steps), stepped(ARRAY, steps)))
        assert status == expected, steps
        assert (f"{TRITON}, fp32 {OUTPUT}: ULP from the former run 1 -> {steps}, over 6 " in text) == bool(expected)
        assert ("[0, 0] was 1 and is 1.00000" in text) == bool(expected)
        same = re.search(r"(\d+) of \1 outputs have the same bits in both runs", text)
        assert (int(same[1]) > 1) if steps == 0 else (same is None)


@pytest.mark.slow
def test_outputs_of_other_inputs_are_not_compared(sampled, diff):
    before, now = sampled("a", ARRAY), sampled("b", stepped(ARRAY, 1000), **{"inputs.sha256": "cd" * 8})
    status, text, _ = diff(before, now)
    assert status == 0
    assert "No outputs were compared element by element: that needs samples of both runs." in text


@pytest.mark.slow
def test_a_folder_of_results_is_a_run(matrix, planned, site, good, diff, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    cell = [r for r in good if r.case.startswith(f"{TRITON}/")]
    junit.write(results / "cuda.triton-3.7.xml", "cuda.triton-3.7", [fail(r) for r in cell], {"device": "x"})
    status, text, _ = diff(site("before", good), results)
    assert status == 1
    assert f"broke: {TRITON}: pass (ran) -> fail (" in text
    assert "1 broke, " in text, "what was not planned in the former run and has no result did not break"
    assert diff(results, results)[0] == 0


@pytest.fixture
def published(tmp_path):
    """Publish a folder over HTTP and return its address."""
    with served(tmp_path) as address:
        yield address.rstrip("/")


@pytest.mark.slow
def test_a_published_report_is_a_run(site, good, diff, published):
    now, before = site("now", of_triton(good, fail)), site("before", good)
    for page in ("compat.json", ""):
        status, text, _ = diff(f"{published}/before/{page}", now)
        assert status == 1
        assert f"broke: {TRITON}" in text
    (before / "history.json").unlink()
    assert diff(f"{published}/before/", now)[0] == 1, "a history is not needed"


@pytest.mark.slow
def test_input_that_cannot_be_used_is_refused(site, good, diff, published, tmp_path):
    now = site("now", good)
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "compat.json").write_text('{"run": 1}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "cuda.triton-3.7.xml").write_text("<testsuites>")
    for name, message in [
        (tmp_path / "nowhere", "no such"),
        (tmp_path / "empty", "it holds no results"),
        (tmp_path / "other", "It is no report that can be compared."),
        (tmp_path / "broken", "A run is compared only as a whole."),
        (tmp_path / "nowhere" / "compat.json", "Name a site, or a folder of results."),
        (f"{published}/nowhere/compat.json", "Name the address of a published compat.json."),
        ("http://127.0.0.1:1/compat.json", "Name the address of a published compat.json."),
    ]:
        status, _, error = diff(name, now)
        assert status == 2, name
        assert message in error, name
        assert "Traceback" not in error


@pytest.mark.slow
def test_a_hostile_report_cannot_break_out_of_the_markdown(site, good, diff):
    before, now = site("before", good), site("now", of_triton(good, fail))
    compat = json.loads((now / "compat.json").read_text())
    for cell in compat["cells"]:
        cell["reason"] = "a | b\n# Approved <img src=x>"
    (now / "compat.json").write_text(json.dumps(compat))
    text = diff(before, now, "--markdown")[1]
    assert "<img" not in text
    assert "\n# Approved" not in text
