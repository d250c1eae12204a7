"""Edited results do not turn green: good result files, of which many are edited, and a report of all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from audited import HEAD, LOCK, NOW, facts_of, part_of
from checkouts import ANOTHER, AtCommit
from common import ROOT, few_cases, figures_of, limits_of
from judges import write_site
from shown import Page

from kernel_matrix.audit import audit
from kernel_matrix.audit.states import Now
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Case, Plan, plan
from kernel_matrix.job.sample import take
from kernel_matrix.report.document import Document
from kernel_matrix.results.present import Pins, Present
from kernel_matrix.store import junit, samples, write
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record, Sample, outputs_of

TOOLCHAINS = ("reference", "inductor", "tvm-0.27")
OP = "mhc_pre.forward"
EDITED = f"cpu-llvm/x86-64-v3/reference/{OP}"
OTHER = f"cpu-llvm/x86-64-v3/inductor/{OP}"


@pytest.fixture(scope="module")
def matrix(matrix: Matrix) -> Matrix:
    return part_of(matrix, "cpu-llvm", "rocm")


@pytest.fixture(scope="module")
def planned(matrix: Matrix) -> Plan:
    """Return a plan of one operator on the CPU, in three toolchains, and in one on a platform without a machine.

    It is the plan of the full tier: in the quick tier the toolchains have different cases.
    """
    return part_of_plan(few_cases(plan(matrix, "full")))


def part_of_plan(whole: Plan, *others: str) -> Plan:
    """Return what is planned of the operator in these toolchains and in others."""
    wanted = ("cpu-llvm", *TOOLCHAINS, *others)
    jobs = [
        replace(job, cases=tuple(case for case in job.cases if f"/{OP}/" in case.id and not case.timed))
        for job in whole.jobs
        if (job.platform in wanted and job.toolchain in wanted) or job.id in ("rocm.reference", "cpu-llvm.triton-3.7")
    ]
    return replace(whole, jobs=tuple(job for job in jobs if job.cases))


@dataclass
class Results:
    """Hold a folder of result files, the parsed file of the edited job, and what makes a report of them."""

    matrix: Matrix
    planned: Plan
    folder: Path
    tree: ElementTree.ElementTree
    place: int = 0  # of the case that is edited
    toolchain: str = "reference"

    @property
    def site(self) -> Path:
        return self.folder.parent / "site"

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The cases of the edited cell on the page."""
        return [*Page(self.site).cells[EDITED.replace("reference", self.toolchain)]["results"].values()]

    @property
    def cases(self) -> list[ElementTree.Element]:
        return list(self.tree.getroot().iter("testcase"))

    @property
    def first(self) -> ElementTree.Element:
        return self.cases[self.place]

    @property
    def case(self) -> Case:
        return next(case for case in self.planned.cases if case.id == get(self.first, "case"))

    def file(self, toolchain: str = "") -> Path:
        return self.folder / f"cpu-llvm.{toolchain or self.toolchain}.xml"

    def of(self, toolchain: str) -> Results:
        """Return the same results, of which the file of another toolchain is edited."""
        tree = ElementTree.parse(self.file(toolchain))
        return replace(self, tree=tree, place=0, toolchain=toolchain)

    def not_in(self, toolchain: str) -> None:
        """Take the case that is edited out of the file of another toolchain."""
        other, name = self.of(toolchain), get(self.first, "case").replace(self.toolchain, toolchain)
        suite = next(other.tree.getroot().iter("testsuite"))
        suite.remove(next(case for case in other.cases if get(case, "case") == name))
        other.tree.write(other.file())

    def of_job(self, name: str, value: str | None) -> None:
        put(next(self.tree.getroot().iter("testsuite")), name, value)

    def report(self) -> Document:
        """Write the edited file, and make the whole report: a forgery must not stop it."""
        self.tree.write(self.file())
        return self.report_of_files()

    def report_of_files(self) -> Document:
        collected = collect([self.folder])
        pins = {
            name: Pins(f"locks/{name}.txt", LOCK, tuple(self.matrix.toolchains[name].requires))
            for name in self.matrix.toolchains
        }
        present = Present(NOW, AtCommit(HEAD), pins)
        records, broken = collected.records, collected.broken
        whole = write_site(self.matrix, self.planned, records, self.site, present=present, broken=broken)
        platforms = self.matrix.platforms.items()
        locks = {(name, entry.toolchain): {LOCK} for name, platform in platforms for entry in platform.entries}
        asked = {case.id for case in self.planned.cases}
        differences = audit(self.site, [self.folder], self.matrix, ROOT, asked, Now(NOW, locks, AtCommit(HEAD)))
        assert differences == [], "the audit goes another road to the same states"
        return whole


