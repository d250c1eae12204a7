"""The results of published packages are compared with what is kept: a difference either way is a failure."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci"))
import worked_examples  # noqa: E402

from kernel_matrix.store import write  # noqa: E402
from kernel_matrix.store.record import Record  # noqa: E402

KEPT = {"cases": 3, "errors": {"compile": {"f": {"sm_90": 1}}}}


@pytest.fixture
def build(tmp_path, monkeypatch) -> Path:
    """Return a folder with results of three cases, one of them with an error, and make a file that expects them."""
    results = tmp_path / "package" / "launches" / "results"
    results.mkdir(parents=True)
    case = "cuda/sm_90/triton-3.6.0/{}.launch/bf16-w4-x1"
    records = [
        Record(case.format("f"), "error", action="compile", stage="compile", message="no"),
        *(Record(case.format(name), "pass", action="compile") for name in ("g", "h")),
    ]
    write.replace(results, {"job": "cuda"}, records)
    expected = tmp_path / "expected.yaml"
    with expected.open("w") as file:
        YAML().dump({"package": {"script": "x.py", "options": [], **KEPT}}, file)
    monkeypatch.setattr(worked_examples, "EXPECTED", expected)
    return tmp_path


def test_what_is_as_expected_is_green(build, capsys):
    assert worked_examples.main(["--read", "--build", str(build)]) == 0
    assert "what it is expected to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"cases": 2, "errors": KEPT["errors"]}, "2 cases were compiled, and 3 are expected"),
        ({"cases": 3, "errors": {}}, "f on sm_90: 0 errors in stage compile, and 1 are expected"),
        ({"cases": 3, "errors": {"launch": {"f": {"sm_90": 1}}, **KEPT["errors"]}}, "1 errors in stage launch, and 0"),
    ],
)
def test_each_difference_is_said_whether_it_is_better_or_worse(found, sentence):
    [difference] = worked_examples.compare(KEPT, found)
    assert sentence in difference


def test_a_run_that_leaves_nothing_is_red_also_where_former_results_were(build, monkeypatch, capsys):
    monkeypatch.setattr(worked_examples.subprocess, "run", lambda *_, **__: None)
    assert worked_examples.main(["--build", str(build)]) == 1
    assert "package: 0 cases were compiled, and 3 are expected" in capsys.readouterr().out


def test_what_was_found_is_written_and_then_expected(build):
    shutil.rmtree(build / "package" / "launches" / "results")
    assert worked_examples.main(["--read", "--write", "--build", str(build)]) == 0
    text = worked_examples.EXPECTED.read_text()
    assert worked_examples.main(["--read", "--write", "--build", str(build)]) == 0
    assert worked_examples.EXPECTED.read_text() == text, "what is read has its header already"
    assert worked_examples.main(["--read", "--build", str(build)]) == 0


def test_a_package_that_is_not_known_cannot_be_used(build, capsys):
    assert worked_examples.main(["other"]) == 2
    assert "other: " in capsys.readouterr().err


def test_the_kept_file_has_four_packages_whose_scripts_and_versions_are_there():
    kept = YAML(typ="safe").load((ROOT / "examples" / "launches" / "expected.yaml").read_text())
    lock = (ROOT / "ci" / "locks" / "launches.txt").read_text()
    assert set(kept) == {"sageattention", "liger-kernel", "flag-gems", "fla-core"}
    for name, entry in kept.items():
        text = (ROOT / "examples" / "launches" / entry["script"]).read_text()
        version = next(line.partition("==")[2] for line in lock.splitlines() if line.startswith(f"{name}=="))
        assert f"{name} {version}" in text, "the script is written for the version in the lock"
        assert entry["cases"] > 0
