"""The cases of a toolchain are tried in the versions that matrix.yaml names; what differs is named with its version."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from common import Doubles, write_results
from packaging.version import Version

from kernel_matrix import cli, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model.platforms import Versions
from kernel_matrix.config.reads import content_of, read_by_job
from kernel_matrix.probes.attempts import Attempt, Sweep, keep, read
from kernel_matrix.probes.changes import changes, warning
from kernel_matrix.probes.toolchain_view import toolchain_view
from kernel_matrix.report.toolchains import SweptCase
from kernel_matrix.store.record import Record
from kernel_matrix.tools.toolchains.axis import axes, named, turning_points
from kernel_matrix.tools.toolchains.commands import sweep as command
from kernel_matrix.tools.toolchains.subject import Subject
from kernel_matrix.tools.toolchains.try_version import try_version
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

KNOWN = [Version(text) for text in ("1.0", "1.1", "1.2", "2.0")]
CASE = "here/any/good/double.forward/tokens1"
GOOD = "good: { backend: good, lock: lock.txt, requires: [numpy] }"


def attempt_at(version: str, *, broken: bool = False, registers: int = 96, bits: str = "a") -> Attempt:
    case = SweptCase(state="error", stage="compile", reason="a crash") if broken else \
        SweptCase(state="compiled", bits=bits, figures={"registers": registers})  # fmt: skip
    return Attempt(version=version, cases={CASE: case, f"{CASE}0": SweptCase(state="compiled")}).with_stop()


def with_versions(doubles: Doubles, versions: str) -> pipeline.Project:
    doubles.edit(GOOD, f"{GOOD[:-1]}, versions: {versions} }}")
    return pipeline.load(doubles.root / "matrix.yaml")


def test_a_bisection_starts_by_itself_and_names_the_version():
    tried: list[str] = []

    def attempt(version: Version) -> Attempt:
        tried.append(str(version))
        return attempt_at(str(version), broken=version >= Version("1.2"))

    attempts = {Version(text): attempt_at(text, broken=text == "2.0") for text in ("1.0", "2.0")}
    [(case, point)] = turning_points(attempts, KNOWN, attempt, "tool")
    assert (case, point.last_good.version, point.first_bad.version) == (CASE, "1.1", "1.2")
    assert (point.old, point.new) == ("compiled", "error in compile")
    assert sorted(tried) == ["1.1", "1.2"], "what was tried is not tried again, and what was tried is kept"
    assert sorted(attempts) == KNOWN


def test_states_numbers_and_registers_each_differ_from_a_version_on():
    tried = [attempt_at("1.0"), attempt_at("1.1", registers=104), attempt_at("1.2", registers=104, bits="b"),
             attempt_at("2.0", broken=True)]  # fmt: skip
    assert [(one.version, one.before, one.what, one.cases) for one in changes(tried)] == [
        ("1.1", "1.0", "registers", {CASE: ("96", "104")}),
        ("1.2", "1.1", "bits", {CASE: ("a", "b")}),
        ("2.0", "1.2", "state", {CASE: ("compiled", "error in compile")}),
    ]


def test_what_the_machine_did_wrong_is_no_fault_of_a_version():
    case = SweptCase(state="error", stage="machine", reason="the checkout changed")
    old = attempt_at("1.0")
    attempts = [old, attempt_at("2.0").model_copy(update={"cases": {**old.cases, CASE: case}})]
    assert changes(attempts) == ()
    assert list(turning_points({Version(one.version): one for one in attempts}, KNOWN, attempt_at, "tool")) == []
    assert warning(Sweep(package="tool", toolchain="good", created="", attempts=attempts), Version("1.0")) == ""


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (
            [False, False, True, True],
            "tool 2.0 will break 1 of 2 cases of good that were tried, the first since 1.2",
        ),
        ([False, True, False, False], ""),
        ([True, True, True, True], ""),
    ],
)
def test_a_warning_says_what_will_break_and_since_which_release(states, words):
    attempts = [attempt_at(str(one), broken=broken) for one, broken in zip(KNOWN, states, strict=True)]
    said = warning(Sweep(package="tool", toolchain="good", created="", attempts=attempts), Version("1.1"))
    assert said == (f"{words}: error in compile: a crash" if words else "")


def test_a_release_that_does_not_import_breaks_every_case():
    attempts = [attempt_at("1.0"), Attempt(version="2.0", stopped="import", message="no such module")]
    said = warning(Sweep(package="tool", toolchain="good", created="", attempts=attempts), Version("1.0"))
    assert said.startswith("tool 2.0 will break 2 of 2 cases")
    assert said.endswith("stopped at import: no such module")


def test_no_job_reads_the_versions_of_matrix_yaml(doubles: Doubles):
    before = read_by_job(content_of(pipeline.load(doubles.root / "matrix.yaml").matrix), "here", "good")
    project = with_versions(doubles, '{ iniconfig: ["2.0.0"] }')
    assert read_by_job(content_of(project.matrix), "here", "good") == before
    assert {case.cell.toolchain for case in pipeline.plan(project, "full").cases} == {*project.matrix.toolchains}


def test_the_versions_are_those_that_an_entry_names(doubles: Doubles):
    project = with_versions(doubles, '{ tool: [1.0.., "9"], other: { versions: ["1.1"], environment: { A: b } } }')
    (subject, axis), (other, second) = axes(project, Machine(()))
    assert (subject.name, other.name, dict(other.environment)) == ("good-tool", "good-other", {"A": "b"})
    assert named(second, KNOWN) == [Version("1.1")]
    assert named(Versions(versions=["1.1.."]), KNOWN) == KNOWN[1:]
    with pytest.raises(UserError, match="9 is not published"):
        named(axis, KNOWN)
    with pytest.raises(UserError, match="Did you mean 'good'"):
        axes(project, Machine(()), toolchains=["goood"])
    with pytest.raises(UserError, match="has 'versions'"):
        axes(project, Machine(()), toolchains=["wrong"])


@pytest.mark.parametrize("index", ["silent", "answers"])
def test_the_early_warning_is_never_red(doubles: Doubles, monkeypatch, capsys, index):
    """A release does not import, and the index may not answer."""

    def published(package: str) -> list[Version]:
        if index == "silent":
            raise UserError(f"{package}: the index tells no versions of it.")
        return KNOWN

    def tried(subject: Subject, version: str, pins: object) -> Attempt:
        return attempt_at(version, broken=version == "2.0")

    monkeypatch.setattr(command, "published", published)
    monkeypatch.setattr(command, "try_version", tried)
    monkeypatch.setattr("kernel_matrix.tools.toolchains.sweep.try_version", tried)
    project = with_versions(doubles, '{ numpy: ["1.0"] }')
    pinned = (doubles.root / "lock.txt").read_text()
    (doubles.root / "lock.txt").write_text("numpy==1.0\n")
    status = cli.main(["toolchains", "sweep", "--newest", "--matrix", str(project.file)])
    said = capsys.readouterr().out
    assert status == 0
    (doubles.root / "lock.txt").write_text(pinned)
    if index == "silent":
        assert "the newest release is not known" in said
        assert cli.main(["toolchains", "sweep", "--matrix", str(project.file)]) == 2
    else:
        assert f"numpy 2.0 changed {CASE}: compiled -> error in compile" in said
        assert "numpy 2.0 will break 1 of 2 cases of good that were tried, the first since 2.0" in said


def test_the_page_has_the_warning_and_the_changes(doubles: Doubles):
    doubles.edit("suite: suite,", "suite: suite, probes: probes,")
    (doubles.root / "probes").mkdir()
    project = with_versions(doubles, '{ numpy: ["1.0"] }')
    (doubles.root / "lock.txt").write_text("numpy==1.0\n")
    attempts = [attempt_at("1.0"), attempt_at("2.0", broken=True)]
    file = project.build / "sweeps" / "good-numpy.json"
    keep(file, Sweep(package="numpy", toolchain="good", created="2026-01-01T00:00:00Z", attempts=attempts))
    few = [one.model_copy(update={"cases": {CASE: one.cases[CASE]}}) for one in attempts]
    other = Sweep(package="numpy", toolchain="good", created="2026-01-02T00:00:00Z", attempts=few)
    keep(project.build / "sweeps" / "numpy-elsewhere.json", other)
    view = toolchain_view(project, [])
    [line] = view.warnings
    assert line.startswith("numpy 2.0 will break 1 of 2 cases of good")
    assert [[change.what for change in sweep.changes] for sweep in view.sweeps] == [["state"]] * 2


@pytest.mark.slow
def test_results_of_other_machines_are_versions_that_were_tried(doubles: Doubles, capsys, tmp_path):
    """A machine without a network has a version for each run."""
    project = with_versions(doubles, '{ numpy: ["1.0"], absent: ["1.0"] }')
    for version, outcome in (("1.0", "pass"), ("2.0", "fail")):
        job = {"version.NumPy": version, "job": "here.good", "device": "a GPU elsewhere"}
        record = Record(CASE, outcome, "run", message="too far off", job=job)
        write_results(tmp_path / version, [record])
    words = ["--matrix", str(project.file), "--output", str(tmp_path / "kept.json")]
    words += [word for version in ("1.0", "2.0") for word in ("--results", str(tmp_path / version))]
    assert cli.main(["toolchains", "sweep", "numpy", *words]) == 0
    kept = read(tmp_path / "kept.json")
    assert kept.machine == ["a GPU elsewhere"]
    old, new = kept.attempts
    assert (old.version, new.version, new.cases.keys()) == ("1.0", "2.0", {CASE})
    assert (new.cases[CASE].state, new.lock) == ("fail", ("NumPy==2.0",))
    assert "1.0 -> 2.0: state of 1 of 1 cases" in capsys.readouterr().out
    assert cli.main(["toolchains", "sweep", "absent", *words]) == 2
    assert "must be of one version of absent: none" in capsys.readouterr().err


def wheel_of(folder: Path, version: str) -> None:
    """Write a wheel of a package that says its version."""
    folder.mkdir(exist_ok=True)
    info = f"helper_of_doubles-{version}.dist-info"
    files = {
        "helper_of_doubles.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: helper-of-doubles\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"helper_of_doubles-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.mark.slow
@pytest.mark.environments
def test_cases_run_in_each_version_with_the_rest_of_the_lock(doubles: Doubles, tmp_path, monkeypatch):
    """With version 2 of a package that the lock does not have, the backend of the doubles gives wrong numbers."""
    known = ("1.0", "2.0")
    for version in known:
        wheel_of(tmp_path / "wheels", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    doubles.edit("case: 15,", "case: 60,")
    source = doubles.root / "src" / "doubles" / "__init__.py"
    wrong = """def double(x: np.ndarray, out: np.ndarray) -> None:
    from helper_of_doubles import VERSION
    assert Path(os.environ["HELPER"]).exists()
    out[:] = (2 if VERSION == "1.0" else 2.001) * x

