"""Provide Chromium, and the sites that the tests of the page open in it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

VIEWS = ("grid", "gaps", "accuracy", "speed", "compare", "toolchains", "checks", "history", "machines", "help")
CPU = "cpu-llvm/x86-64-v3"
PASSING = f"{CPU}/reference/mhc_pre.forward"
COMPARED = json.dumps({"lines": [{
    "at": "tests/test_a.py:44", "call": "np.allclose", "allows": 0.01, "budget": 1.2e-6,
    "faults": {"a row of zeros": [3, 0], "one more rounding, to TF32": [3, 3]},
}, {
    "at": "tests/test_a.py:50", "call": "np.allclose", "anything": True, "faults": {"a row of zeros": [1, 0]},
}, {
    "at": "tests/test_a.py:60", "call": "np.allclose", "allows": 3.0, "faults": {"a row of zeros": [1, 0]},
}]})  # fmt: skip
WATCHED = "17 of 18 checks; not asked: layouts (the kernel refuses offset)"
FAILING = f"{CPU}/inductor/mhc_pre.forward"
BROKEN = f"{CPU}/inductor/sinkhorn.forward"
DIFFERING = f"{CPU}/tvm-0.27/mhc_pre.backward"  # its runs on the same inputs give other bits
ERROR = "RuntimeError: PassManager::run failed: no such instruction"
# Chromium draws a window with its tabs also where nobody sees it. Its shell has none, and takes half of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Return the system's Chromium, one for all tests of a process."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        if os.environ.get("KERNEL_MATRIX_CHECKS"):
            pytest.fail("needs Chromium, which .ci/run installs: apt-get install chromium-headless-shell")
        pytest.skip("needs Chromium: apt-get install chromium-headless-shell")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page of the browser that keeps all that goes wrong in it."""

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)

    def open(self, place: str = "") -> Page:
        """Open a place of the site, such as ``#speed``, and wait until it is drawn."""
        kept = list(self.faults)
        self.page.goto("about:blank")
        self.faults[:] = kept  # what is asked for meanwhile fails when its page is left
        self.page.goto(f"{self.address}{place}")
        self.page.wait_for_selector('html[data-ready="yes"]')
        self.settled()
        return self.page

    def settled(self) -> None:
        """Wait until every part that is loaded later is there."""
        self.until("!document.querySelector('.loading, [aria-busy=true]')")

    def until(self, expression: str, seconds: float = 120) -> None:
        """Wait until an expression holds. The page's policy refuses Playwright's own way, which evaluates text."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            if time.monotonic() > end:
                pytest.fail(f"after {seconds} s not: {expression}")
            self.page.wait_for_timeout(20)

    def press_square(self, cell: str) -> None:
        """Press the square of a cell, where need be after all cells are shown, and wait for its details."""
        if not self.page.query_selector("[data-cell]"):
            self.page.click("[data-test=unfold-all]")
        self.page.click(f'[data-cell="{cell}"]')
        self.page.wait_for_selector(f'[data-open-cell="{cell}"]')
        self.settled()


@pytest.fixture(scope="session")
def contexts(chromium: Browser) -> Callable[..., BrowserContext]:
    """Return a function that gives the context with these settings. Tests share it: to make one takes longer than a
    page, and it keeps what Chromium compiles of the page's script. A site of a test has an address of its own."""
    made: dict[str, BrowserContext] = {}

    def context(settings: dict[str, object]) -> BrowserContext:
        key = repr(sorted(settings.items()))
        if key not in made:
            made[key] = chromium.new_context(**settings)  # type: ignore[arg-type]
            made[key].set_default_timeout(120_000)  # milliseconds: a machine may be busy
            made[key].grant_permissions(["clipboard-read", "clipboard-write"])
        return made[key]

    return context  # they end with the browser


@pytest.fixture
def new_tab(contexts: Callable[..., BrowserContext]) -> Iterator[Callable[..., Tab]]:
    """Return a function that opens a tab for the address of a site. Nothing may go wrong in it until the test ends."""
    tabs: list[Tab] = []

    def new(address: str, **options: object) -> Tab:
        settings = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        tab = Tab(contexts(settings).new_page(), address)
        watch(tab)
        tabs.append(tab)
        return tab

    yield new
    kept = [list(tab.faults) for tab in tabs]  # what is asked for meanwhile fails when its page is closed
    for tab in tabs:
        tab.page.close()
    if faults := [fault for of_tab in kept for fault in of_tab]:
        pytest.fail("\n".join(faults))


