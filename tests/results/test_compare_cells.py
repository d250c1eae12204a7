"""Two cells are printed side by side: the bits, the distances, the first difference, and the errors of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from common import ROOT, harness

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.job.inputs import normal
from kernel_matrix.job.sample import take
from kernel_matrix.results.side_by_side import side_by_side
from kernel_matrix.store import samples
from kernel_matrix.store import write as store
from kernel_matrix.store.record import Record

A, B = "cuda/sm_90/triton-3.7/sinkhorn.forward", "cpu-llvm/x86-64-v3/tvm-0.27/sinkhorn.forward"
FACTS = {"inputs.sha256": "ab" * 8}


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(load(ROOT / "matrix.yaml"), "full")


def record(case: str, outputs: dict[str, np.ndarray], **fields) -> Record:
    entry = {output: take(case.split("/", 3)[-1], output, array) for output, array in outputs.items()}
    metrics = {f"{output}.{name}": 1.25e-7 for output in outputs for name in ("max_abs", "rel_fro")}
    metrics |= {f"{output}.floor_rel_fro": 2.5e-7 for output in outputs}
    metrics |= {"elements": 8.0} | {f"{output}.elements": float(array.size) for output, array in outputs.items()}
    return Record(case, "pass", "run", metrics=metrics, facts=FACTS, samples=samples.of_entry(entry), **fields)


def matrix_of(name: str) -> np.ndarray:
    return (normal(name, (7, 4, 4)) + 5).astype(np.float32)


def off(array: np.ndarray, steps: int) -> np.ndarray:
    """Return the array with the element [0, 2, 1] so many steps further from zero."""
    changed = array.copy()
    changed.view(np.int32)[0, 2, 1] += steps
    return changed


# What is on the two sides of each case, in the order of the plan.
CASES = (
    "equal",
    "six steps",
    "twelve steps",
    "variant",
    "other inputs",
    "no inputs",
    "no samples",
    "shape",
    "one side",
)


@pytest.fixture(scope="module")
def names(planned: Plan) -> dict[str, str]:
    """Return the name of each case."""
    of_cell = [case.name for case in planned.cases if case.cell.id == A]
    return dict(zip(CASES, of_cell, strict=False))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, names: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("results")
    arrays = {what: matrix_of(name) for what, name in names.items()}
    theirs = {what: {"matrix": array} for what, array in arrays.items() if what != "one side"}
    theirs["six steps"], theirs["twelve steps"] = ({"matrix": off(arrays[f"{name} steps"], steps)}
                                                   for name, steps in (("six", 6), ("twelve", 12)))  # fmt: skip
    theirs["shape"] = {"matrix": arrays["shape"][:3]}
    of_b = {what: record(f"{B}/{names[what]}", outputs) for what, outputs in theirs.items()}
    of_b["other inputs"] = replace(of_b["other inputs"], facts={"inputs.sha256": "cd" * 8})
    of_b["no inputs"] = replace(of_b["no inputs"], facts={})
    of_b["no samples"] = replace(of_b["no samples"], samples={})
    ours = {what: {"matrix": array} for what, array in arrays.items()}
    ours["variant"]["matrix@wide"] = off(arrays["variant"], 3)
    of_a = [record(f"{A}/{names[what]}", outputs) for what, outputs in ours.items()]
    store.write(folder / "a", {"job": "cuda.triton-3.7"}, of_a)
    store.write(folder / "b", {"job": "cpu-llvm.tvm-0.27"}, list(of_b.values()))
    (folder / "c.xml").write_bytes(b"<testsuites>")
    return folder


@pytest.fixture(scope="module")
def printed(results: Path) -> CompletedProcess[str]:
    """Compare the two cells."""
    return harness("compare", A, B, str(results))


def of_case(printed: CompletedProcess[str], name: str) -> list[str]:
    """Return the lines of a case."""
    lines = printed.stdout.splitlines()
    first = lines.index(f"{name}: A pass, B pass") + 1
    return lines[first : next(n for n in range(first, len(lines)) if not lines[n].startswith("  "))]


@pytest.mark.slow
def test_cells_are_compared_case_by_case(printed, names):
    lines = printed.stdout.splitlines()
    assert lines[:2] == [f"A: {A}", f"B: {B}"]
    errors = ["1.25e-07", "1.25e-07", "0.5", "0.5"]
    for what, bits, largest in (("equal", "same", "0"), ("six steps", "differ", "6"), ("twelve steps", "differ", "12")):
        head, row, *first = of_case(printed, names[what])
        assert " ".join(head.split()) == "output bits ULP median p99 max max_abs A max_abs B noise A noise B"
        assert row.split() == ["matrix", bits, "0", "0", largest, *errors]
        array = matrix_of(names[what])
        ours, theirs = (f"{float(value[0, 2, 1]):.9g}" for value in (array, off(array, int(largest))))
        differs = [f"  matrix differs first at [0, 2, 1]: A {ours}, B {theirs}"]
        assert first == (differs if bits == "differ" else [])
    assert lines[-1].startswith("9 cases, 5 compared: 1 bit-equal in all outputs. Furthest: matrix of ")
    assert f"matrix of {names['twelve steps']}, p99 0 and max 12 ULP." in lines[-1]


@pytest.mark.slow
def test_a_variant_stands_beside_the_chosen_kernel_of_the_other_side(printed, names):
    rows = [line.split()[:5] for line in of_case(printed, names["variant"])]
    assert ["matrix", "same", "0", "0", "0"] in rows
    assert ["matrix@wide", "|", "matrix", "differ", "0"] in rows


@pytest.mark.slow
def test_what_cannot_be_compared_is_said(printed, names):
    for what, words in (
        ("other inputs", "the inputs differ (A: abababababababab, B: cdcdcdcdcdcdcdcd)"),
        ("no inputs", "the inputs differ (A: abababababababab, B: not known)"),
        ("no samples", "no samples of B"),
    ):
        assert of_case(printed, names[what]) == [f"  not compared: {words}"], what
    assert printed.stdout.count("not compared: only one side has a result") == 1
    shape = "  matrix: not compared: matrix is fp32 [7, 4, 4] on one side and fp32 [3, 4, 4] on the other"
    assert shape in of_case(printed, names["shape"])


@pytest.mark.slow
def test_a_file_that_was_refused_is_named_and_the_status_is_2(printed):
    assert printed.returncode == 2
    assert "c.xml: not whole JUnit XML" in printed.stderr


@pytest.mark.slow
def test_two_cases_are_compared_by_their_ids(results, names):
    name = names["six steps"]
    done = harness("compare", f"{A}/{name}", f"{B}/{name}", str(results / "a"), str(results / "b"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("1 case, 1 compared: 0 bit-equal")


@pytest.mark.slow
def test_an_input_that_cannot_be_used_is_refused(results, planned, names):
    done = harness("compare", f"{A}s", B, str(results))
    assert done.returncode == 2
    assert f"there is no such cell or case in the plan. Did you mean '{A}'?" in done.stderr
    first, second = f"{A}/{names['equal']}", f"{B}/{names['six steps']}"
    for one, other, words in (
        (A, B.replace("sinkhorn", "expand"), "they are of different operators"),
        (A, B, "no result of it is here"),
        (first, second, "they have no case in common"),
    ):
        with pytest.raises(UserError, match=words):
            side_by_side(planned, {}, one, other)
