"""A release has one version: the tag's, and every distribution's."""

from __future__ import annotations

import shutil
from pathlib import Path

import distributions
import pytest
from common import ROOT

from kernel_matrix import __version__


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Copy what says the versions of the distributions."""
    for folder in distributions.folders(ROOT):
        there = tmp_path / folder.relative_to(ROOT)
        there.mkdir(parents=True, exist_ok=True)
        for name in ("pyproject.toml", "__init__.py"):
            if (folder / name).exists():
                shutil.copy(folder / name, there / name)
    return tmp_path


def test_every_distribution_has_the_version_of_the_harness(repository):
    assert [*distributions.other_versions(repository, __version__)] == []
    assert len(distributions.folders(repository)) == 3


@pytest.mark.parametrize(
    ("file", "before", "after", "sentence"),
    [
        ("pyproject.toml", 'version = "', 'version = "9.', "kernel-matrix has the version 9."),
        ("pyproject.toml", "gpu-emulators==", "gpu-emulators==9.", "kernel-matrix requires gpu-emulators==9."),
        ("src/mhc/__init__.py", '__version__ = "', '__version__ = "9.', "mhc has the version 9."),
    ],
)  # fmt: skip
def test_another_version_is_refused_by_its_name(repository, file, before, after, sentence):
    path = repository / file
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    [found] = distributions.other_versions(repository, __version__)
    assert sentence in found


def test_a_release_needs_a_version(capsys):
    assert distributions.main([]) == 2
    assert distributions.main(["0.0.0"]) == 2
    assert f"kernel-matrix has the version {__version__}, and this is 0.0.0." in capsys.readouterr().err
