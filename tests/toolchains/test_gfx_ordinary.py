"""Kernels with what packages often have: constants of 64 bits, fp64, angles, histograms, numbers of 8 and 16 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import python_of
from covering import with_the_night
from in_environment import results_of
from interpreters import kept_interpreter

pytestmark = pytest.mark.environments

BY_DAY = ("gfx942", "gfx1100", "gfx1201")
AT_NIGHT = ("gfx90a", "gfx950", "gfx1030", "gfx1250")
TARGETS = (*BY_DAY, *(pytest.param(target, marks=pytest.mark.nightly) for target in AT_NIGHT))
LEAST = {
    "angles": 3e-7,
    "doubles": 1e-15,
    "products": 1e-13,
    "constants": 0,
    "random": 1e-7,
}  # an angle's error is absolute


@pytest.fixture(scope="module")
def results(request, tmp_path_factory) -> dict[tuple[str, str], object]:
    """Run all kernels on all targets, and return the distance of each result, or whether it is the same."""
    variables = {**kept_interpreter(), "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    targets = (*BY_DAY, *(AT_NIGHT if with_the_night(request) else ()))
    return results_of(
        python_of("triton-3.7", "rocm"), Path(__file__).with_name("gfx_ordinary.py"), *targets, **variables
    )


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_with_what_packages_often_have_are_right(results, target):
    own = {name: result for (name, on), result in results.items() if on == target}
    assert len(own) == (18 if target == "gfx942" else 19)
    wrong = {
        name: result
        for name, result in own.items()
        if not (result is True or (result is not False and result <= LEAST[name.split()[0]]))
    }
    assert wrong == {}
