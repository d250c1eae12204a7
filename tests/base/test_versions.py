"""Installed versions meet the requirements or do not."""

from __future__ import annotations

import pytest

from kernel_matrix.base.versions import satisfies
from kernel_matrix.probes.distributions import by_name, required

INSTALLED = {"some-Compiler": "1.2.0rc1", "numpy": "2.4.6", "kernels": "3.0+cu128"}


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ([], True),
        (["numpy"], True),
        (["numpy==2.4.6", "kernels>=3"], True),
        (["numpy==2.4.6", "numpy<2"], False),
        (["some_compiler>=1.1"], True),  # a prerelease counts, and names are compared in their canonical form
        (["Some.Compiler<1.3"], True),
        (["kernels==3.0"], True),  # a local version is the same version
        (["absent"], False),
        (["absent<99"], False),
    ],
)
def test_versions_satisfy_all_requirements_or_none_of_them_counts(requirements: list[str], expected: bool) -> None:
    assert satisfies(requirements, INSTALLED) is expected


def test_distributions_of_requirements_are_found_by_their_canonical_names() -> None:
    names = required(["Some.Compiler<1.3", "absent", "numpy"])
    assert names == ("some-compiler", "absent", "numpy")
    assert [by_name(INSTALLED).get(name) for name in names] == ["1.2.0rc1", None, "2.4.6"]
