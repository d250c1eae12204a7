"""The toolchain view of the dashboard: each probe with its verdict, each version with where it stopped, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from common import ROOT, Doubles
from judges import write_site
from shown import Page
from test_probes import fails, make

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.toolchain_view import toolchain_view
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.store.record import Record

SWEEP = {
    "schema_version": 3,
    "package": "numpy",
    "created": "2026-01-01T00:00:00Z",
    "case": None,
    "probes": ["family/limit"],
    "attempts": [
        {
            "version": "1.0",
            "pins": {},
            "stopped": "import",
            "message": "ModuleNotFoundError: No module named 'numpy'",
            "detail": "",
            "versions": {"numpy": "1.0"},
            "lock": ["numpy==1.0"],
            "probes": {},
            "cases": {},
        }
    ],
}


@pytest.fixture
def with_probes(doubles: Doubles):
    doubles.edit("suite: suite,", "suite: suite, probes: probes, sweeps: sweeps,")
    (doubles.root / "probes").mkdir()
    (doubles.root / "sweeps").mkdir()
    (doubles.root / "sweeps" / "numpy.json").write_text(json.dumps(SWEEP))
    make(doubles.root / "probes", "limit", "", fails("the known limit"))
    make(doubles.root / "probes", "fine", "")
    return doubles


def view_of(doubles: Doubles, found: Sequence[Record] = ()) -> Toolchains:
    matrix = load(doubles.root / "matrix.yaml")
    return toolchain_view(Project(matrix, doubles.root, doubles.root / "build"), found)


def records(message: str) -> list[Record]:
    job = {"version.numpy": "2.0"}
    return [
        Record("probe/lock/family/limit", "error", "run", "launch", message, message, job=job),
        Record("probe/lock/family/fine", "pass", "run", job=job),
    ]


@pytest.mark.slow
def test_the_view_shows_probes_versions_and_causes(with_probes, tmp_path):
    matrix = load(with_probes.root / "matrix.yaml")
    found = records("ValueError: the known limit")
    view = view_of(with_probes, found)
    assert view.headline == "Of 2 probes in toolchains 1 work, 1 fail as known."
    assert view.changed == ()
    write_site(matrix, plan(matrix, "quick"), [], tmp_path, toolchains=view)
    page = Page(tmp_path).text
    for words in ("Does it hold what it promises?", "ValueError: the known limit", "It was a test.", "numpy==1.0"):
        assert words in page, words
    assert "The job runs in an environment that does not have this package." in page, "the cause beside the import"
    assert view.headline in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "compat.json").read_text())["toolchains"] == view.model_dump(mode="json")


@pytest.mark.slow
def test_a_sweep_of_pairs_is_a_grid_with_every_pair_behind_it(with_probes, tmp_path):
    def pair(beside: str, stopped: str = "", outcome: str = "pass") -> dict:
        probe = {"verdict": "works", "outcome": outcome, "stage": "", "reason": "it did not lower"}
        attempt = SWEEP["attempts"][0] | {
            "pins": {"helper": beside},
            "stopped": stopped,
            "message": stopped and "why it stopped",
        }
        return attempt | {"probes": {} if stopped else {"family/limit": probe}}

    attempts = [pair("0.10"), pair("0.9", "import"), pair("0.11", outcome="error"), pair("1.0", "resolve")]
    (with_probes.root / "sweeps" / "numpy.json").write_text(json.dumps(SWEEP | {"attempts": attempts}))
    matrix = load(with_probes.root / "matrix.yaml")
    view = view_of(with_probes)
    grid = view.sweeps[0].grid
    assert (grid.beside, grid.columns) == ("helper", ("0.9", "0.10", "0.11", "1.0"))
    states = {beside: pair.state for beside, pair in grid.cells["1.0"].items()}
    assert states == {"0.9": "import", "0.10": "works", "0.11": "fails", "1.0": "resolve"}
    assert grid.cells["1.0"]["0.11"].reason == "family/limit: it did not lower"
    write_site(matrix, plan(matrix, "quick"), [], tmp_path, toolchains=view)
    page = Page(tmp_path).text
    for words in ("helper", "why it stopped", "family/limit: it did not lower"):
        assert words in page, words


def test_one_pin_a_version_is_no_grid(with_probes):
    attempts = [SWEEP["attempts"][0], SWEEP["attempts"][0] | {"version": "2.0", "pins": {"helper": "1"}}]
    (with_probes.root / "sweeps" / "numpy.json").write_text(json.dumps(SWEEP | {"attempts": attempts}))
    view = view_of(with_probes)
    assert view.sweeps[0].grid is None


def test_another_error_than_the_known_one_has_changed(with_probes):
    view = view_of(with_probes, records("ValueError: something else"))
    assert view.changed == ("lock: family/limit",)


def test_what_was_not_probed_is_said(with_probes):
    assert view_of(with_probes).headline == "No probe was run. Not probed: lock."


def test_a_broken_sweep_file_is_bad_input_with_its_name(with_probes):
    (with_probes.root / "sweeps" / "numpy.json").write_text("{}")
    with pytest.raises(UserError, match=r"numpy\.json: not the result of a sweep"):
        view_of(with_probes)


def test_a_package_without_probes_has_no_such_view(doubles: Doubles):
    assert view_of(doubles) == Toolchains()


@pytest.mark.slow
def test_the_project_s_kept_sweeps_are_shown(matrix):
    view = toolchain_view(Project(matrix, ROOT, ROOT / "build"), [])
    assert {sweep.package for sweep in view.sweeps} >= {"tilelang", "apache-tvm", "triton"}
