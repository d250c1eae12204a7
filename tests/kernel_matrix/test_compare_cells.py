"""Two cells are printed side by side: the bits, the distances, the first difference, and the errors of both."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, harness
from together import first_are_quick

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.job.inputs import normal
from kernel_matrix.job.sample import take
from kernel_matrix.store import samples
from kernel_matrix.store import write as store
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record

A, B = "cuda/sm_90/triton-3.6/sinkhorn.forward", "cpu-llvm/x86-64-v3/tvm-0.27/sinkhorn.forward"
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


@pytest.fixture
def results(tmp_path: Path, planned) -> Path:
    names = [case.name for case in planned.cases if case.cell.id == A][:3]
    ours = [record(f"{A}/{name}", {"matrix": matrix_of(name)}) for name in names]
    theirs = [record(f"{B}/{name}", {"matrix": off(matrix_of(name), place * 6)}) for place, name in enumerate(names)]
    write(tmp_path / "a", ours, {"job": "cuda.triton-3.6"})
    write(tmp_path / "b", theirs, {"job": "cpu-llvm.tvm-0.27"})
    return tmp_path


def write(folder: Path, records: list[Record], job: dict[str, str]) -> None:
    """Write the results of a job in place of those in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    store.write(folder, job, records)


def names_of(folder: Path) -> list[str]:
    return [record.case.rpartition("/")[2] for record in collect([folder / "a"]).records]


@pytest.mark.slow
def test_cells_are_compared_case_by_case(results):
    done = harness("compare", A, B, str(results))
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = names_of(results)
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"A: {A}", f"B: {B}"]
    assert f"{first}: A pass, B pass" in lines
    heads = [" ".join(line.split()) for line in lines if line.startswith("  output")]
    assert heads[0] == "output bits ULP median p99 max max_abs A max_abs B noise A noise B"
    rows = [line.split() for line in lines if line.startswith("  matrix ") and "first" not in line]
    errors = ["1.25e-07", "1.25e-07", "0.5", "0.5"]
    assert rows == [
        ["matrix", "same", "0", "0", "0", *errors],
        ["matrix", "differ", "0", "0", "6", *errors],
        ["matrix", "differ", "0", "0", "12", *errors],
    ]
    ours, theirs = (f"{float(value):.9g}" for value in (matrix_of(second)[0, 2, 1], off(matrix_of(second), 6)[0, 2, 1]))
    assert f"  matrix differs first at [0, 2, 1]: A {ours}, B {theirs}" in lines
    assert lines[-1] == (
        f"3 cases, 3 compared: 1 bit-equal in all outputs. Furthest: matrix of {third}, p99 0 and max 12 ULP."
    )


@pytest.mark.slow
def test_two_cases_are_compared_by_their_ids(results):
    name = names_of(results)[1]
    done = harness("compare", f"{A}/{name}", f"{B}/{name}", str(results))
    assert done.stdout.splitlines()[-1].startswith("1 cases, 1 compared: 0 bit-equal")


@pytest.mark.slow
def test_a_variant_stands_beside_the_chosen_kernel_of_the_other_side(results):
    name = names_of(results)[0]
    array = matrix_of(name)
    write(results / "a", [record(f"{A}/{name}", {"matrix": array, "matrix@wide": off(array, 3)})], {"job": "j"})
    rows = [line.split()[:5] for line in harness("compare", A, B, str(results)).stdout.splitlines()]
    assert ["matrix", "same", "0", "0", "0"] in rows
    assert ["matrix@wide", "|", "matrix", "differ", "0"] in rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"facts": {"inputs.sha256": "cd" * 8}}, "the inputs differ (A: abababababababab, B: cdcdcdcdcdcdcdcd)"),
        ({"facts": {}}, "the inputs differ (A: abababababababab, B: not known)"),
        ({"samples": {}}, "no samples of B"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_compared_is_said(results, change, words):
    name = names_of(results)[0]
    changed = replace(record(f"{B}/{name}", {"matrix": matrix_of(name)}), **change)
    write(results / "b", [changed], {"job": "cpu-llvm.tvm-0.27"})
    printed = harness("compare", A, B, str(results)).stdout
    assert f"{name}: A pass, B pass\n  not compared: {words}\n" in printed
    assert "not compared: only one side has a result" in printed  # of the two other cases


@pytest.mark.slow
def test_outputs_of_another_shape_are_not_compared(results):
    name = names_of(results)[0]
    write(results / "b", [record(f"{B}/{name}", {"matrix": matrix_of(name)[:3]})], {"job": "j"})
    printed = harness("compare", A, B, str(results)).stdout
    assert "  matrix: not compared: matrix is fp32 [7, 4, 4] on one side and fp32 [3, 4, 4] on the other" in printed


@pytest.mark.parametrize(
    ("one", "other", "words"),
    first_are_quick(
        1,
        [
            (f"{A}s", B, f"there is no such cell or case in the plan. Did you mean '{A}'?"),
            (A, B.replace("sinkhorn", "expand"), "they are of different operators"),
            (A, B.replace("tvm-0.27", "inductor"), "no result of it is here"),
        ],
    ),
)
@pytest.mark.slow
def test_an_input_that_cannot_be_used_is_refused(results, one, other, words):
    done = harness("compare", one, other, str(results))
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.slow
def test_different_cases_have_nothing_in_common(results):
    first, second, _ = names_of(results)
    done = harness("compare", f"{A}/{first}", f"{B}/{second}", str(results))
    assert done.returncode == 2
    assert "they have no case in common" in done.stderr


@pytest.mark.slow
def test_a_file_that_was_refused_is_named_and_the_status_is_2(results):
    (results / "c.xml").write_bytes(b"<testsuites>")
    done = harness("compare", A, B, str(results))
    assert done.returncode == 2
    assert "c.xml: not whole JUnit XML" in done.stderr
    assert "3 cases, 3 compared" in done.stdout
