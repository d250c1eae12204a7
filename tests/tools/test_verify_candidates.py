"""Candidates as strangers write them get the verdicts that they must have. Nothing but the command's sandbox runs one.

The quick ones are a few of each folder, of kinds that ``test_verify.py`` has not; the night plays all. A file whose
fault no verdict sees says so (`missed`); where it is seen all the same, the test fails too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from candidates import FOLDERS, Candidate, candidates
from common import ROOT, python_of, sh

pytestmark = pytest.mark.environments

QUICK = {
    "right": (
        "softmax_online",
        "cache_copy",
        "linear_lazy_pack",
        "linear_own_backward",
        "triton_scalar",
        "triton_libdevice",
        "rope_half_table",
        "triton_libdevice_of_cuda",
        "triton_two_configurations",
    ),
    "wrong": ("softmax_whole_maximum", "swiglu_off_by_one", "matmul_tf32", "grad_weight_first_columns", "rope_sign"),
    "hacks": ("only_where_nan", "site_customize", "ends_happily"),
    "undecided": ("hidden_state", "triton_libdevice_lacks"),
}


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter of Triton's environment."""
    return python_of("triton-3.7", "cuda")


def verdicts(python: Path, folder: Path, asked: list[Candidate]) -> dict[str, dict]:
    """Return the verdict on each, from one run of the command for those with the same options."""
    found = {}
    for options in sorted({one.options for one in asked}):
        lines, out = folder / f"asked{'-'.join(options)}.jsonl", folder / f"told{'-'.join(options)}.jsonl"
        chosen = [one for one in asked if one.options == options]
        lines.write_text("".join(one.line for one in chosen))
        words = f"-m kernel_matrix verify --jsonl {lines} --out {out} --jobs 2 --device cpu --python {python}"
        quick = [] if "--strict" in options else ["--quick"]
        done = sh(sys.executable, *words.split(), *options, *quick, PYTHONPYCACHEPREFIX="")  # as test_verify.py
        told = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(told) == len(chosen), done.stdout + done.stderr
        found |= {one["id"]: one for one in told}
    return found


def off(told: dict[str, dict], asked: list[Candidate]) -> dict[str, str]:
    """Return what has another verdict than it must have, or has it and says that it is missed."""
    found = {}
    for one in asked:
        allowed = one.allowed if one.needs == "cpu" else {"not decided"}
        verdict = told[one.name]
        word = "not decided" if one.path.parent.name == "undecided" and verdict.get("undecided") else verdict["verdict"]
        if (word in allowed) == bool(one.missed):
            found[one.name] = f"{word}: {verdict['reason'][:160]}"
    return found


def test_a_few_of_each_folder(python, tmp_path):
    asked = [one for one in candidates() if one.path.stem in QUICK[one.path.parent.name]]
    assert len(asked) == sum(map(len, QUICK.values()))
    assert off(verdicts(python, tmp_path, asked), asked) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("folder", FOLDERS)
def test_all(folder, python, tmp_path):
    asked = candidates(folder)
    told = verdicts(python, tmp_path, asked)
    assert off(told, asked) == {}
    assert not [one for one in left_behind(python) if one.exists()]


def left_behind(python: Path) -> list[Path]:
    """Return the files that hostile candidates would leave where they can write."""
    packages = next((python.parents[1] / "lib").glob("python3*")) / "site-packages"
    places = [packages, Path("/tmp"), Path("/dev/shm"), ROOT]
    names = (
        "sitecustomize.py",
        "left_by_a_fixture.pth",
        "left_by_a_fixture",
        "kept_by_a_fixture.pt",
        "filled",
        "torch_left.py",
    )
    return [place / name for place in places for name in names]