"""
    source.write_text(wrong + source.read_text().partition("out[:] = 2 * x\n")[2])
    source.write_text("import os\nfrom pathlib import Path\n\nimport numpy as np\n\n" + source.read_text())
    versions = '{ versions: ["1.0", "2.0"], environment: { HELPER: "{packages}/helper_of_doubles.py" } }'
    project = with_versions(doubles, f"{{ helper-of-doubles: {versions} }}")
    machine = Machine((Device("cpu", "test", ("any",)),))
    [(subject, _)] = axes(project, machine, cases=[CASE])
    attempts = {Version(version): try_version(subject, version, {}) for version in known}
    old, new = attempts.values()
    assert (old.cases[CASE].state, new.cases[CASE].state) == ("pass", "fail"), old.cases
    assert {line for line in new.lock if not line.startswith("helper")} == set(old.lock) - {"helper-of-doubles==1.0"}
    points = turning_points(attempts, [*map(Version, known)], lambda one: try_version(subject, str(one), {}), "helper")
    assert [point.first_bad.version for _, point in points] == ["2.0"]
    found = changes([*attempts.values()])
    assert [(change.version, change.what) for change in found] == [("2.0", "state"), ("2.0", "bits")]
    keep(tmp_path / "kept.json", Sweep(package="helper", toolchain="good", created="", attempts=[old, new]))
    assert str(tmp_path) not in (tmp_path / "kept.json").read_text()
