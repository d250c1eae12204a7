"""Kernels of packages are compiled with guessed types, counted, and changed: tried on a package of one kernel."""

from __future__ import annotations

import json
import sys
from textwrap import dedent

import pytest
from common import ROOT, python_of
from interpreters import kept_interpreter

sys.path.insert(0, str(ROOT / "tests" / "toolchains"))
from in_environment import run

pytestmark = [pytest.mark.environments, pytest.mark.nightly]

PROGRAM = ROOT / "ci" / "published_kernels.py"
MODULE = """
    import triton
    import triton.language as tl
    from absent.registry import register

    @register("scaled")
    def wrapper(x):
        return scaled[(1,)](x)

    if True:
        @triton.jit
        def scaled(x, result, length, scale, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            source = x + at
            tl.store(result + at, tl.load(source, at < length) * scale, at < length)
"""


@pytest.fixture(scope="module")
def python():
    """Return the Python of Triton's environment."""
    return python_of("triton-3.7", "rocm")


@pytest.fixture
def packages(tmp_path):
    """Return a folder with an unpacked package, whose module imports another one that is not here."""
    folder = tmp_path / "packages" / "some-kernels" / "some_kernels"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "scaling.py").write_text(dedent(MODULE))
    return tmp_path / "packages"


def test_a_kernel_is_compiled_for_each_target_and_counted(packages, python, tmp_path):
    variables = {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    run(python, PROGRAM, "compile", packages, tmp_path / "kept", **variables)
    counts = json.loads(run(python, PROGRAM, "count", tmp_path / "kept", **variables))
    assert (counts.pop("kernels"), counts.pop("packages")) == (1, 1)
    assert len(counts) == 6
    assert all(one == {"kernels": 1, "known": 1, "refused": {}} for one in counts.values())


def test_changed_instructions_of_a_kernel_are_told_with_what_is_seen(packages, python, tmp_path):
    variables = {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    lines = run(python, PROGRAM, "mutate", packages, "--most", "20", **variables).splitlines()
    told = [json.loads(line) for line in lines]
    assert {(package, kernel) for package, kernel, *_ in told} == {("some-kernels", "scaling.scaled")}
    assert len(told) == 20
    assert sum(bool(seen) for *_, seen in told) >= 10
