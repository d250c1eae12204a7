"""Every fault of the packages in ``faults`` is red, and the right kernel of each is green."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import driving
import pytest
from common import python_of
from covering import with_the_night
from loops import at_least

HERE = Path(__file__).parent
SUITE, FAULTS = HERE / "suites" / "faults", HERE / "faults"
DIRECTIONS, DTYPES = ("forward", "backward"), ("fp32", "bf16")
ADDED = {"tokens": 7, "hidden": 24}
CASES = {
    "numpy_norm": [("numpy_norm", "forward", {"tokens": 7, "hidden": 24})],
    "numpy_leaks": [("numpy_norm", "forward", {"tokens": 7, "hidden": 24})],
    "torch_norm": [
        ("torch_norm", direction, {"tokens": 7, "hidden": 40, "dtype": dtype})
        for direction in DIRECTIONS
        for dtype in DTYPES
    ],
    "numpy_softmax": [("numpy_softmax", "forward", {"tokens": 7, "hidden": 24, "dtype": dtype}) for dtype in DTYPES],
    "numpy_edges": [("numpy_softmax", "forward", {"tokens": 7, "hidden": 24, "dtype": dtype}) for dtype in DTYPES],
    "numpy_returned": [("numpy_softmax", "forward", {"tokens": 7, "hidden": 24, "dtype": dtype}) for dtype in DTYPES],
    "numpy_added": [("numpy_added", "forward", {**ADDED, "residual": both}) for both in (True, False)],
    "torch_added": [("torch_added", way, {**ADDED, "residual": both}) for way in DIRECTIONS for both in (True, False)],
    "torch_added_module": [
        ("torch_added_module", way, {**ADDED, "residual": both}) for way in DIRECTIONS for both in (True, False)
    ],
    "jax_added": [("jax_added", way, {**ADDED, "residual": both}) for way in DIRECTIONS for both in (True, False)],
    "numpy_scaled": [("numpy_scaled", "forward", {"tokens": 7, "hidden": 24})],
    "numpy_nll": [("numpy_nll", "forward", {"tokens": 7, "hidden": 40})],
    "numpy_topk": [("numpy_topk", "forward", {"tokens": 7, "hidden": 40})],
    "numpy_saves": [("numpy_saves", "forward", {"tokens": 7, "hidden": 40})],
    "numpy_quant": [("numpy_quant", "forward", {"tokens": 7, "hidden": 40})],
    "torch_called": [
        ("torch_norm", direction, {"tokens": 7, "hidden": 40, "dtype": dtype})
        for direction in reversed(DIRECTIONS)
        for dtype in DTYPES
    ],
    "torch_gated": [
        ("torch_gated", direction, {"tokens": 7, "hidden": 40, "dtype": dtype})
        for direction in DIRECTIONS
        for dtype in DTYPES
    ],
    "torch_modes": [("torch_modes", "forward", {"tokens": 7, "hidden": 40})],
    "torch_falls_back": [("torch_norm", "forward", {"tokens": 7, "hidden": 40, "dtype": "fp32"})],
    "torch_module": [("torch_module", direction, {"tokens": 7}) for direction in DIRECTIONS],
    "jax_norm": [("jax_norm", direction, {"tokens": 7, "hidden": 40}) for direction in DIRECTIONS],
    "jax_softmax": [("jax_softmax", direction, {"tokens": 7, "hidden": 40}) for direction in DIRECTIONS],
}
_TORCH, _JAX = ("reference", "cpu-llvm"), ("pallas-0.10", "tpu")
ENVIRONMENTS = {
    "torch_norm": _TORCH,
    "torch_gated": _TORCH,
    "torch_called": _TORCH,
    "torch_added": _TORCH,
    "torch_added_module": _TORCH,
    "torch_modes": _TORCH,
    "torch_falls_back": _TORCH,
    "torch_module": _TORCH,
    "jax_softmax": _JAX,
    "jax_norm": _JAX,
    "jax_added": _JAX,
}
AT_NIGHT = (
    "torch_gated",
    "torch_called",
    "torch_added",
    "torch_added_module",
    "jax_norm",
    "jax_added",
)  # by day each framework has another function, and PyTorch a module, too
BY_DAY = 3  # the night tries every fault, and the day every third of a framework and every second in NumPy
# Faults that no check sees, each with the reason; docs/accuracy.md has them too.
NOT_SEEN = {
    "autocast_narrows": "a kernel that is made of PyTorch's operators follows autocast, and rightly",
    "zero_row_skipped": "a value means something to this kernel alone, and no check draws it",
    "in_tiles_of_512": "few rows are up to 130, and many are no multiple of a large tile",
    "zeros_where_errors_raise": "the settings of the caller are those of a new process",
    "shape_of_another_thread": "the calls of two threads have the same shapes",
    "input_changed_and_set_back": "an input is looked at before a call and after it",
    "a_view_of_64_megabytes": "memory is looked at when the result is gone",
    "second_derivative_is_none": "nobody asks for second derivatives",
    "kept_beside_autograd": "nobody changes an input between the forward and the backward",
    "packed_until_the_version_changes": "what writes into the inputs here says so to autograd",
    "forgets_a_parameter": "the inputs of a function are tensors of no subclass",
    "other_where_differentiated": "of JAX, what comes besides the gradients is not looked at",
    "at_other_addresses": "of few runs the addresses come again",
    "arrays_of_every_third_run": "arrays that are alive are counted around two runs",
    "compiled_anew": "a call may take as long as it does, where it is not timed",
    "other_where_nothing_is_saved": "one optional output alone is never left out",
    "no_mark_where_nan": "where NaN comes in, results of whole numbers are not looked at",
    "small_to_zero": "what is lost lies below the error that the budget of the output's largest value allows",
}
# The codes of faults that another check might see by chance.
CODES = {
    **dict.fromkeys(("a_matrix", "a_subclass", "a_record", "other_byte_order"), "kit-kind"),
    **dict.fromkeys(("gives_a_subclass", "gives_a_parameter", "gives_an_array_of_numpy", "weakly_typed"), "kit-kind"),
    **dict.fromkeys(("result_asks_for_a_gradient", "none_for_y", "y_alone", "one_name"), "kit-kind"),
    **dict.fromkeys(("wrong_after_an_error", "locked_after_an_error", "gone_after_an_error"), "kit-after-error"),
    "half_after_an_error": "kit-after-error",
}


def kernels_of(module: str) -> list[str]:
    tree = ast.parse((FAULTS / f"{module}.py").read_text(encoding="utf-8"))
    return [
        one.name
        for one in tree.body
        if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and not one.name.startswith("_")
    ]


def outcomes(folder: Path, module: str, python: str = sys.executable, every: int = 1) -> dict[str, list[str]]:
    """Return the messages of the red cases of the right kernel, and of every fault or every second or third.

    One job runs the right kernel in all cases, which come first, and each fault in the first case. A second one asks
    the other cases of the faults that are not red there.
    """
    first, *others = CASES[module]
    good, *faults = sorted(kernels_of(module), key=lambda name: name != "good")
    faults = faults[::every]
    asked = [(good, case) for case in CASES[module]] + [(kernel, first) for kernel in faults]
    found = red_of(folder / "first", module, asked, python)
    unseen = [kernel for kernel in faults if not found[kernel] and kernel not in NOT_SEEN]
    if others and unseen:
        asked = [(kernel, case) for kernel in unseen for case in others]
        found |= red_of(folder / "others", module, asked, python)
    return found


def red_of(folder: Path, module: str, asked: list, python: str) -> dict[str, list[str]]:
    """Run the cases of kernels in one job, and return the messages of those that are red."""
    cases = [(op, way, {**axes, "kernel": kernel}) for kernel, (op, way, axes) in asked]
    job = driving.run(folder, SUITE, module + ":{kernel}", cases, FAULTS, python=python)
    assert len(job.ends) == len(cases), job.output
    red = job.red()
    return {kernel: [text for case, text in red.items() if case.endswith(f"kernel={kernel}")] for kernel, _ in asked}


def hold(found: dict[str, list[str]]) -> None:
    assert found.pop("good") == []
    assert [kernel for kernel, red in found.items() if bool(red) == (kernel in NOT_SEEN)] == []
    codes = {kernel: red[0].rpartition("[")[2].rstrip("]") for kernel, red in found.items() if kernel in CODES}
    assert codes == {kernel: CODES[kernel] for kernel in codes}


def test_the_docs_count_the_faults_that_are_tried():
    count = sum(name != "good" for file in at_least(10, FAULTS.glob("*.py")) for name in kernels_of(file.stem))
    for page in ("accuracy.md", "how-to/describe.md"):
        assert f"of {count} faults" in (HERE.parents[1] / "docs" / page).read_text(encoding="utf-8"), count


@pytest.mark.parametrize("module", [module for module in CASES if module not in ENVIRONMENTS])
def test_every_fault_in_numpy_is_red_and_the_right_kernel_green(request, tmp_path, module):
    hold(outcomes(tmp_path, module, every=1 if with_the_night(request) else BY_DAY - 1))


@pytest.mark.environments
@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=[pytest.mark.nightly] if name in AT_NIGHT else []) for name in ENVIRONMENTS]
)
def test_every_fault_in_a_framework_is_red_and_the_right_kernel_green(request, tmp_path, module):
    every = 1 if with_the_night(request) else BY_DAY
    hold(outcomes(tmp_path, module, str(python_of(*ENVIRONMENTS[module])), every))


def test_an_output_that_a_case_has_not_may_be_none_or_anything_or_not_come(tmp_path):
    kernels = ("none", "alone", "both", "names", "names_of_its_own")
    cases = [(op, way, {**axes, "kernel": one}) for op, way, axes in CASES["numpy_added"] for one in kernels]
    job = driving.run(tmp_path, SUITE, "numpy_added:{kernel}", cases, HERE / "honest")
    assert (len(job.ends), job.red()) == (10, {}), job.output


def test_a_timed_case_is_raced_against_plain_code(tmp_path):
    job = driving.run(tmp_path, SUITE, "numpy_norm:good", CASES["numpy_norm"], FAULTS, timed=True)
    [end] = job.ends.values()
    assert (job.red(), end["facts"]["checks"]) == ({}, "16 of 16 checks"), job.output
    assert end["metrics"]["time.ratio"] > 0


def test_what_a_result_depends_on_besides_its_inputs_is_named(tmp_path):
    """Only what other numbers in unwritten memory change is said to read it; other bits may have other causes."""
    kernels = kernels_of("numpy_scratch")
    found = red_of(tmp_path, "numpy_scratch", [(kernel, CASES["numpy_norm"][0]) for kernel in kernels], sys.executable)
    codes = {kernel: [text.rpartition("[")[2].rstrip("]") for text in red] for kernel, red in found.items()}
    other = {"good": [], "address": ["kit-address"], "chance": ["kit-other-bits"]}
    assert codes == {kernel: other.get(kernel, ["kit-unwritten"]) for kernel in kernels}


@pytest.mark.parametrize("kernel", kernels_of("numpy_timed"))
def test_a_kernel_that_does_not_compute_where_it_is_timed_is_red(tmp_path, kernel):
    job = driving.run(tmp_path, SUITE, f"numpy_timed:{kernel}", CASES["numpy_norm"], FAULTS, timed=True)
    assert [text.endswith("[kit-times]") for text in job.red().values()] == [True], job.output
    assert driving.run(tmp_path / "2", SUITE, f"numpy_timed:{kernel}", CASES["numpy_norm"], FAULTS).red() == {}


def test_where_plain_code_fails_a_check_is_not_asked_and_the_cell_says_so(tmp_path):
    case = ("numpy_picky", "forward", {"tokens": 7, "hidden": 24})
    job = driving.run(tmp_path, SUITE, "numpy_picky:good", [case], FAULTS)
    [end] = job.ends.values()
    assert job.red() == {}, job.output
    assert "not asked: " in end["facts"]["checks"]
    assert "(plain code fails there: IndexError: index -1 is out of bounds)" in end["facts"]["checks"]


def test_plain_code_that_fails_for_the_drawn_inputs_is_an_error(tmp_path):
    case = ("numpy_picky", "forward", {"tokens": 0, "hidden": 24})
    job = driving.run(tmp_path, SUITE, "numpy_picky:good", [case], FAULTS)
    [message] = job.red().values()
    assert "index -1 is out of bounds" in message
