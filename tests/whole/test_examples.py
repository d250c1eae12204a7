"""The examples that need more than a toolchain: each runs as a user runs it, in an environment of its own lock."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest
from common import ROOT, program

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import Request

pytestmark = [pytest.mark.environments, pytest.mark.slow]

# An interpreter with its own packages first, and another environment's packages behind them.
BEHIND = (
    "import runpy, site, sys; site.addsitedir(sys.argv.pop(1)); sys.argv.pop(0); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.fixture(scope="module")
def environment():
    """Return a function from a toolchain to its interpreter; ``examples`` has the packages of ci/locks/examples.txt."""
    matrix = load(ROOT / "matrix.yaml")
    examples = matrix.toolchains["reference"].model_copy(update={"lock": "ci/locks/examples.txt"})
    matrix = matrix.model_copy(update={"toolchains": {**matrix.toolchains, "examples": examples}})
    (ROOT / "build" / "envs").mkdir(parents=True, exist_ok=True)

    def make(toolchain: str) -> Path:
        return venv.prepare(Request(ROOT, ROOT / "build", matrix, Job("cpu-llvm", toolchain, ()), None, print)).python

    return make


def run(python: Path, *arguments: str) -> list[tuple[float, float]]:
    """Run an example, and return the first and the last loss of each backend that it trained with."""
    done = program(python, *arguments, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"first=(\S+) last=(\S+)$", done.stdout, re.MULTILINE)
    assert losses, done.stdout
    return [(float(first), float(last)) for first, last in losses]


@pytest.mark.nightly
def test_a_hugging_face_decoder_trains(environment):
    python = environment("examples")
    [(first, last)] = run(python, "examples/train_llama.py", "--steps", "40")
    assert last < 0.75 * first
    again = run(python, "examples/train_llama.py", "--steps", "40", "--recompute")
    assert again == [(first, last)], "the same to the bit"


@pytest.mark.nightly
def test_a_hugging_face_decoder_trains_alike_with_a_compiled_backend(environment):
    """The losses of ten steps almost equal those that eager PyTorch gives first in the same process."""
    examples = environment("examples")
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(examples.parent.parent)})
    arguments = ("examples/train_llama.py", "--backend", "reference", "--backend", "tvm", "--steps", "10")
    eager, own = run(environment("tvm-0.27"), "-c", BEHIND, packages, *arguments)
    assert own == pytest.approx(eager, rel=1e-3)


@pytest.mark.nightly
def test_layers_train_under_fsdp_on_two_processes(environment):
    [(first, last)] = run(environment("examples"), "examples/train_fsdp.py", "--processes", "2")
    assert last < 0.5 * first
