"""The fuzzer: it finds a fault of a rare shape or value, shrinks it, and runs it again by its name."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from common import ROOT, harness
from hypothesis import given, settings
from hypothesis.strategies import data

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.file_readers import concerned
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Bounds
from kernel_matrix.config.plan import plan
from kernel_matrix.config.reads import content_of, read_by_job
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.report import checks
from kernel_matrix.tools.fuzz import fixture
from kernel_matrix.tools.fuzz.fixture import fuzzed
from kernel_matrix.tools.fuzz.run import Wish, repeat, search
from kernel_matrix.tools.fuzz.search import Search, Verdict
from kernel_matrix.tools.fuzz.space import Space, space_of

# A kernel that is wrong in the last row of a shape that ends behind a tile of 16, and one that flushes denormals.
FAULTS = """

def ragged(x, out):
    out[:] = 2 * x
    if len(x) > 16 and len(x) % 16 == 1:
        out[-1] = 0


def flushes(x, out):
    out[:] = np.where(np.abs(x) < 2.0**-126, 0, 2 * x)


BACKENDS |= {"ragged": ragged, "flushes": flushes}
"""


@pytest.fixture
def faulty(here):
    """Return the doubles with the two kernels, whose only sizes in matrix.yaml are right."""
    module = here.root / "src" / "doubles" / "__init__.py"
    module.write_text(module.read_text() + FAULTS)
    test = here.root / "suite" / "test_doubles.py"
    test.write_text(test.read_text().replace("faulty=tokens == 2", "faulty=True"))
    here.edit(
        "toolchains:\n", "".join(["toolchains:\n", *(f"  {n}: {{ backend: {n}, lock: lock.txt }}\n" for n in KINDS)])
    )
    here.edit("toolchains: [good,", "toolchains: [ragged, flushes, good,")
    here.edit("bench:\n", "fuzz:\n  sizes: { tokens: { most: 100 } }\nbench:\n")
    return pipeline.load(here.root / "matrix.yaml")


KINDS = ("ragged", "flushes")


def wish(toolchain: str, *cases: str) -> Wish:
    return Wish((), (), (toolchain,), cases, 60.0, 1, "current")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("toolchain", "smallest"),
    [
        ("ragged", "fuzz:double.forward:tokens=17:plain:0"),
        pytest.param("flushes", "fuzz:double.forward:tokens=1:x=denormal@all:0", marks=pytest.mark.slow),
    ],
)
def test_a_rare_fault_is_found_shrunk_and_repeated_by_its_name(faulty, toolchain, smallest):
    said: list[str] = []
    assert search(faulty, wish(toolchain), said.append)
    text = "\n".join(said)
    assert f"FAILS {smallest}\n" in text, text
    assert "the smallest, found as" in text
    assert "repeats in a new process: " in text
    [entry] = re.findall(r"(?m)^ +(- .*)$", text)
    [check] = checks.read(faulty.build / checks.FOLDER)
    [cell] = check.cells
    assert (check.name, cell.cell.split("/")[2], cell.found) == ("fuzz", toolchain, 1)
    assert cell.tried > 10
    assert "seed 1; 1 min for 1 of 1 cells" in check.note
    assert [finding.case for finding in check.findings] == [f"{cell.cell}/{smallest}"]
    assert entry == ("- { direction: forward, tokens: 17 }" if toolchain == "ragged" else f"- '{smallest}'")
    of_page = harness("fuzz", "--matrix", str(faulty.file), "--executor", "current", "--case", check.findings[0].case)
    assert (of_page.returncode, of_page.stdout.split()[1]) == (1, "failed")
    said.clear()
    overflows = "fuzz:double.forward:tokens=1:x=infinite@all:0"
    assert not repeat(faulty, wish("good", smallest, overflows), said.append)
    assert [line.split()[1] for line in said if " fuzz:" in line] == ["passed", "not"]
    assert f"not judged {overflows}" in "\n".join(said)


def test_an_interrupted_search_keeps_what_it_has_tried(faulty, monkeypatch):
    def interrupted(self, known, seconds):
        self.verdicts |= {"one": Verdict("passed"), "other": Verdict("passed")}
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(faulty, wish("ragged"), print)
    [check] = checks.read(faulty.build / checks.FOLDER)
    assert [(cell.tried, cell.found) for cell in check.cells] == [(2, 0)]


def test_repro_prints_the_command_for_a_name(faulty):
    for name in (
        "fuzz:double.forward:tokens=17:plain:0",
        "cpu-any/any/ragged/double.forward/fuzz:double.forward:tokens=17:plain:0",
    ):
        done = harness("repro", name, "--matrix", str(faulty.file))
        assert (done.returncode, done.stderr) == (0, "")
        assert shlex.split(done.stdout)[-5:] == ["fuzz", "--case", name, "--matrix", str(faulty.file)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fuzz:double.forward:tokens=1:plain", "is called fuzz:OP.DIRECTION:AXES:VALUES:SEED"),
        ("fuzz:duble.forward:tokens=1:plain:0", "Did you mean 'double.forward'?"),
        ("fuzz:double.forward:token=1:plain:0", "Did you mean 'tokens'?"),
        ("fuzz:double.forward::plain:0", "the axis 'tokens' has no value"),
        ("fuzz:double.forward:tokens=1:x=denormal:0", "is no rule TENSOR=KIND@PLACE"),
        ("fuzz:double.forward:tokens=1:plain:first", "the seed 'first' is no whole number"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_reason(faulty, name, said):
    with pytest.raises(UserError, match=re.escape(said)):
        repeat(faulty, wish("good", name), print)


def test_a_name_whose_tensor_nobody_draws_is_red(faulty):
    said: list[str] = []
    assert repeat(faulty, wish("good", "fuzz:double.forward:tokens=1:y=zero@all:0"), said.append)
    assert said[-1] == "  no value was unusual in y: this case draws x"
    assert not repeat(faulty, wish("good", "fuzz:double.forward:tokens=1:x=zero@all:0"), said.append)


def test_what_cannot_be_searched_is_said_in_one_sentence_with_status_2(faulty):
    file = ["--matrix", str(faulty.file), "--executor", "current"]
    for words, said in (
        (["--case", "double.sideways"], "no such operator"),
        (["--toolchain", "goood"], "Did you mean 'good'?"),
        (["--target", "sm_90"], "no such target"),
    ):
        done = harness("fuzz", *file, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1
        assert said in done.stderr
    text = faulty.file.read_text()
    faulty.file.write_text(text.replace("sizes: { tokens: { most: 100 } }", "sizes: { tokens: { most: -1 } }"))
    done = harness("fuzz", *file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "fuzz.sizes.tokens.most" in done.stderr


@pytest.mark.slow
def test_neither_the_section_nor_the_fuzzer_makes_a_result_stale(matrix):
    assert (
        concerned(
            matrix, ["src/kernel_matrix/tools/fuzz/run.py", "src/kernel_matrix/tools/fuzz/inside/plugin.py"]
        ).everything
        == ""
    )
    content = content_of(matrix)
    assert content["fuzz"]
    assert read_by_job({**content, "fuzz": {}}, "cuda", "cpp") == read_by_job(content, "cuda", "cpp")


# A test of a package without an adapter. The kernel is wrong for rows of 17, and for a negative zero.
OF_A_SUITE = """
import numpy as np
from kernel_matrix.tools.fuzz.fixture import fuzzed


