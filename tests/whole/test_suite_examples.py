"""The worked examples of depths 1 and 2, packages from PyPI that are not changed, give what the tutorials say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from common import ROOT, Silent, environments_of
from judges import judged_files

from kernel_matrix import pipeline
from kernel_matrix.config.load import load
from kernel_matrix.config.selection import Selection
from kernel_matrix.run.settings import Settings
from kernel_matrix.vendors.machine import detect

EXAMPLES = ROOT / "examples" / "suite"
TUTORIALS = ROOT / "docs" / "tutorials"


def copied(name: str, folder: Path) -> Path:
    """Return a copy of an example, at the same depth, with the environments of the project."""
    root = folder / "examples" / "suite" / name
    shutil.copytree(EXAMPLES / name, root, ignore=shutil.ignore_patterns("build"))
    environments_of(root / "build")
    return root


def counts(root: Path) -> dict[str, int]:
    project = pipeline.load(root / "matrix.yaml")
    settings = Settings(project.root, project.build, "venv", workers=2)
    project = pipeline.collect_tests(project, Selection(), detect(), settings, Silent())
    selected = pipeline.select(project, Selection(platforms=("cpu",)))
    files = pipeline.run_selected(project, selected, detect(), settings, Silent())
    return dict(judged_files(project, selected.part, files).counts)


def test_the_examples_load(tmp_path):
    assert load(EXAMPLES / "liger" / "matrix.yaml").package.name == "liger_kernel"
    root = copied("einops", tmp_path)
    (root / "einops-0.8.1" / "einops" / "tests").mkdir(parents=True)
    assert list(load(root / "matrix.yaml").toolchains) == ["numpy-2.0", "numpy-2"]


def test_the_tutorial_writes_the_files_of_the_example():
    text = (TUTORIALS / "depth-1.md").read_text()
    blocks = dict(re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', text, flags=re.DOTALL))
    for name in ("locks/numpy-2.in", "locks/numpy-2.0.in"):
        assert blocks[name] == (EXAMPLES / "einops" / name).read_text()
    with_variable = re.sub(
        r"(  suite: .*\n)", r"\1  environment: { EINOPS_TEST_BACKENDS: numpy }\n", blocks["matrix.yaml"]
    )
    example = (EXAMPLES / "einops" / "matrix.yaml").read_text()
    assert re.sub(r"\s", "", with_variable) == re.sub(r"#.*|\s", "", example)


@pytest.mark.environments
@pytest.mark.nightly
def test_the_mhc_operators_of_liger_are_as_exact_as_the_formula_and_its_norms_need_a_gpu(tmp_path):
    assert counts(copied("liger", tmp_path)) == {"error": 6, "pass": 12}