def watch(tab: Tab) -> None:
    """Keep what goes wrong: errors of scripts, of the console and of requests, and requests to another host."""
    own = tab.address.partition("://")[0] + "://" + tab.address.partition("://")[2].partition("/")[0]

    def look(request) -> None:
        if not request.url.startswith((own, "data:", "blob:", "about:")):
            tab.faults.append(f"request to {request.url}")

    page = tab.page
    page.on("pageerror", lambda error: tab.faults.append(f"error {error}"))
    page.on("console", lambda entry: tab.faults.append(f"{entry.type} {entry.text}") if entry.type in
            ("error", "warning") else None)  # fmt: skip
    page.on("requestfailed", lambda request: tab.faults.append(f"failed {request.url}"))
    page.on("request", look)
    page.on("dialog", lambda dialog: (tab.faults.append(f"dialog {dialog.message}"), dialog.dismiss()))


@pytest.fixture(scope="session")
def page_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site with every state, every view and a history; the processes of the tests share it."""
    from kernel_matrix.base.locking import locked

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "page" / "site"
    folder.parent.mkdir(exist_ok=True)
    with locked(folder.with_name("site.lock"), wait=True):
        if not (folder.parent / "complete").exists():
            write_page_site(folder)
            (folder.parent / "complete").touch()
    return folder


def write_page_site(folder: Path) -> None:
    """Write the site."""
    from kernel_matrix.config.load import load
    from kernel_matrix.config.plan import plan
    from kernel_matrix.results.history import History, Measurement

    root = Path(__file__).parents[2]
    from common import few_cases
    from judges import write_site

    matrix = load(root / "matrix.yaml").model_copy(update={"resources": []})  # the figures of code are made up
    planned = few_cases(plan(matrix, "quick"))
    records, good = records_of(planned), records_of(planned, is_broken=False)
    write_site(matrix, planned, good, folder.with_name("before"))
    runs = tuple(
        Measurement(started=f"2026-01-0{day}T00:00:00Z", commit=f"{day}" * 12, device="a machine",
                    noise={"fp32/h_in": 1 + day / 10}, speed={"a": 2.0 + day}, seconds={"a": 0.1 / day})
        for day in range(1, 8)
    )  # fmt: skip
    earlier = History(measurements={PASSING: runs})
    runs = tuple(run.model_copy(update={"speed": {"tokens8192": 3.0}, "seconds": {"tokens8192": 1e-3}}) for run in runs)
    earlier = History(measurements={**earlier.measurements, "bench:cuda/sm_90/triton-3.7/mhc_pre.forward": runs})
    write_site(matrix, planned, (*records, *timed_records()), folder, broken=["broken.xml: not whole JUnit XML"],
               against=folder.with_name("before"), earlier=earlier, toolchains=toolchains(),
               checks=(check(),))  # fmt: skip


def records_of(planned, *, is_broken=True):
    """Make results that end in all ways, and the samples of those that ran on the CPU."""
    import numpy as np
    from common import figures_of, job_of

    from kernel_matrix.job.inputs import normal
    from kernel_matrix.job.sample import take
    from kernel_matrix.store import samples
    from kernel_matrix.store.record import Record

    times = {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": 2.0, "time.rounds": 5.0}

    def record(case):
        cell, job = case.cell, {**job_of(case), "commit": "0123456789ab", "device": "a machine"}
        if case.exclusion or cell.vendor == "amd":
            return Record(case.id, "unavailable", message="no device")
        if cell.action == "compile" or cell.vendor == "nvidia":
            figures = {"artifact.bytes": 900.0, "artifact.registers": 40.0, "artifact.spill_bytes": 0.0}
            kind = {"artifact.kind": "metal-source" if cell.vendor in ("apple", "huawei") else "cubin"}
            return Record(case.id, "pass", "compile", job=job, metrics=figures, facts=kind)
        if is_broken and cell.id == BROKEN:
            return Record(case.id, "error", "run", "compile", ERROR, f"Traceback\n{ERROR}", job=job)
        spread = {"ulp_median": 1.0, "ulp_p99": 3.0, "ulp_max": 40.0, "mean_abs": 1e-8, "cosine": 0.0}
        outputs = case.owed.outputs or ("out",)
        metrics = figures_of(case, **dict.fromkeys(outputs, spread))
        metrics |= times if case.timed else {}
        metrics["repeats_differing"] = float(cell.id == DIFFERING)
        if is_broken and cell.id == FAILING:
            metrics["h_in.max_abs"] = 0.5
            return Record(case.id, "fail", "run", message="h_in: max_abs 0.5 is over 1e-06", metrics=metrics, job=job)
        key = case.id.split("/", 3)[-1]
        array = (normal(key, (30, 30)) / 200 + 0.03).astype(np.float32)  # 40 steps of it are inside both max_abs
        array.view(np.int32)[...] += 40 if cell.toolchain == "tvm-0.27" else 0
        kept = samples.of_entry({"out": take(key, "out", array)})
        facts = {"inputs.sha256": "ab" * 32}
        facts |= {"checks": WATCHED, "comparisons": COMPARED} if cell.id == PASSING else {}
        attempts = ("error:launch",) if cell.id.startswith(f"{CPU}/tilelang-0.1.8/expand") else ()
        return Record(case.id, "pass", cell.action, metrics=metrics, job=job, facts=facts, samples=kept, seconds=1.5,
                      attempts=attempts)  # fmt: skip

    left_out = f"{CPU}/tilelang-0.1.15/expand"
    return [record(case) for case in planned.cases if not case.id.startswith(left_out)]


def timed_records():
    """Make results of the benchmark: on a GPU and on a CPU, one that is wrong, and one that was disturbed."""
    from kernel_matrix.store.record import Record

    gpu, cpu = "NVIDIA H200", "AMD EPYC (2 threads)"

    def record(place, device, name, *, slower=1.0, outcome="pass", message="", disturbed=""):
        job = {"job": "bench", "device": device, "commit": "0123456789ab", "started": "2026-01-08T00:00:00Z"}
        figures = {"first_call_s": 3.5, "floor_us": 138.0, "floor_share": 138 / (160 * slower), "copy_gbs": 4271.5}
        figures |= {"median_us": 160 * slower, "p5_us": 158 * slower, "p95_us": 165 * slower, "samples": 40}
        figures |= {"rel_fro": 4e-7, "host_us": 37.0, "peak_x": 0.5, "baseline_ratio": 20 / slower}
        for rival, median in (("eager", 3200), ("compile", 900), ("liger", 750)):
            figures |= {f"ratio.{rival}": median / (160 * slower), f"{rival}.median_us": median}
            figures |= {f"{rival}.p5_us": median * 0.99, f"{rival}.p95_us": median * 1.02}
            figures |= {f"{rival}.samples": 20, f"{rival}.rel_fro": 2e-3 if rival == "liger" else 4e-7}
        if outcome != "pass":
            figures = {"rel_fro": 0.3}
        facts = {"bench.method": "Replays of a graph", "bench.rival.compile-max-autotune": "error: it is too large"}
        facts |= {"bench.disturbed": disturbed} if disturbed else {}
        metrics = {f"bench.{key}": float(value) for key, value in figures.items()}
        return Record(f"bench:{place}/{name}", outcome, "run", message=message, metrics=metrics, facts=facts, job=job)

    shape = "tokens8192-streams4-hidden7168-bf16-no_gamma-fp32-scale1-seed0"
    hot = "cuda/sm_90"
    return [
        record(f"{hot}/triton-3.7/mhc_pre.forward", gpu, shape),
        record(f"{hot}/triton-3.7/layer.step", gpu, "tokens8192-streams4-hidden7168-bf16", slower=9),
        record(f"{hot}/tilelang-0.1.15/mhc_pre.forward", gpu, shape, slower=1.2, disturbed="the clock was lowered"),
        record(f"{hot}/tilelang-0.1.15/mhc_post.forward", gpu, shape, outcome="fail", message="rel_fro 0.3 is over 1"),
        record(f"{CPU}/reference/mhc_pre.forward", cpu, "tokens1024-streams4-hidden2560-fp32", slower=400),
    ]


def check():
    """Return a check with a clean cell, and one with a finding."""
    from kernel_matrix.report.checks import Check, CheckedCell, Finding

    finding = Finding(
        case=f"{FAILING}/tokens1", kernel="mhc_pre_kernel", line="mhc_pre.cu:12", text="Invalid read\n  at a thread"
    )
    cells = (CheckedCell(cell=PASSING, tried=3, found=0, explained=0, unfinished=0),
             CheckedCell(cell=FAILING, tried=2, found=1, explained=0, unfinished=1))  # fmt: skip
    return Check(name="memcheck", program="a sanitizer 1.0", sees="reads past the end", machine="a machine",
                 commit="1" * 12, when="2026-01-05T00:00:00Z", cells=cells, findings=(finding,))  # fmt: skip


def toolchains():
    """Return what probes and sweeps would show."""
    from kernel_matrix.report.toolchains import (
        Cause,
        Change,
        Family,
        ProbeLine,
        ProbeVerdict,
        SweepView,
        SweptCase,
        SweptProbe,
        SweptVersion,
        Toolchains,
    )

    verdict = ProbeVerdict(verdict="known", reason="the known limit", error="ValueError: the known limit",
                           diagnosis=Cause(rule="a", cause="It was a test.", remedy="None."))  # fmt: skip
    works = ProbeVerdict(verdict="works", reason="", error="", diagnosis=Cause())
    probe = ProbeLine(id="family/limit", asks="Does it hold what it promises?", means="", met="", truth="", link="",
                      needs=(), verdicts={"triton-3.7": verdict, "tvm-0.27": works})  # fmt: skip
    swept = SweptVersion(version="1.0", pins="", picked="", stopped="", message="", cause="", remedy="",
                         lock=("numpy==1.0",), counts={"works": 1}, cases={},
                         probes={"family/limit": SweptProbe(verdict="works", outcome="pass")})  # fmt: skip
    later = [swept.model_copy(update={"version": version, "cases": {"here/case": SweptCase(state="compiled", figures={
             "registers": registers, "spill_bytes": 0, "shared_bytes": 64})}})
             for version, registers in (("2.0", 96), ("3.0", 104))]  # fmt: skip
    change = Change(version="3.0", before="2.0", what="registers", cases={"here/case": ("96", "104")})
    sweep = SweepView(title="numpy", package="numpy", created="2026-01-01T00:00:00Z", case="", attempts=(swept, *later),
                      changes=(change,), grid=None, probes=())  # fmt: skip
    good, bad = (SweptCase(state=state) for state in ("compiled", "error"))
    tried = {"3.7.0": (good, good), "3.8.0": (good, good), "3.9.0": (bad, good), "3.10.0": (bad, bad)}
    attempts = [swept.model_copy(update={"version": version, "probes": {}, "cases": {
                "cuda/sm_90/triton-3.7/a.forward/x": on_sm_90, "rocm/gfx942/triton-3.7/a.forward/x": on_gfx942}})
                for version, (on_sm_90, on_gfx942) in tried.items()]  # fmt: skip
    triton = SweepView(title="triton", package="triton", created="2026-01-01T00:00:00Z", case="cuda/sm_90/triton-3.7/a",
                       attempts=tuple(attempts), changes=(), grid=None, probes=())  # fmt: skip
    family = Family(name="family", toolchains=("triton-3.7", "tvm-0.27"), probes=(probe,))
    warning = "numpy 3.0 will break 1 of 1 cases of triton-3.7 that were tried, since 3.0"
    return Toolchains(headline="Of 1 probes in toolchains 1 work.", families=(family,), sweeps=(sweep, triton),
                      warnings=(warning,))  # fmt: skip


@pytest.fixture(scope="session")
def web(page_site: Path) -> Iterator[str]:
    """Return the address of the site on a plain web server."""
    with served(page_site) as address:
        yield address


@pytest.fixture(params=["file", "server"])
def address(request: pytest.FixtureRequest, page_site: Path, web: str) -> str:
    """Return the address of the site, once as a file and once on a server."""
    return f"file://{page_site}/index.html" if request.param == "file" else web


@pytest.fixture
def tab(new_tab: Callable[..., Tab], web: str) -> Tab:
    """Return a tab for the site on a server."""
    return new_tab(web)
