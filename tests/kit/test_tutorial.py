"""The description of the tutorial of depth 3: eight kernels give one green and seven reds, each with its sentence."""

from __future__ import annotations

import re
from pathlib import Path

import driving
import pytest

PAGE = (driving.ROOT / "docs" / "tutorials" / "depth-3.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE, re.M | re.S))
TOKENS = (1, 7, 128)
SENTENCES = {
    "past_end": "the kernel wrote past an end of its output out [kit-past-end]",
    "reads_garbage": "the kernel computes with memory that nobody has written [kit-unwritten]",
    "cached": "the results do not follow their inputs: other values at the same addresses: ",
    "spoils_input": "the kernel changed its input x [kit-changed-input]",
    "state": "the kernel changed what NumPy does on errors (divide, invalid, over) [kit-changed-process]",
    "every_third": "run 3 on the same inputs gives other results: out [kit-other-bits]",
    "child": "another process started or worked while the kernel ran [kit-other-process]",
}


def job_of(folder: Path, *kernels: str) -> driving.Job:
    suite = folder / "suite"
    suite.mkdir()
    (suite / "test_operators.py").write_text(FILES["suite/test_operators.py"])
    cases = [("double", "forward", {"tokens": tokens, "kernel": kernel}) for kernel in kernels for tokens in TOKENS]
    return driving.run(folder / "job", suite, "scaling:{kernel}", cases, Path(__file__).with_name("packages"))


def test_what_a_user_writes_has_at_most_25_lines():
    assert sum(len(body.splitlines()) for body in FILES.values()) <= 25
    assert len(FILES["suite/test_operators.py"].splitlines()) <= 6


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Return the job of the right kernel."""
    return job_of(tmp_path_factory.mktemp("right"), "good")


def test_three_cases_of_an_operator_take_fifteen_seconds_of_a_cpu_at_most(right):
    assert len(right.ends) == 3
    assert right.seconds <= 15


def test_the_right_kernel_is_green_and_says_how_many_checks_it_had(right):
    assert (len(right.ends), right.red()) == (3, {}), right.output
    assert [end["facts"]["checks"] for end in right.ends.values()] == [
        "14 of 14 checks",
        "15 of 15 checks",
        "15 of 15 checks",
    ]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Return the sentences of the wrong kernels, from one job."""
    kernels = {*SENTENCES, *(kernel for kernel, _ in MEANS.values())}
    red = job_of(tmp_path_factory.mktemp("wrong"), *kernels).red()
    return {kernel: [text for case, text in red.items() if case.endswith(f"={kernel}")] for kernel in kernels}


@pytest.mark.parametrize("kernel", SENTENCES)
def test_a_kernel_that_does_something_else_is_red_with_its_own_sentence(wrong, kernel):
    assert [text.startswith(SENTENCES[kernel]) for text in wrong[kernel]] == [True] * 3, wrong[kernel]


README = (driving.ROOT / "README.md").read_text(encoding="utf-8").partition("## What a green cell means")[2]
# Words of the list in README.md, each with a kernel that is red where the words hold, and with its sentence.
MEANS = {
    "all of its numbers are inside their error budget": ("half", "OutOfBudgetError: out: max_abs"),
    "which never imports it": ("looks_for_the_golden", "OutOfBudgetError: out: max_abs"),
    "writes past the end of a tensor": ("past_end", SENTENCES["past_end"]),
    "memory that nobody wrote": ("reads_garbage", SENTENCES["reads_garbage"]),
    "its process": ("state", SENTENCES["state"]),
    "its children": ("child", SENTENCES["child"]),
}


@pytest.mark.parametrize("words", MEANS)
def test_what_a_green_cell_means_holds_for_a_package_of_a_few_lines(wrong, words):
    kernel, sentence = MEANS[words]
    assert words in README.partition("\n[Accuracy]")[0]
    assert [sentence in text for text in wrong[kernel]] == [True] * 3, wrong[kernel]


def test_a_job_of_it_tests_its_comparison(right):
    assert "Every job tests its comparison by these faults, the canaries." in README
    metrics = [end["metrics"] for end in right.ends.values()]
    assert all(one["canary.injected"] == one["canary.caught"] >= 2 for one in metrics), metrics
