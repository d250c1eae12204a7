"""The benchmark: what is wrong is not timed, times have a spread, and its results are results like any others."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import CPU, ROOT, copy_doubles, harness, records_in
from judges import audited, judged_files
from shown import Page

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.file_readers import concerned
from kernel_matrix.config.load import load
from kernel_matrix.config.reads import content_of, read_by_job
from kernel_matrix.job.budget import Pair
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.report.make_document import distinct_commits
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import is_bench_record
from kernel_matrix.tools.bench.bench_plan import cases_at, places_of, toolchains_at
from kernel_matrix.tools.bench.inside.contenders import Rules, judge
from kernel_matrix.tools.bench.inside.cpu import BusyMeter, CpuClock, last_cache
from kernel_matrix.tools.bench.inside.measure import Amount, bandwidth, measure
from kernel_matrix.tools.bench.inside.protocol import AbsentError, Distance, Yardstick
from kernel_matrix.tools.bench.inside.summary import copies_needed, summary
from kernel_matrix.tools.bench.processes import Asked, _environment
from kernel_matrix.tools.bench.run import Wish, _groups, bench
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

RULES = Rules(factor=4, rounded=1.5, ulps=4, cap=1e-2, rival=1e-3)
AMOUNT = Amount(least=5, most=20, seconds=1e9)
YARDSTICK = Yardstick(Pair(1e-7, 1e-7), Pair(1e-7, 1e-7), 1.0, 4)


class FakeClock:
    """Say of each run the seconds that it returns itself; nothing waits."""

    method, cache_bytes, most_copies = "fake", 1000, 64

    def __init__(self):
        self.sampled = []

    def sampler(self, runs):
        place = iter(range(10**6))

        def sample():
            run = runs[next(place) % len(runs)]
            self.sampled.append(run.__name__)
            return run()

        return sample

    def host_seconds(self, runs):
        return 1e-6

    def more(self, runs):
        return {"peak_bytes": 12.0}

    def copy(self, size):
        return timed("copy", [1e-3])

    def disturbance(self):
        return ""


def timed(name, seconds):
    """Return a run of this name that takes each of these seconds in turn."""
    place = iter(range(10**6))

    def run():
        return seconds[next(place) % len(seconds)]

    run.__name__ = name
    return run


class FakeContender:
    def __init__(self, name, error, seconds, finite=True):
        self.name, self.error, self.seconds, self.finite = name, error, seconds, finite

    def distances(self):
        return {"out": Distance(Pair(self.error, self.error), self.finite)}

    def runs(self, copies):
        self.copies = copies
        return [timed(self.name, self.seconds)] * copies


class FakeSubject:
    traffic, copy_bytes, x_bytes = 100, 100, 50

    def __init__(self, **contenders):
        self.contenders = contenders

    def yardsticks(self):
        return {"out": YARDSTICK}

    def contender(self, name):
        made = self.contenders[name]
        if isinstance(made, Exception):
            raise made
        return made


def measured(own=("kernel",), **contenders):
    clock = FakeClock()
    return measure(FakeSubject(**contenders), list(contenders), own, clock, RULES, AMOUNT), clock


def test_the_figures_of_samples_are_the_median_and_two_percentiles():
    made = summary([float(number) for number in range(1, 102)])
    assert (made.median, made.p5, made.p95, made.samples) == (51, 6, 96, 101)
    assert summary([3.0, 1.0, 2.0, 10.0]).median == 2.5


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [1.0, 0.0], [math.inf], [-1.0]])
def test_samples_that_are_no_times_give_no_figure(samples):
    with pytest.raises(ValueError, match="sample"):
        summary(samples)


@pytest.mark.parametrize(("size", "cache", "most", "copies"), [(10, 100, 64, 20), (1000, 100, 64, 2), (1, 100, 64, 64)])
def test_the_copies_are_twice_as_large_as_the_cache(size, cache, most, copies):
    assert copies_needed(size, cache, most) == copies


def test_a_wrong_kernel_is_not_timed():
    results, clock = measured(kernel=FakeContender("kernel", 1e-2, [1e-3]), eager=FakeContender("eager", 0.0, [2e-3]))
    assert results["kernel"].outcome == "fail"
    assert "rel_fro 0.01 is over" in results["kernel"].message
    assert "median_us" not in results["kernel"].figures
    assert set(clock.sampled) == {"eager"}
    assert results["eager"].figures["median_us"] == pytest.approx(2000)


def test_a_kernel_that_leaves_an_element_unwritten_is_not_timed():
    results, clock = measured(kernel=FakeContender("kernel", 0.0, [1e-3], finite=False))
    assert (results["kernel"].outcome, results["kernel"].message) == ("fail", "out: NaN or Inf")
    assert clock.sampled == []


def test_an_error_that_is_no_number_is_over_every_limit():
    for own in (True, False):
        made = judge({"out": Distance(Pair(math.nan, math.nan))}, {"out": YARDSTICK}, RULES, own=own)
        assert made.faults
        assert made.rel_fro == math.inf


def test_a_cap_that_plain_code_exceeds_too_is_said():
    ill = replace(YARDSTICK, floor=Pair(2.78, 1e-3), conditioning=Pair(1e-3, 1e-6))
    [fault] = judge({"alpha": Distance(Pair(2.79, 1e-3))}, {"alpha": ill}, RULES, own=True).faults
    assert fault == "alpha: max_abs 2.79 is over 0.01, and plain code has 2.78"
    [fault] = judge({"alpha": Distance(Pair(2.79, 0.0))}, {"alpha": YARDSTICK}, RULES, own=True).faults
    assert fault == "alpha: max_abs 2.79 is over 1.91e-06"


def test_a_kernel_owes_every_output_and_a_rival_at_least_one():
    both = {"out": YARDSTICK, "m": YARDSTICK}
    one = {"out": Distance(Pair(0.0, 0.0))}
    assert judge(one, both, RULES, own=True).faults == ("m: the output is missing",)
    assert judge(one, both, RULES, own=False).faults == ()
    assert judge({}, both, RULES, own=False).faults == ("no output was compared",)


def test_a_rival_has_a_limit_of_its_own():
    results, _ = measured(
        kernel=FakeContender("kernel", 1e-7, [1e-3]),
        rough=FakeContender("rough", 5e-4, [1e-3]),
        other=FakeContender("other", 5e-3, [1e-3]),
    )
    assert [results[name].outcome for name in ("kernel", "rough", "other")] == ["pass", "pass", "fail"]
    assert results["rough"].figures["rel_fro"] == 5e-4


def test_a_contender_that_fails_or_is_absent_leaves_the_others():
    class Breaks(FakeContender):
        def runs(self, copies):
            raise RuntimeError("no graph")

    results, _ = measured(
        gone=AbsentError("not installed"),
        broken=ZeroDivisionError("no"),
        late=Breaks("late", 0.0, [1.0]),
        kernel=FakeContender("kernel", 0.0, [1e-3]),
    )
    assert (results["gone"].outcome, results["gone"].message) == ("unavailable", "not installed")
    assert (results["broken"].outcome, results["broken"].message) == ("error", "ZeroDivisionError: no")
    assert (results["late"].outcome, "median_us" in results["late"].figures) == ("error", False)
    assert results["kernel"].outcome == "pass"


def test_contenders_are_timed_in_turns_and_their_spread_is_kept():
    results, clock = measured(
        kernel=FakeContender("kernel", 0.0, [1e-3, 5e-3, 5e-3, 9e-3]), eager=FakeContender("eager", 0.0, [2e-3])
    )
    figures = results["kernel"].figures
    assert figures["samples"] == 20
    assert figures["p5_us"] < figures["median_us"] < figures["p95_us"]
    turns = [name for place, name in enumerate(clock.sampled) if not place or clock.sampled[place - 1] != name]
    assert turns.count("kernel") > 3, "one after the other would be one turn of each"
    assert figures["copies"] == 20
    assert figures["rotated_bytes"] == 2000
    assert (figures["host_us"], figures["peak_bytes"]) == (1.0, 12.0)


def test_the_bandwidth_counts_what_is_read_and_what_is_written():
    assert bandwidth(FakeClock(), 10**9, AMOUNT)["copy_gbs"] == pytest.approx(2000)


def test_what_other_processes_use_is_seen(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 0 0 0 1000 0 0 0 0\n")
    meter = BusyMeter(stat)
    stat.write_text("cpu 900000 0 0 101000 0 0 0 0\n")  # far more than this process could have used
    assert meter.share() == pytest.approx(0.9, abs=0.01)
    stat.write_text("cpu 900000 0 0 201000 0 0 0 0\n")
    assert meter.share() == 0.0
    assert meter.share() is None, "no time has passed"
    assert BusyMeter(tmp_path / "nothing").share() is None


def test_a_busy_cpu_is_said(tmp_path, monkeypatch):
    clock = CpuClock(lambda size: lambda: size, lambda: None, 1000)
    monkeypatch.setattr(clock._meter, "share", lambda: 0.4)
    assert clock.disturbance() == "other processes used 40% of the CPU time"
    monkeypatch.setattr(clock._meter, "share", lambda: 0.01)
    assert clock.disturbance() == ""
    monkeypatch.setattr(clock._meter, "share", lambda: None)
    assert "not known" in clock.disturbance()


def test_the_last_cache_is_the_largest(tmp_path):
    for place, size in enumerate(("32K", "1024K", "16M")):
        (tmp_path / f"index{place}").mkdir()
        (tmp_path / f"index{place}" / "size").write_text(f"{size}\n")
    assert last_cache(tmp_path) == 16 << 20
    assert last_cache(tmp_path / "nothing") == 32 << 20


def run_bench(doubles, *toolchains, **wish):
    project = pipeline.load(doubles.root / "matrix.yaml")
    lines = []
    wish = Wish(toolchains=toolchains, executor="current", **{"quick": True, **wish})
    files = bench(project, Machine((CPU,)), wish, lines.append)
    records = {file.stem.split(".")[1]: records_in(file) for file in files}
    return project, records, "\n".join(lines)


ENDS = ("segfault", "leaves")
FAULTY = ("wrong", "writes-nothing", "raises")


@pytest.fixture(scope="module")
def benched(tmp_path_factory, bytecode):
    """Time a good kernel, kernels that are wrong and kernels that end their process in one run."""
    doubles = copy_doubles(tmp_path_factory.mktemp("benched") / "doubles", bytecode)
    return run_bench(doubles, "good", *FAULTY, *ENDS, quick=False)


@pytest.mark.slow
def test_the_doubles_are_timed_and_their_results_are_like_any_others(benched):
    project, records, text = benched
    assert [record.outcome for record in records["good"]] == ["pass", "pass"]
    record = records["good"][0]
    assert record.case == "bench:here/any/good/double.forward/tokens1"
    assert record.action == "run"
    figures = record.metrics
    assert figures["bench.p5_us"] <= figures["bench.median_us"] <= figures["bench.p95_us"]
    assert figures["bench.ratio.numpy"] == pytest.approx(figures["bench.numpy.median_us"] / figures["bench.median_us"])
    assert figures["bench.floor_share"] == pytest.approx(figures["bench.floor_us"] / figures["bench.median_us"])
    assert figures["bench.floor_us"] == pytest.approx(2 * 4 * 4096 / figures["bench.copy_gbs"] / 1e3)
    assert record.facts["bench.rival.somebody"] == "unavailable: somebody is not installed"
    assert record.facts["bench.threads"] == "1"
    assert "at rest" in record.facts["bench.method"]
    assert record.job["device"] == "test"
    assert "of the floor" in text
    collected = collect([project.results])
    assert len(collected.records) == 2 * len(records), "the file and its tables are one run"
    assert all(is_bench_record(record) for record in collected.records)
    plan = pipeline.plan(project, "quick")
    comparison = judged_files(project, plan, [project.results])
    assert comparison.unplanned == 0
    assert comparison.counts == {"missing": len(plan.cases)}, "the benchmark makes no case pass"


@pytest.mark.slow
def test_the_view_times_has_the_benchmark_and_the_view_states_has_not(benched):
    words = (str(benched[0].results),)
    answer = harness(
        "query", "SELECT cell, method, seconds > 0, p5 <= p95, ratio > 0, floor_share > 0 FROM times", *words
    )
    row = ["here/any/good/double.forward", "bench", *["true"] * 4]
    assert [line.lower().split() for line in answer.stdout.splitlines()[2:4]] == [row, row], answer
    assert "(2 rows)" in answer.stdout, "no other kernel has a time"
    assert "(0 rows)" in harness("query", "SELECT * FROM states", *words).stdout


@pytest.mark.slow
def test_a_kernel_that_is_wrong_has_a_record_without_a_time(benched):
    _, records, text = benched
    assert {name: [record.outcome for record in records[name]] for name in FAULTY} == {
        "wrong": ["fail"] * 2,
        "writes-nothing": ["fail"] * 2,
        "raises": ["error"] * 2,
    }
    for name in FAULTY:
        for record in records[name]:
            names = [figure for figure in record.metrics if figure.endswith("_us") or ".ratio." in figure]
            assert names == [], name
    assert "ZeroDivisionError: the launch was refused" in records["raises"][0].message
    assert "double.forward/tokens1: fail: out:" in text


@pytest.mark.slow
def test_a_kernel_that_ends_the_process_costs_its_own_times_alone(benched):
    _, records, _ = benched
    assert [record.outcome for record in records["good"]] == ["pass", "pass"]
    assert [(record.outcome, record.stage) for record in records["segfault"]] == [("error", "crash")] * 2
    assert "SIGSEGV" in records["segfault"][0].message
    assert [record.outcome for record in records["leaves"]] == ["error", "error"]


@pytest.mark.slow
def test_a_kernel_that_hangs_is_ended(doubles):
    doubles.edit("  limit: 60", "  limit: 15")
    _, records, _ = run_bench(doubles, "hang", "good")
    assert (records["hang"][0].outcome, records["hang"][0].stage) == ("error", "timeout")
    assert records["good"][0].outcome == "pass"


@pytest.mark.slow
def test_an_interrupt_ends_the_processes_that_compile(doubles):
    def interrupt(*_):
        raise KeyboardInterrupt

    before, began = signal.signal(signal.SIGUSR1, interrupt), time.monotonic()
    timer = threading.Timer(4, signal.pthread_kill, [threading.main_thread().ident, signal.SIGUSR1])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_bench(doubles, "hang", parallel=2)
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - began < 30, "the limit of a process is 60 seconds"


def test_a_toolchain_that_is_not_there_is_unavailable_and_has_no_time(doubles):
    doubles.edit(
        "good: { backend: good, lock: lock.txt, requires: [numpy]",
        "good: { backend: good, lock: lock.txt, requires: [nothing-like-it]",
    )
    _, records, text = run_bench(doubles, "good")
    assert records["good"][0].outcome == "unavailable"
    assert "nothing-like-it is not installed" in records["good"][0].message
    assert "not timed" in text


def test_toolchains_with_other_variables_are_timed_in_other_processes(matrix, tmp_path):
    machine = Machine((Device("cpu", "a CPU", ("x86-64-v3",)),))
    (place,) = places_of(matrix, machine)
    project = SimpleNamespace(root=tmp_path, build=tmp_path, matrix=matrix)
    groups = list(_groups(project, place, Wish(), lambda _: SimpleNamespace(python="one"), print))
    of_one_process = [set(group.toolchains) for group in groups]
    assert {"tvm-0.27-searched"} in of_one_process, "a variable chooses its kernels"
    assert any({"reference", "tvm-0.27"} <= names for names in of_one_process)


def test_what_is_emulated_or_only_compiled_is_never_timed(matrix):
    machine = Machine((Device("cpu", "a CPU", ("x86-64-v3",)), Device("nvidia", "a GPU", ("sm_90",))))
    places = {place.platform: place for place in places_of(matrix, machine)}
    assert set(places) == {"cpu-llvm", "cuda"}, "software devices are no hardware"
    assert "triton-3.7" not in toolchains_at(matrix, places["cpu-llvm"]), "its interpreter has no time"
    assert "tvm-0.27" not in toolchains_at(matrix, places["cuda"]), "it only compiles there"


def test_the_shapes_are_those_of_the_kind_of_device(matrix):
    machine = Machine((Device("cpu", "a CPU", ("x86-64-v3",)), Device("nvidia", "a GPU", ("sm_90",))))
    of_cpu, of_gpu = (cases_at(matrix, place) for place in places_of(matrix, machine))
    assert {case.axes["tokens"] for case in of_cpu} == {1024}
    assert {(case.axes["tokens"], case.axes["hidden"]) for case in of_gpu if "hidden" in case.axes} == {
        *((2048, 1280), (4096, 2560), (8192, 4096), (8192, 7168))
    }
    place = places_of(matrix, machine)[1]
    few = {(case.axes["tokens"], case.axes.get("hidden")) for case in cases_at(matrix, place, shapes="decode")}
    assert few >= {(1, 4096), (128, 7168)}
    with pytest.raises(UserError, match="There are: decode"):
        cases_at(matrix, place, shapes="prefill")
    directions = {(case.op, case.direction) for case in of_gpu}
    assert {(op, d) for op, spec in matrix.ops.items() for d in spec.directions} < directions
    assert ("layer", "step") in directions


def test_the_process_knows_where_the_rivals_are(doubles, monkeypatch):
    project = pipeline.load(doubles.root / "matrix.yaml")
    asked = Asked(places_of(project.matrix, Machine((CPU,)))[0], (), (), ())
    monkeypatch.setenv("BENCH_PEERS", "/peers")
    environment = _environment(project, asked, SimpleNamespace(seen=str), Path("harness"))
    assert environment["BENCH_PEERS"] == "/peers"


def test_nothing_to_time_is_an_error(doubles):
    project = pipeline.load(doubles.root / "matrix.yaml")
    with pytest.raises(UserError, match="no device of these platforms"):
        bench(project, Machine(()), Wish())
    with pytest.raises(UserError, match="no case of the benchmark has this"):
        bench(project, Machine((CPU,)), Wish(cases=("tripled",), executor="current"))
    with pytest.raises(UserError, match="no toolchain is left"):
        bench(project, Machine((CPU,)), Wish(toolchains=("bad",), executor="current"))


def test_an_axis_without_a_value_is_an_error(doubles):
    doubles.edit("quick: [{ tokens: 1 }]", "quick: [{}]")
    project = pipeline.load(doubles.root / "matrix.yaml")
    with pytest.raises(UserError, match="no shape says the axis 'tokens'"):
        cases_at(project.matrix, places_of(project.matrix, Machine((CPU,)))[0], quick=True)


@pytest.mark.slow
def test_a_changed_benchmark_makes_no_kept_result_stale():
    matrix = load(ROOT / "matrix.yaml")
    of_bench = ["benchmarks/clocks.py", "src/kernel_matrix/tools/bench/run.py"]
    assert concerned(matrix, of_bench).everything == ""
    content = content_of(matrix)
    assert content["bench"]
    assert read_by_job({**content, "bench": {}}, "cuda", "cpp") == read_by_job(content, "cuda", "cpp")


@pytest.mark.slow
def test_what_is_left_when_the_time_is_over_is_missing(doubles):
    _, records, _ = run_bench(doubles, "hang", limit=3.0)
    assert records["hang"][0].outcome == "missing"
    assert "the time of the benchmark was over" in records["hang"][0].message
    assert records["hang"][0].metrics == {}


@pytest.mark.slow
def test_a_rival_may_be_timed_in_some_cases_alone_and_a_first_call_beforehand_has_its_time(doubles):
    doubles.edit("rivals: [numpy, somebody]", "rivals: [numpy, somebody]\n  only: { numpy: { tokens: 2 } }")
    _, records, text = run_bench(doubles, "good", quick=False, parallel=2)
    one, two = records["good"]
    assert "bench.ratio.numpy" not in one.metrics
    assert "bench.ratio.numpy" in two.metrics
    for record in (one, two):
        assert record.metrics["bench.first_call_s"] > 0
        assert record.job["bench.compiled"] == "beforehand, 2 processes at a time"
    assert "compiled in" in text


def test_of_several_abbreviations_of_a_commit_the_longest_is_named():
    assert distinct_commits(["c0c8dd4", "c0c8dd4a1b2c", "c0c8dd4a1b2c+changes", "ffff"]) == (
        *("c0c8dd4a1b2c", "c0c8dd4a1b2c+changes", "ffff"),
    )
    assert distinct_commits(["abc", "abcdef0123"]) == ("abc", "abcdef0123"), "so few characters name no commit"


@pytest.mark.slow
def test_the_dashboard_has_the_benchmark_and_the_audit_finds_nothing(benched):
    project, records, _ = benched
    with judging.judged(project, pipeline.plan(project, "quick"), [project.results]) as results:
        report = write_dashboard(project, results)
    assert report.differences == ()
    by_toolchain = {(one.toolchain, one.case): one for one in report.document.bench}
    good, wrong = by_toolchain["good", "tokens1"], by_toolchain["wrong", "tokens1"]
    assert good.time is not None
    assert good.time.median_us == pytest.approx(records["good"][0].metrics["bench.median_us"])
    assert set(good.rivals) == {"numpy"}
    assert good.device == "test"
    assert (wrong.time, wrong.rivals, wrong.outcome) == (None, {}, "fail")
    assert Page(project.site).value("speed")["bench"][0]["op"] == "double"
    assert report.document.run.unplanned == 0
    path = project.site / "compat.json"
    changed = json.loads(path.read_text())
    next(one for one in changed["bench"] if one["time"])["time"]["median_us"] /= 2
    path.write_text(json.dumps(changed))
    differences = audited(project, pipeline.plan(project, "quick"))
    assert any("bench.median_us" in difference for difference in differences), "a faster time is seen"