def properties(element: ElementTree.Element) -> ElementTree.Element:
    return next(child for child in element if child.tag == "properties")


def get(element: ElementTree.Element, name: str) -> str:
    return next(p.attrib["value"] for p in properties(element) if p.attrib["name"] == name)


def put(element: ElementTree.Element, name: str, value: str | float | None) -> None:
    """Set a property; None takes it out."""
    for old in [p for p in properties(element) if p.attrib["name"] == name]:
        properties(element).remove(old)
    if value is not None:
        ElementTree.SubElement(properties(element), "property", {"name": name, "value": str(value)})


def metric(name: str, value: str | float | None) -> Callable[[Results], None]:
    return lambda results: put(results.first, f"metric.{name}", value)


def every(name: str, value: str | float | None) -> Callable[[Results], None]:
    """Set a property of every case, in all files of the folder if it is not of the edited one."""
    return lambda results: [put(case, name, value) for case in results.cases]


def job(name: str, value: str | None) -> Callable[[Results], None]:
    return lambda results: results.of_job(name, value)


def wrong_by_far(changes: dict[str, float]) -> Callable[[Results], None]:
    """Make ``h_res`` a thousand times as wrong as it may be, and change what its limit is made from until it may be."""

    def edit(results: Results) -> None:
        figures = {**outputs_of(figures_of(results.case))["h_res"], "max_abs": 1e-3, "rel_fro": 1e-3, **changes}
        limits = limits_of(figures, results.case.owed)
        figures |= {"limit_max_abs": limits.max_abs, "limit_rel_fro": limits.rel_fro}
        for name, value in figures.items():
            put(results.first, f"metric.h_res.{name}", value)

    return edit


def grown(growth: float | str, limit: float) -> Callable[[Results], None]:
    """Let the error of an output grow with the number of tokens, and say how fast it may."""

    def edit(results: Results) -> None:
        metric("h_res.growth", growth)(results)
        metric("h_res.limit_growth", limit)(results)

    return edit


