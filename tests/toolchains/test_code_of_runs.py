"""The code of a run on a GPU is found without compiling it once more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import python_of
from in_environment import run

pytestmark = pytest.mark.environments

PROGRAM = Path(__file__).with_name("code_of_runs.py")


def codes(toolchain: str, caches: Path, *words: str) -> dict[str, dict[str, int]]:
    folders = {"TRITON_CACHE_DIR": str(caches / "triton"), "TILELANG_CACHE_DIR": str(caches / "tilelang")}
    output = run(python_of(toolchain, "cuda"), PROGRAM, *words, **folders, CACHES=str(caches))
    return json.loads(output.splitlines()[-1])


def test_of_a_launch_of_triton_nothing_is_compiled_again(tmp_path):
    found = codes("triton-3.7", tmp_path, "triton", "mhc_post", "mhc_pre")
    assert {op: (one["run"] > 0, one["more"]) for op, one in found.items()} == {
        "mhc_post": (True, 0),
        "mhc_pre": (True, 0),
    }
    assert found["mhc_post"]["registers"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("toolchain", ["tilelang-0.1.8", "tilelang-0.1.15"])
def test_the_code_that_tilelang_loaded_tells_its_registers(toolchain, tmp_path):
    for _ in ("compiled", "out of its cache"):
        found = codes(toolchain, tmp_path, "tilelang", "mhc_post")["mhc_post"]
        assert (found["more"], found["registers"] > 0, found["spill_bytes"]) == (0, True, 0)