@fuzzed(rows=40, columns=(2, 40), examples=200)
def test_ragged(matrix, rows, columns, tmp_path):
    x = matrix.draw("x", (rows, columns))
    y = 2 * x.astype(np.float32)
    y[-1] += rows % 16 == 1 and rows > 16
    matrix.compare(y, 2 * x.astype(np.float32).astype(np.float64), eager=2 * x.astype(np.float32), name="y")


@fuzzed(columns=40)
def test_signs(matrix, columns):
    x = matrix.draw("x", (3, columns))
    assert not np.signbit(x[x == 0]).any()


@fuzzed(columns=(2, 40))
def test_views(matrix, columns):
    assert matrix.draw("x", (3, columns)).flags.c_contiguous


@fuzzed(columns=40)
def test_right(matrix, columns):
    x = matrix.draw("x", (3, columns)).astype(np.float32)
    matrix.compare(2 * x, 2 * x.astype(np.float64), eager=2 * x, name="y")
"""


@pytest.mark.slow
def test_one_line_above_a_test_with_the_fixture_searches_in_it(tmp_path):
    file = tmp_path / "test_package.py"
    file.write_text(OF_A_SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "kernel_matrix.job.fixture",
        str(file),
    ]

    def run(*words: str, **variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=environment).stdout

    text = run()
    assert "3 failed, 1 passed" in text, text
    found = dict(re.findall(r"Again: KERNEL_MATRIX_FUZZ='(fuzz:(\w+)=[^']*)'", text))
    assert found == {"fuzz:rows=17,columns=2:plain:0": "rows", "fuzz:columns=1:x=negative_zero@all:0": "columns",
                     "fuzz:columns=2,views:plain:0": "columns"}  # fmt: skip
    again = run("-k", "ragged", KERNEL_MATRIX_FUZZ="fuzz:rows=17,columns=2:plain:0")
    assert "y: max_abs" in again, again
    assert "1 passed" in run("-k", "ragged", KERNEL_MATRIX_FUZZ="fuzz:rows=18,columns=2:plain:0")


OF_FIGURES = """
import contextlib
import numpy as np
from kernel_matrix.tools.fuzz.fixture import fuzzed


