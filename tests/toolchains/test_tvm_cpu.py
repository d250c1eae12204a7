"""TVM's CPU kernels run on the threads of PyTorch's OpenMP: ``tvm_cpu.py`` tries it in TVM's environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from common import python_of
from in_environment import run

pytestmark = pytest.mark.environments

PROGRAM = Path(__file__).with_name("tvm_cpu.py")


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """Run the program in TVM's environment, which is made if it is not there."""
    return json.loads(run(python_of("tvm-0.27", "cpu-llvm"), PROGRAM, "without", TVM_NUM_THREADS="3"))


def test_a_kernel_starts_no_threads_of_its_own(answer):
    assert (answer["right"], answer["started"]) == (True, 0)


def test_each_task_gets_its_number_the_count_and_what_the_loop_reads(answer):
    assert answer["good"] == [0, [[0, 3, 77], [1, 3, 77], [2, 3, 77]]]


def test_the_failure_of_another_thread_is_the_status_of_the_loop(answer):
    assert answer["bad"][0] == -1


def test_kernels_of_several_threads_of_python_are_right(answer):
    assert answer["beside"] == [True] * 4


def test_modules_of_others_keep_the_threads_of_tvm(answer):
    assert answer["others"] == [True, True]


def test_without_openmp_a_kernel_runs_on_the_threads_of_tvm(answer):
    assert answer["without"] is True


def test_macros_find_their_parser_by_frames_alone_and_make_the_same_script(answer):
    assert answer["macros"] == [True, True]
