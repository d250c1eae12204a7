"""The page names the lock that a job's environment was really made from, and what is installed where there was none."""

from __future__ import annotations

from hashlib import sha256

import pytest

from kernel_matrix import pipeline
from kernel_matrix.report.made_from import MadeFrom

PINS = {"torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6"}


@pytest.fixture
def made_from(doubles):
    """Return the sentence for the facts of one job on a GPU of ``there``."""
    (doubles.root / "lock.txt").unlink()
    for kind, more in (("cpu", ""), ("cuda", "nvidia-nccl-cu13==2.29.7\n")):
        text = "".join(f"{name}=={version}\n" for name, version in PINS.items())
        (doubles.root / f"lock.{kind}.txt").write_text(text + more)
    doubles.edit("device: cpu", "device: nvidia")
    matrix = pipeline.load(doubles.root / "matrix.yaml").matrix

    def said(executor: str = "venv", kind: str = "", device: str = "H200", **versions: str) -> str:
        job = {"executor": executor, "device": device}
        job |= {f"version.{name.replace('_', '-')}": value for name, value in {**PINS, **versions}.items() if value}
        if kind:
            path = doubles.root / f"lock.{kind}.txt"
            job |= {"lock": path.name, "lock.sha256": sha256(path.read_bytes()).hexdigest()}
        return MadeFrom(matrix, doubles.root).of("here", "good", [job])

    return said


def test_an_environment_of_a_lock_is_named_by_the_file_of_its_kind(made_from):
    assert made_from(kind="cpu", device="none", torch="2.13.0+cpu") == "lock.cpu.txt"
    assert made_from(kind="cuda", nvidia_nccl_cu13="2.29.7") == "lock.cuda.txt"


def test_an_environment_that_was_there_before_has_no_lock_and_says_what_is_other(made_from):
    said = made_from("current", torch="2.11.0+cu130", triton="", nvidia_nccl_cu13="2.28.9")
    assert said == (
        "none: 1 of 4 as lock.cuda.txt; other: torch 2.11.0+cu130 (2.13.0), nvidia-nccl-cu13 2.28.9 (2.29.7); "
        "not there: triton 3.7.1"
    )


def test_an_environment_that_is_not_what_its_lock_pins_says_so(made_from):
    said = made_from(kind="cuda", nvidia_nccl_cu13="2.29.7", triton="3.6.0")
    assert said == "lock.cuda.txt, 3 of 4 as pinned; other: triton 3.6.0 (3.7.1)"
    floats = made_from(kind="cuda", nvidia_nccl_cu13="2.29.7", nvidia_cudnn_cu13="9.20.0.48", doubles="1.0")
    assert floats == "lock.cuda.txt, 4 of 4 as pinned; not pinned: nvidia-cudnn-cu13 9.20.0.48", "the package is no pin"


def test_a_lock_that_is_another_today_is_not_compared(made_from, doubles):
    said = made_from(kind="cuda", nvidia_nccl_cu13="2.29.7")
    assert said == "lock.cuda.txt"
    job = {"lock": "lock.cuda.txt", "lock.sha256": "1" * 64, "device": "H200", "version.torch": "2.11.0"}
    matrix = pipeline.load(doubles.root / "matrix.yaml").matrix
    said = MadeFrom(matrix, doubles.root).of("here", "good", [job])
    assert said == "lock.cuda.txt (sha256 111111111111, another than today's)"


def test_where_nothing_ran_it_is_the_lock_that_would_be_installed_or_why_there_is_none(matrix):
    from common import ROOT

    said = MadeFrom(matrix, ROOT)
    assert said.of("rocm", "reference", []) == "ci/locks/torch-2.13.rocm.txt"
    assert said.of("metax", "reference", []) == "none: no index has the builds for MetaX"