@pytest.fixture(scope="module")
def good_files(planned: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of good results, which every test copies."""
    return written(planned, tmp_path_factory.mktemp("good"))


def written(planned: Plan, folder: Path) -> Path:
    """Write the files of good results of a plan."""
    cpu = [job.toolchain for job in planned.jobs if job.platform == "cpu-llvm" and job.toolchain != "triton-3.7"]
    for toolchain in dict.fromkeys(cpu):
        cases = [case for case in planned.cases if case.cell.toolchain == toolchain and case.cell.vendor == "cpu"]
        records = [good_record(case) for case in cases if not case.exclusion]
        junit.write(folder / f"cpu-llvm.{toolchain}.xml", toolchain, records, facts_of(cases[0]))
    return folder


def good_record(case: Case) -> Record:
    """Return a result that says all that others say; its outputs have samples within their errors."""
    metrics = figures_of(case, **{name: {"growth": 0.01, "limit_growth": 0.125} for name in case.owed.outputs})
    facts = {"inputs.sha256": "i" * 64, "process": "own"}
    return Record(case.id, "pass", "run", metrics=metrics, facts=facts, samples=samples_of(case))


def samples_of(case: Case, factor: float = 1.0) -> dict[str, Sample]:
    """Return samples of all outputs, times a factor. By its name a toolchain is off by less than its errors say."""
    values = np.linspace(0.25, 1, 8).astype(np.float32) * (1 - 1e-8 * len(case.cell.toolchain)) * factor
    entry = {name: take("key", name, values.astype(np.float32)) for name in case.owed.outputs}
    return samples.of_entry(entry)


@pytest.fixture
def results(matrix: Matrix, planned: Plan, good_files: Path, tmp_path: Path) -> Results:
    folder = shutil.copytree(good_files, tmp_path / "results")
    return Results(matrix, planned, folder, ElementTree.parse(folder / "cpu-llvm.reference.xml"))


def cell_of(report: Document, identity: str):
    return next(cell for cell in report.cells if cell.id == identity)


def is_green(cell) -> bool:
    return cell.state in ("pass", "flaky") and not cell.stale


def without(results: Results, *parts: str) -> None:
    """Take the properties out of a case whose names have one of these parts."""
    for element in list(properties(results.first)):
        if any(part in element.attrib["name"] for part in parts):
            properties(results.first).remove(element)


def floor_of(value: float) -> Callable[[Results], None]:
    return lambda r: [metric("h_in.floor_max_abs", value)(r), metric("h_in.limit_max_abs", 4 * value)(r)]


SMALL = {"max_abs": 1e-7, "rel_fro": 1e-7}
OF_A_CASE = {
    # What once got through.
    "an output has no elements": (metric("h_res.elements", "0.0"), "of h_res elements cannot be 0"),
    "NaN in an output": (metric("h_res.nan", "5600.0"), "of h_res it has 5600 NaN"),
    "a growth with a limit of its own": (grown(0.2, 0.25), "h_res.growth is over its limit"),
    "a growth of NaN": (grown("nan", 0.125), "h_res.growth is over its limit"),
    "a limit of 1e9": (metric("h_res.limit_max_abs", "1e9"), "limit of max_abs is 1e+09, and matrix.yaml makes it"),
    "a limit of inf": (metric("h_res.limit_rel_fro", "inf"), "of h_res limit_rel_fro cannot be inf"),
    "a limit of NaN": (metric("h_res.limit_rel_fro", "nan"), "of h_res limit_rel_fro cannot be nan"),
    "a limit above the cap": (metric("h_res.limit_max_abs", "0.02"), "limit of max_abs is 0.02, and matrix.yaml"),
    "other inputs": (lambda r: put(r.first, "fact.inputs.sha256", "0" * 64), "refused: other inputs"),
    # What limits are made from, made larger until a result that is far off is inside.
    "a larger floor": (wrong_by_far({"floor_max_abs": 1e-3, "floor_rel_fro": 1e-3}), "times as large as in the other"),
    "a larger relative floor": (wrong_by_far({"floor_rel_fro": 1e-4, "rel_fro": 2e-6, "max_abs": 1e-6}), "times as"),
    "a larger conditioning": (wrong_by_far({"conditioning_max_abs": 1e-3, "conditioning_rel_fro": 1e-3}),
                              "its conditioning_max_abs is 0.001, and the other results have 1e-07"),
    "more steps": (wrong_by_far({"steps": 10.0**10}), "its steps is 1e+10, and the other results have 1"),
    "a larger golden": (wrong_by_far({"largest": 1e4, "rel_fro": 1e-7}), "its largest is 10000"),
    "a larger unit": (metric("h_res.unit", "1e6"), "its unit is 1e+06, and the other results have 1"),
    "fewer elements": (lambda r: [metric("h_res.elements", 1)(r), metric("elements", 33)(r)], "its elements is"),
    "a limit by which zeros would pass": (wrong_by_far({**SMALL, "conditioning_rel_fro": 1.0}), "zeros would pass"),
    # Figures that cannot be.
    "an error below zero": (metric("h_res.max_abs", "-1.0"), "of h_res max_abs cannot be -1"),
    "an error that is no number": (metric("h_res.rel_fro", "nan"), "of h_res rel_fro cannot be nan"),
    "only the larger error is made small": (lambda r: [metric("h_res.max_abs", "1e-9")(r)], "cannot both be true"),
    "only the norm is made small": (lambda r: [metric("h_res.rel_fro", "0.0")(r)], "cannot both be true"),
    "half an element": (metric("h_res.elements", "8.5"), "of h_res elements cannot be 8.5"),
    "three bytes an element": (metric("h_res.itemsize", "3"), "of h_res itemsize cannot be 3"),
    "another dtype": (wrong_by_far({**SMALL, "itemsize": 8.0}), "its itemsize is 8, and"),
    "no unit": (metric("h_res.unit", None), "of h_res the record owes unit"),
    "another total": (metric("elements", "41.0"), "says that 41 elements were compared; its outputs have 40"),
    "an output that nobody asked for": (metric("h_out.max_abs", "1e-9"), "h_out, which is no output of this case"),
    "a variant with one output": (metric("h_in@fast.max_abs", "1e-9"), "h_post@fast, h_res@fast, m@fast, r@fast"),
    "no figures of an output": (lambda r: without(r, "metric.h_res."), "the record owes the figures of h_res"),
    "an earlier version": (lambda r: without(r, ".unit", ".steps", ".largest", ".itemsize"),
                           "made by an earlier kernel-matrix: it does not say how its limits"),
    "a floor of NaN, which moves no median": (metric("h_res.floor_rel_fro", "nan"), "floor_rel_fro cannot be nan"),
    # What the other results of the case have.
    "no growth": (metric("h_res.growth", None), "owes h_res.growth: the other results have it"),
    "no inputs": (lambda r: put(r.first, "fact.inputs.sha256", None), "owes inputs.sha256: the other results have it"),
    "no process": (lambda r: put(r.first, "fact.process", None), "owes process: the other results have it"),
    "no repeats": (metric("repeats", None), "owes repeats: the other results have it"),
    # The action and the outcome.
    "an error that says pass": (lambda r: ElementTree.SubElement(r.first, "error", {"message": "broke"}), "broke"),
    "a failure that says pass": (lambda r: ElementTree.SubElement(r.first, "failure", {"message": "wrong"}), "wrong"),
    "a skip that says pass": (lambda r: ElementTree.SubElement(r.first, "skipped", {"message": "no GPU"}), "no GPU"),
    "a test that was not run": (lambda r: r.first.set("status", "notrun"), ""),
    "no action": (lambda r: put(r.first, "action", None), "compared nothing"),
    "an emulation": (lambda r: put(r.first, "action", "emulate"), "it was emulated; by matrix.yaml the action"),
    "another name": (lambda r: put(r.first, "case", f"{EDITED}/tokens9"), "no result came"),
}  # fmt: skip


STAYS_GREEN = {
    "no edit": lambda r: None,
    "a floor as floors differ between machines": floor_of(5.3e-7),
    "two that differ, which do not say which of them is wrong": lambda r: [floor_of(8.1e-7)(r), r.not_in("tvm-0.27")],
}


@pytest.fixture
def many_results(matrix: Matrix, tmp_path: Path) -> Results:
    """Return good results of as many cases as there are edits of a case."""
    planned = part_of_plan(plan(matrix, "full"))
    few = len(OF_A_CASE) + len(STAYS_GREEN)
    planned = replace(planned, jobs=tuple(replace(job, cases=job.cases[:few]) for job in planned.jobs))
    (tmp_path / "results").mkdir()
    folder = written(planned, tmp_path / "results")
    return Results(matrix, planned, folder, ElementTree.parse(folder / "cpu-llvm.reference.xml"))


@pytest.mark.slow
def test_an_edited_case_is_not_green_and_says_why(many_results):
    """Each edit has a case of its own, and each reason belongs to its case."""
    results, edited = many_results, {}
    edits = {name: edit for name, (edit, _) in OF_A_CASE.items()} | STAYS_GREEN
    for results.place, (name, edit) in enumerate(edits.items()):
        edited[results.case.name] = name
        edit(results)
    report = results.report()
    assert report.problems == ()
    shown = {result["name"]: result for result in results.shown}
    green = [edited[name] for name, result in shown.items() if result["state"] in ("pass", "flaky")]
    assert green == [*STAYS_GREEN]
    for case, name in edited.items():
        words = OF_A_CASE[name][1] if name in OF_A_CASE else ""
        assert words in f"{shown[case]['reason']} {shown[case]['message']}", name
    assert is_green(cell_of(report, OTHER)), "the results of others still count"


OF_A_JOB = {
    "a clock of 2099": (job("started", "2099-01-01T00:00:00Z"), "in the future"),
    "no start": (job("started", None), "it does not say when it started"),
    "another commit": (job("commit", "b" * 12), ANOTHER),
    "no commit": (job("commit", None), ANOTHER),
    "another lock": (job("lock.sha256", "2" * 64), "it was measured with another locks/reference.txt (sha256 22222222"),
    "no lock": (job("lock.sha256", None), "another locks/reference.txt (sha256 not said)"),
    "another version": (job("version.torch", "2.9.0"), "its versions do not meet torch>=2.11"),
    "no versions": (lambda r: [r.of_job(f"version.{name}", None) for name in ("torch", "apache-tvm")],
                    "it names no versions"),
    "another toolchain": (job("toolchain", "inductor"), "its job has the toolchain inductor; this case has reference"),
    "another vendor's device": (job("device.vendor", "nvidia"), "its job has the device.vendor nvidia; this case has"),
    "another target": (job("device.targets", "sm_90"), "the device of its job runs sm_90; not x86-64-v3"),
    "no device": (job("device.targets", None), "the device of its job runs no target"),
    "no canaries": (lambda r: [every(f"metric.canary.{n}", None)(r) for n in ("injected", "caught")], "injected no"),
    "no canaries, and stale": (
        lambda r: [job("started", None)(r), *(every(f"metric.canary.{n}", None)(r) for n in ("injected", "caught"))],
        "injected no"),
    "a missed canary": (metric("canary.caught", "5.0"), "missed 1 of"),
    "a missed canary that is named": (lambda r: [metric("canary.caught", "4.0")(r),
                                                 put(r.first, "fact.canary.missed", "two streams swapped")],
                                      "injected faults: two streams swapped"),
    "a missed canary in a case that is not planned": (
        lambda r: [metric("canary.caught", "5.0")(r), put(r.first, "case", f"{EDITED}/tokens9")], "missed 1 of"),
    "more canaries caught than injected": (metric("canary.caught", "600.0"), "in the records of this job are"),
    "canaries caught that nobody injected": (metric("canary.injected", None),
                                             "in the records of this job are impossible"),
    "canaries in the job alone": (lambda r: [job("canary.injected", "900")(r), job("canary.caught", "900")(r)],
                                  "this job says that it caught 900 of 900 injected faults, and its cases say"),
    "counts of canaries that are no numbers": (lambda r: job("canary.caught", "all")(r),
                                               "this job says that it caught"),
}  # fmt: skip


NOT_FINITE = (
    *(("time", "1e309"), ("time", "nan"), ("metric.time.ratio", "1e309"), ("metric.repeats", "1e309")),
    *(("metric.artifact.bytes", "nan"), ("metric.h_res.steps", "inf"), ("metric.h_res.unit", "nan")),
    *(("metric.h_res.largest", "1e309"), ("metric.canary.caught", "nan")),
)


def not_finite(figure: str, value: str) -> Callable[[Results], None]:
    return lambda r: r.first.set("time", value) if figure == "time" else put(r.first, figure, value)


def with_canaries_of_all(edit: Callable[[Results], None]) -> Callable[[Results], None]:
    """Let the job say how many canaries its cases have, and edit one case."""

    def edit_both(results: Results) -> None:
        for name in ("canary.injected", "canary.caught"):
            results.of_job(name, str(6 * len(results.cases)))
        edit(results)

    return edit_both


DECIDE_NOTHING = {
    "a case that is not planned": (lambda r: put(r.first, "case", f"{EDITED}/tokens9"), "no result came"),
    "a refused result": (lambda r: put(r.first, "fact.inputs.sha256", "0" * 64), "refused: other inputs"),
}
EDITS = {
    **{name: edit for name, (edit, _) in OF_A_JOB.items()},
    **{f"{figure}={value}": not_finite(figure, value) for figure, value in NOT_FINITE},
    **{name: with_canaries_of_all(edit) for name, (edit, _) in DECIDE_NOTHING.items()},
}


@pytest.fixture(scope="module")
def edited_jobs(matrix: Matrix, tmp_path_factory: pytest.TempPathFactory) -> tuple[Document, dict[str, Results]]:
    """Report results of as many copies of a toolchain as there are edits of a job; return the results by edit.

    Each copy has two cases of its own, which only the three toolchains have as well: no edit speaks for another one.
    """
    copies = {f"reference-{number}": edit for number, edit in enumerate(EDITS.values())}
    platform = matrix.platforms["cpu-llvm"]
    entry = platform.by_toolchain["reference"]
    added = [entry.model_copy(update={"toolchain": name}) for name in copies]
    platform = type(platform).model_construct(**{**dict(platform), "toolchains": [*platform.toolchains, *added]})
    toolchains = {**matrix.toolchains, **dict.fromkeys(copies, matrix.toolchains["reference"])}
    matrix = matrix.model_copy(update={"toolchains": toolchains, "platforms": {"cpu-llvm": platform}})
    planned = part_of_plan(plan(matrix, "full"), *copies)
    places = {name: slice(2 * place, 2 * place + 2) for place, name in enumerate(copies)}
    of_all = slice(2 * len(copies))
    jobs = [replace(job, cases=job.cases[places.get(job.toolchain, of_all)]) for job in planned.jobs]
    planned = replace(planned, jobs=tuple(jobs))
    (folder := tmp_path_factory.mktemp("jobs") / "results").mkdir()
    whole = Results(matrix, planned, written(planned, folder), ElementTree.ElementTree())
    results = {name: whole.of(toolchain) for name, toolchain in zip(EDITS, copies, strict=True)}
    for name, of_one in results.items():
        EDITS[name](of_one)
        of_one.tree.write(of_one.file())
    return whole.report_of_files(), results


@pytest.mark.slow
def test_an_edited_job_is_green_nowhere_and_says_why(edited_jobs):
    report, results = edited_jobs
    for name, (_, words) in OF_A_JOB.items():
        of_one = results[name]
        cell = cell_of(report, EDITED.replace("reference", of_one.toolchain))
        green = [one for one in of_one.shown if one["state"] in ("pass", "flaky") and not one["stale"]]
        assert not green, name
        assert words.replace("reference", of_one.toolchain) in f"{cell.reason} {cell.stale}", name
    assert is_green(cell_of(report, EDITED)), "the job beside them is as it was"
    assert is_green(cell_of(report, OTHER)), "the results of others still count"


@pytest.mark.slow
def test_a_figure_that_is_not_finite_loses_its_file_and_does_not_stop_the_report(edited_jobs):
    report, results = edited_jobs
    for figure, value in NOT_FINITE:
        toolchain = results[f"{figure}={value}"].toolchain
        assert cell_of(report, EDITED.replace("reference", toolchain)).state == "missing", (figure, value)
        [problem] = [problem for problem in report.problems if f"cpu-llvm.{toolchain}.xml" in problem]
        assert "refused" in problem
    assert len(report.problems) == len(NOT_FINITE)


@pytest.mark.slow
def test_what_a_job_says_of_its_canaries_holds_for_results_that_decide_nothing(edited_jobs):
    for name, (_, reason) in DECIDE_NOTHING.items():
        tried = [result for result in edited_jobs[1][name].shown if result["state"] != "excluded"]
        assert [result["state"] for result in tried].count("pass") == len(tried) - 1, name
        assert reason in next(result["reason"] for result in tried if result["state"] == "missing"), name


@pytest.mark.slow
def test_results_of_a_cpu_do_not_stand_for_another_platform_or_an_interpreted_toolchain(results):
    others = [f"rocm/gfx942/reference/{OP}", f"cpu-llvm/x86-64-v3/triton-3.7/{OP}"]
    (results.folder / "again").mkdir()
    of_cpu, again = results.file().read_text(), results.folder / "again" / "cpu-llvm.reference.xml"
    for file, cell in zip((results.file(), again), others, strict=True):
        file.write_text(of_cpu.replace(EDITED, cell))
    report = results.report_of_files()
    assert not any(is_green(cell_of(report, cell)) for cell in others)
    assert cell_of(report, EDITED).state == "missing"


@pytest.mark.slow
def test_what_went_wrong_is_not_made_green_by_a_second_file_nor_hidden_by_a_result_that_ran(results):
    good = results.file("reference").read_bytes()
    (results.folder / "again").mkdir()
    (results.folder / "again" / "cpu-llvm.reference.xml").write_bytes(good)
    wrong = {}
    for results.place, (outcome, action) in enumerate([("fail", "run"), ("fail", "emulate"), ("error", "emulate")]):
        wrong[results.case.name] = outcome
        put(results.first, "outcome", outcome)
        put(results.first, "action", action)
        tag = {"fail": "failure", "error": "error"}[outcome]
        ElementTree.SubElement(results.first, tag, {"message": "h_res: max_abs 1 is over 1e-06"})
    results.report()
    assert {one["name"]: one["state"] for one in results.shown if one["name"] in wrong} == wrong


# By the place of a case: the toolchains with a result of it, the factor of the first one's samples, what is said.
SAMPLES = (
    (TOOLCHAINS, 0.5, "further from the other results"),
    (TOOLCHAINS[:1], 1.5, "cannot both be true"),
    (TOOLCHAINS[:1], float("nan"), "cannot both be true"),
    (TOOLCHAINS[:2], 0.5, ""),  # two do not say which of them is wrong
    (TOOLCHAINS, 1.0, ""),  # they agree
)


@pytest.mark.slow
def test_samples_far_off_beside_small_figures_are_not_green_and_nothing_is_said_of_others(matrix, tmp_path):
    whole = part_of_plan(plan(matrix, "full"))
    planned = replace(whole, jobs=tuple(replace(job, cases=job.cases[: len(SAMPLES)]) for job in whole.jobs))
    (folder := tmp_path / "results").mkdir()
    for toolchain in TOOLCHAINS:
        [job] = [job for job in planned.jobs if job.toolchain == toolchain and job.platform == "cpu-llvm"]
        factors = [factor if toolchain == TOOLCHAINS[0] else 1.0 for _, factor, _ in SAMPLES]
        records = [
            replace(good_record(case), samples=samples_of(case, factor))
            for case, factor, (toolchains, _, _) in zip(job.cases, factors, SAMPLES, strict=True)
            if toolchain in toolchains
        ]
        write.write(folder, facts_of(job.cases[0]), records)
    results = Results(matrix, planned, folder, ElementTree.ElementTree())
    report = results.report_of_files()
    for shown, (_, _, words) in zip(results.shown, SAMPLES, strict=True):
        assert (shown["state"], words in shown["reason"]) == ("error" if words else "pass", True), shown["name"]
    others = [cell_of(report, EDITED.replace("reference", other)).cases for other in TOOLCHAINS[1:]]
    assert others == [{"pass": 3, "missing": 2}, {"pass": 2, "missing": 3}]
