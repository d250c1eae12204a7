"""Every cell of the CPU platform runs on this machine, in the environments of the lock files and in a container."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from common import RUN, environments_of, harness, records_in, sh
from covering import combined, covering, with_the_night
from loops import at_least

from kernel_matrix.config.plan import Case, plan
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import detect

TARGET = "cpu-llvm/x86-64-v3"
# The cells that a container repeats.
REPEATED = (
    *(f"{TARGET}/{name}" for name in ("tvm-0.27/sinkhorn.forward", "triton-3.7/mhc_post.forward")),
    *(f"{TARGET}/reference/mhc_pre.forward", f"{TARGET}/reference/sinkhorn.backward"),
)


# The cells that are run with all their cases, so that they are known: those of a toolchain that have the fewest.
WHOLE = (f"{TARGET}/reference/mhc_read.backward", f"{TARGET}/tvm-0.27/expand.forward")
# The run holds every value of an axis in a cell of the baseline. The other toolchains compile each case, or interpret
# it: their cells hold one case of several tokens. ``ci/nox -s matrix`` runs all cases.
TOGETHER = {"reference": 1}
# PyTorch's compiler takes half a minute for an operator with a norm. The tests of the package compile this operator in
# this shape too, and the compiler keeps it.
COMPILED = {"streams": 4, "hidden": 200}
# One operator of these: TVM, C++ and the baseline show that every operator has its cells and its canaries.
ONE_OP = {
    "inductor": "expand",
    "tilelang-0.1.8": "mhc_post",
    "tilelang-0.1.15": "sinkhorn",
    "triton-3.7": "mhc_post",
}
# By day two jobs run: the cells with all their cases, one with some of them, and one whose inputs both jobs have. The
# others run at night, and in ``ci/nox -s matrix``, which has all cases, and the timed ones too.
BY_DAY = (*WHOLE, f"{TARGET}/reference/mhc_pre.forward", f"{TARGET}/reference/expand.forward")
NIGHT = ("inductor", "tilelang-0.1.8", "tilelang-0.1.15", "triton-3.7", "tvm-0.27-searched")
LOUD = 10  # the scale from which on a token stands out, and the units of the limits are the largest values


def together(cases: list[Case]) -> int:
    """Return how many axes are to be combined in a cell, which these cases are of."""
    return TOGETHER.get(cases[0].cell.toolchain, 0)


def chosen_of(cases: list[Case]) -> list[Case]:
    """Return the cases of a cell to run. Of the excluded cases one is taken, to see that it is not run."""
    runs = [case for case in cases if not case.exclusion]
    if cases[0].cell.id in WHOLE:
        return cases
    if cases[0].cell.toolchain == "inductor":
        runs = [case for case in runs if all(case.axes.get(axis, value) == value for axis, value in COMPILED.items())]
    if not together(cases):
        runs = [case for case in runs if case.axes["tokens"] > 1]
    return covering(runs, together(cases)) + [case for case in cases if case.exclusion][:1]


@pytest.fixture(scope="module")
def cells(request, matrix) -> dict[str, list[Case]]:
    """Return the untimed cases of each cell of the CPU, by day of a few cells."""
    by_night = with_the_night(request)
    # Cells of other architectures are emulated; the matrix has few of them.
    cases = [case for case in plan(matrix, "quick").cases if case.id.startswith(f"{TARGET}/") and not case.timed]
    cases = [case for case in cases if ONE_OP.get(case.cell.toolchain, case.cell.op) == case.cell.op]
    cases = [case for case in cases if by_night or case.cell.id in BY_DAY]
    return {cell: [case for case in cases if case.cell.id == cell] for cell in {case.cell.id for case in cases}}


@pytest.fixture(scope="module")
def selected(cells) -> list[str]:
    """Return the ids of the cases to run. Their number grows with the longest axes and not with all combinations."""
    return [case.id for cases in cells.values() for case in chosen_of(cases)]


def scale_of(record: Record) -> float:
    """Return the scale of the inputs of a case."""
    return float(re.search(r"-scale([\d.]+)-", record.case).group(1))


@pytest.mark.slow
def test_the_selected_cases_hold_all_that_is_to_be_combined_in_every_cell(cells, selected):
    for cases in at_least(4, cells.values()):
        runs = [case for case in cases if not case.exclusion]
        chosen = [combined(case, together(cases)) for case in runs if case.id in selected]
        assert set().union(*chosen) == set().union(*(combined(case, together(cases)) for case in runs))
        assert chosen


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory, selected) -> Path:
    """Run cases of every cell on this CPU, in the environments of the lock files, and return the build folder."""
    if "x86-64-v3" not in detect().devices[0].targets:
        pytest.fail("these tests need a CPU of the level x86-64-v3, as matrix.yaml's cpu-llvm does")
    build = environments_of(tmp_path_factory.mktemp("build"))
    cases = [word for case in selected for word in ("--case", case)]
    done = sh(*RUN, "--executor", "venv", "--build", str(build), *cases)
    assert done.returncode == 0, done.stdout + done.stderr
    return build


@pytest.mark.parametrize(
    "toolchain",
    ["reference", "tvm-0.27", *(pytest.param(toolchain, marks=pytest.mark.nightly) for toolchain in NIGHT)],
)
def test_every_cpu_toolchain_runs_and_compares_its_cases(cpu_run, cells, toolchain):
    records = records_in(cpu_run / "results", f"cpu-llvm.{toolchain}")
    emulated = toolchain == "triton-3.7"
    expected = {case.id for cases in cells.values() for case in cases if case.expectations}
    outcomes = Counter(record.outcome for record in records if record.case not in expected)
    assert outcomes.keys() == ({"pass", "excluded"} if emulated else {"pass"})
    for record in records:
        if record.outcome == "excluded":
            assert "-bf16-" in record.case
            continue
        assert record.action == ("emulate" if emulated else "run")
        assert record.metrics["elements"] > 0
        outputs = [name.removesuffix(".max_abs") for name in record.metrics if name.endswith(".max_abs")]
        assert outputs
        for output in outputs:
            assert record.metrics[f"{output}.max_abs"] <= record.metrics[f"{output}.limit_max_abs"]
            if ".forward/" in record.case and scale_of(record) < LOUD:
                in_fp8 = "_fp8.forward/" in record.case and output == "h_in"
                # The cap at unit scale; of fp8, whose largest number is 448, the last rounding of that.
                assert round(record.metrics[f"{output}.limit_max_abs"], 6) <= (448 / 8 if in_fp8 else 1e-2)


def test_every_toolchain_was_given_the_same_bits(cpu_run):
    digests: dict[str, set[str]] = {}
    for record in records_in(cpu_run / "results"):
        if "inputs.sha256" in record.facts:
            digests.setdefault(record.case.split("/", 3)[3], set()).add(record.facts["inputs.sha256"])
    assert all(len(found) == 1 for found in digests.values())
    assert len(set().union(*digests.values())) == len(digests) > 0, "and every case its own"


def test_inputs_stay_where_rounding_alone_is_inside_the_cap(cpu_run):
    """An exact result rounded to bf16 is off by up to 2**-7 below 4, and by more than the cap above."""
    for record in at_least(10, records_in(cpu_run / "results", "cpu-llvm.reference")):
        scale = scale_of(record)
        if "/mhc_pre.forward/" in record.case and "-bf16-" in record.case and scale < LOUD:
            assert record.metrics["h_in.max_abs"] <= 2**-7 * scale * 1.01, record.case


def test_the_report_of_that_run_is_green_where_it_ran_and_says_what_is_missing(cpu_run):
    done = harness("report", "--build", str(cpu_run))
    assert done.returncode == 1, "the other platforms and cases have no results here"
    compat = json.loads((cpu_run / "site" / "compat.json").read_text())
    state = {cell["id"]: (cell["state"], cell["evidence"]) for cell in compat["cells"]}
    assert {state[cell] for cell in WHOLE} == {("pass", "ran")}
    assert state[f"{TARGET}/reference/mhc_pre.forward"] == ("missing", "planned"), "some of its cases were not run"
    assert state["rocm/gfx942/triton-3.7/mhc_pre.forward"] == ("missing", "planned")


@pytest.mark.nightly
def test_a_container_gives_the_records_of_an_environment(engine, cells, cpu_run, tmp_path):
    """Compare states, errors to the last digit (norms to nine), digests of inputs and compiled code, and versions."""
    selection = [word for cell in REPEATED for case in chosen_of(cells[cell]) for word in ("--case", case.id)]
    done = sh(*RUN, "--executor", "container", "--build", str(tmp_path), *selection)
    assert done.returncode == 0, done.stdout + done.stderr

    def known(folder: Path) -> dict[str, Record]:
        records = records_in(folder / "results")
        of_cells = (record for record in records if record.case.rpartition("/")[0] in REPEATED)
        return {record.case: record for record in of_cells}

    def exact(record: Record) -> tuple:
        numbers = {
            name: value for name, value in record.metrics.items() if not name.startswith("time.") and not by_blas(name)
        }
        versions = {name: value for name, value in record.job.items() if name.startswith("version.")}
        words = (record.outcome, record.action, record.stage, record.message, record.attempts)
        return (*words, numbers, record.facts, versions)

    contained, outside = known(tmp_path), known(cpu_run)
    assert len(contained) > 15
    assert {case: exact(record) for case, record in contained.items()} == {
        case: exact(record) for case, record in outside.items()
    }
    for case, record in contained.items():
        sums = {name: value for name, value in record.metrics.items() if by_blas(name)}
        others = {name: value for name, value in outside[case].metrics.items() if by_blas(name)}
        assert sums == pytest.approx(others, rel=1e-9, abs=1e-13), case


def by_blas(name: str) -> bool:
    """Return whether BLAS adds up this figure. Two processes may add the same numbers in another order."""
    return name.endswith(("rel_fro", "cosine", "noise_ratio", ".growth"))