@fuzzed(rows=12, columns=(2, 12), examples=40)
def test_wrong(matrix, rows, columns):
    x = np.ones((rows, columns), np.float32)
    matrix.compare(x + (rows > 4), x.astype(np.float64), eager=x, name=f"rows{rows}")


@fuzzed(rows=12, examples=40)
def test_caught(matrix, rows):
    x = np.ones((rows, 3), np.float32)
    with contextlib.suppress(AssertionError):
        matrix.compare(x + (rows > 4), x.astype(np.float64), eager=x, name="y")
"""


@pytest.mark.slow
def test_the_figures_are_those_of_the_case_that_failed_and_a_caught_error_counts(tmp_path):
    (tmp_path / "test_figures.py").write_text(OF_FIGURES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kernel_matrix.job.fixture"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )
    [figures] = [line for line in done.stdout.splitlines() if "test_wrong" in line and "largest error" in line]
    assert "rows5: largest error 1," in figures, done.stdout
    assert "rows4" not in figures
    assert "fuzz:rows=5:plain:0" in done.stdout
    assert "the test caught the error of a comparison: y: " in done.stdout


@given(data())
@settings(max_examples=200, deadline=None)
def test_sizes_with_a_step_are_multiples_of_it(drawn):
    bounds, axes = Bounds(least=100, most=1300, step=128), frozenset({"hidden"})
    space = Space(
        "op", "forward", {"hidden": bounds}, {"hidden": [130]}, {"hidden": [1300]}, {}, axes, ["hidden"], 1 << 18, ()
    )
    for tried in drawn.draw(space.groups()):
        assert int(tried.axes["hidden"]) in range(128, 1281, 128)
        assert {int(smaller.axes["hidden"]) % 128 for smaller in space.smaller(tried)} <= {0}


def test_one_operator_may_have_sizes_of_its_own():
    matrix = load(ROOT / "matrix.yaml")
    cells = {case.cell.op: case.cell for case in plan(matrix, "quick").cases if case.cell.toolchain == "cpp"}
    entry = matrix.platforms["cpu-llvm"].by_toolchain["cpp"]
    steps = {op: space_of(matrix, cells[op], entry).sizes["hidden"].step for op in ("mhc_pre", "mhc_single_pass_fp8")}
    assert steps == {"mhc_pre": 1, "mhc_single_pass_fp8": 128}


@pytest.fixture
def softplus(monkeypatch):
    """Run one case of a test that compares log(1 + exp(x)) in fp32, and return the fixture with its figures."""

    def run(variable: str, value: str, examples: int = 1) -> Comparer:
        @fuzzed(columns=(8, 8), examples=examples)
        def test(matrix, columns):
            x = matrix.draw("x", (2, columns)).astype(np.float32)
            with np.errstate(over="ignore"):
                matrix.compare(
                    np.log(1 + np.exp(x)), np.log1p(np.exp(x.astype(np.float64))), eager=np.log1p(np.exp(x)), name="y"
                )

        monkeypatch.setenv(variable, value)
        matrix = Comparer("a test", None)
        test(matrix=matrix)
        return matrix

    return run


@pytest.mark.parametrize(
    "values", ["x=ones@all+x=large@all:0", "x=zero@all+x=infinite@all:0", "x=equal@all+x=large@all:3"]
)
def test_a_case_whose_golden_or_plain_code_is_no_measure_counts_as_passed(softplus, values):
    softplus("KERNEL_MATRIX_FUZZ", f"fuzz:columns=8:{values}")


def test_the_facts_of_a_test_are_those_of_its_last_case(softplus):
    same = softplus("KERNEL_MATRIX_FUZZ", "fuzz:columns=8:x=zero@all:0").facts
    other = softplus("KERNEL_MATRIX_FUZZ", "fuzz:columns=8:plain:1").facts
    only = same.keys() - other.keys()
    assert only
    matrix, made = Comparer("a test", None), iter([same, other])
    matrix.facts["own"] = "of a fixture"
    search = fixture._Search(lambda own, _: own.facts.update(next(made)), matrix, {"columns": (8, 8)}, 1)
    for seed in range(2):
        search.attempt(fixture._Case({"columns": 8}, seed=seed))
    assert not only & matrix.facts.keys()
    assert matrix.facts["own"] == "of a fixture"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KERNEL_MATRIX_FUZZ", "rubbish", "is called fuzz:columns=N:VALUES:SEED"),
        ("KERNEL_MATRIX_FUZZ", "fuzz::plain:0", "is called fuzz:columns=N:VALUES:SEED"),
        ("KERNEL_MATRIX_FUZZ", "fuzz:columns=x:plain:0", "is called fuzz:columns=N:VALUES:SEED"),
        ("KERNEL_MATRIX_FUZZ", "fuzz:columns=8,rows=2:plain:0", "is called fuzz:columns=N:VALUES:SEED"),
        ("KERNEL_MATRIX_FUZZ", "fuzz:columns=8:plain:first", "is called fuzz:columns=N:VALUES:SEED"),
        ("KERNEL_MATRIX_FUZZ", "fuzz:columns=8:x=nothing@all:0", "is no rule TENSOR=KIND@PLACE"),
        ("KERNEL_MATRIX_FUZZ", "fuzz:columns=8:z=zero@all:0", "the test draws no 'z'; it draws x"),
        ("KERNEL_MATRIX_FUZZ_MINUTES", "five", "for how many minutes"),
        ("KERNEL_MATRIX_FUZZ_MINUTES", "nan", "for how many minutes"),
        ("KERNEL_MATRIX_FUZZ_MINUTES", "inf", "for how many minutes"),
        ("KERNEL_MATRIX_FUZZ_MINUTES", "-1", "for how many minutes"),
    ],
)
def test_a_variable_that_is_none_is_refused_with_what_to_write(softplus, variable, value, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        softplus(variable, value)
