"""A sweep says how far each version gets. A bisect finds the version that changed something, and what else changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from common import ROOT, Doubles
from loops import at_least
from packaging.version import Version
from test_probes import make

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import content_of
from kernel_matrix.pipeline import Project, load
from kernel_matrix.probes.attempts import Attempt, Sweep, keep, kept_sweeps, name_of, read, state_of_case
from kernel_matrix.probes.distributions import picked
from kernel_matrix.probes.probe import load_probes
from kernel_matrix.report.toolchains import SweptCase, SweptProbe
from kernel_matrix.tools.toolchains.bisect import bisect, differences, state_of_probe
from kernel_matrix.tools.toolchains.subject import Subject, make_subject, toolchain_of
from kernel_matrix.tools.toolchains.sweep import as_sweep, sweep
from kernel_matrix.tools.toolchains.try_version import IMPORT, _resolve
from kernel_matrix.tools.toolchains.versions import chosen, published
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

KNOWN = [Version(text) for text in ("0.1.8", "0.1.9", "0.1.10", "0.1.11", "0.1.12", "0.1.13", "0.1.14", "0.1.15")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0.1.13..", ["0.1.13", "0.1.14", "0.1.15"]),
        ("0.1.9..0.1.11", ["0.1.9", "0.1.10", "0.1.11"]),
        ("0.1.8,0.1.12", ["0.1.8", "0.1.12"]),
        ("..0.1.9", ["0.1.8", "0.1.9"]),
    ],
)
def test_a_range_holds_both_of_its_ends(text, names):
    assert [str(version) for version in chosen(text, KNOWN)] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [("0.1.80", "Did you mean '0.1.8'"), ("0.2..0.3", "no published version is in it"), ("x..y", "write it as")],
)
def test_versions_that_do_not_exist_are_bad_input(text, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        chosen(text, KNOWN)


@pytest.fixture(scope="module")
def swept(tmp_path_factory, request) -> tuple[Subject, list[Attempt]]:
    """Sweep two versions of a tiny package, and a pair that does not resolve. The newer version fails the probe."""
    folder = tmp_path_factory.mktemp("sweep")
    probe = make(folder, "old_only", "import iniconfig._parse", '[[expect]]\n# verdict = "works"')
    probe.path.write_text(
        probe.path.read_text()
        .replace('requires = ["numpy"]', 'requires = ["iniconfig"]')
        .replace("import iniconfig._parse", "import importlib.metadata as m; assert m.version('iniconfig') < '2.1'")
    )
    machine = Machine((Device("cpu", "test", ("any",)),))
    matrix = load(ROOT / "matrix.yaml").matrix
    probes = load_probes(folder)
    project = Project(matrix, ROOT, folder / "build")
    subject = Subject("iniconfig", project, machine, None, probes, say=lambda _: None)
    attempts = sweep(subject, [Version("2.0.0"), Version("2.1.0")], {}, workers=2)
    attempts += sweep(subject, [Version("2.0.0")], {"packaging": ["0.0.999"]}, workers=1)
    return subject, attempts


def test_a_sweep_makes_an_environment_per_version_and_says_where_it_stopped(swept):
    _, (old, new, impossible) = swept
    assert old.stopped == ""
    assert old.versions["iniconfig"] == "2.0.0"
    assert old.lock == ("iniconfig==2.0.0",)
    assert old.probes["family/old_only"].verdict == "works"
    assert (new.stopped, new.message) == ("probes", "changed: family/old_only")
    assert impossible.stopped == "resolve"
    assert "no version of packaging==0.0.999" in impossible.message


def test_a_sweep_s_file_is_plain_data_without_folders_of_this_machine(swept, tmp_path):
    subject, attempts = swept
    keep(tmp_path / "kept.json", as_sweep(subject, attempts))
    text = (tmp_path / "kept.json").read_text()
    assert json.loads(text)["attempts"][0]["version"] == "2.0.0"
    assert str(subject.project.build) not in text
    assert read(tmp_path / "kept.json").attempts[-1].stopped == "resolve"


def test_an_environment_that_was_made_is_taken_again(swept):
    subject, _ = swept
    [complete] = (subject.folder / "envs").glob("iniconfig-2.0.0-cpu-*/complete")
    before = complete.stat().st_mtime_ns
    sweep(subject, [Version("2.0.0")], {}, workers=1)
    assert complete.stat().st_mtime_ns == before


@pytest.mark.slow
def test_the_index_tells_the_published_versions_oldest_first():
    versions = published("iniconfig")
    assert versions == sorted(versions)
    assert Version("2.0.0") in versions
    with pytest.raises(UserError, match="a-package-that-nobody-has-published"):
        published("a-package-that-nobody-has-published")


def test_a_package_is_swept_in_its_newest_toolchain(matrix):
    assert toolchain_of(matrix, ROOT, "tilelang") == "tilelang-0.1.15"
    assert toolchain_of(matrix, ROOT, "apache-tvm") == "tvm-0.27"
    assert toolchain_of(matrix, ROOT, "iniconfig") is None


def test_a_sweep_adds_to_a_kept_one(swept):
    subject, attempts = swept
    kept = as_sweep(subject, attempts[:1])
    whole = kept.with_attempts(as_sweep(subject, attempts[1:]))
    assert [(attempt.version, attempt.pins) for attempt in whole.attempts] == [
        ("2.0.0", {"packaging": "0.0.999"}),
        ("2.0.0", {}),
        ("2.1.0", {}),
    ]
    new = SweptProbe(verdict="changed", outcome="error")
    again = attempts[0].model_copy(update={"probes": {"family/new": new}})
    [one] = kept.with_attempts(as_sweep(subject, [again])).attempts
    assert one.probes.keys() == {"family/old_only", "family/new"}
    assert one.stopped == "probes"
    assert Sweep(package="another", created="", attempts=[]).with_attempts(kept) == kept


def test_a_file_of_an_older_form_is_bad_input_with_its_name(tmp_path):
    (tmp_path / "old.json").write_text('{"schema_version": 1, "package": "tool", "created": "", "rows": []}')
    with pytest.raises(UserError, match=r"old\.json: not the result of a sweep"):
        read(tmp_path / "old.json")


@pytest.mark.slow
def test_the_module_of_a_distribution_imports_however_its_name_is_written(tmp_path):
    """The name that a user gives has a hyphen, and the installed distribution calls itself with an underscore."""
    (tmp_path / "own_kernels.py").write_text("print('imported')")
    folder = tmp_path / "own_kernels-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: own_kernels\nVersion: 1.0\n")
    (folder / "RECORD").write_text("own_kernels.py,,\nown_kernels-1.0.dist-info/METADATA,,\n")

    def run(name: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-c", IMPORT, name]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    for name in ("own-kernels", "own_kernels", "Own.Kernels"):
        assert run(name).stdout == "imported\n", name
    assert "no-such-kernels brings no module" in run("no-such-kernels").stderr


def test_only_probes_about_the_package_itself_are_asked(matrix):
    subject = make_subject(Project(matrix, ROOT, ROOT / "build"), "apache-tvm", Machine(()))
    assert {probe.family for probe in subject.probes} == {"tvm"}
    assert make_subject(Project(matrix, ROOT, ROOT / "build"), "apache_tvm", Machine(())).probes == subject.probes


def test_the_companions_that_matrix_yaml_names_stay_and_all_else_moves(matrix):
    subject = make_subject(Project(matrix, ROOT, ROOT / "build"), "tilelang", Machine(()))
    stay = subject.companions()
    assert {"torch", "numpy", "pytest", "ml-dtypes", "nvidia-cuda-nvcc"} <= stay.keys()
    assert not {"tilelang", "apache-tvm-ffi"} & stay.keys()
    assert "torch" not in subject.companions(["Torch"])


LOCK = "own-kernels==1.0\nnumpy==2.4.6\nplatformdirs==4.0.0\npytest==9.2.0\niniconfig==2.0.0\n"


def foreign(doubles: Doubles, *, requires: str = "[numpy]") -> Subject:
    """Sweep a package of a matrix that names no companions, whose lock pins an old version of another distribution."""
    doubles.edit("good: { backend: good, lock: lock.txt, requires: [numpy] }",
                 f"good: {{ backend: good, lock: own.txt, requires: {requires} }}")  # fmt: skip
    (doubles.root / "own.txt").write_text(LOCK)
    project = load(doubles.root / "matrix.yaml")
    return replace(make_subject(project, "own_kernels", Machine(())), say=lambda _: None)


def test_without_companions_all_that_the_toolchain_asks_for_stays(doubles: Doubles):
    subject = foreign(doubles, requires="[own-kernels, platformdirs]")
    assert subject.toolchain == "good", "the name is written with a hyphen in the lock"
    assert subject.companions() == {"numpy": "2.4.6", "platformdirs": "4.0.0", "pytest": "9.2.0"}
    (doubles.root / "own.in").write_text("own_kernels\nplatformdirs\nnumpy>=2\n")
    assert subject.companions() == {"numpy": "2.4.6", "platformdirs": "4.0.0"}, "as the lock has what was asked for"
    assert subject.companions(["Platformdirs"]) == {"numpy": "2.4.6"}


def test_another_version_may_be_for_other_pythons(doubles: Doubles, tmp_path):
    doubles.edit("requires: [numpy]", 'requires: [numpy], python: "<3"')
    subject = make_subject(
        load(doubles.root / "matrix.yaml"), "numpy", Machine(()), cases=["here/any/good/double.forward"]
    )
    assert subject.project.matrix.toolchains["good"].python == "<3"
    assert subject.toolchain_with(tmp_path / "other.txt").python == ""


@pytest.mark.slow
def test_a_version_is_resolved_beside_the_versions_of_the_lock(doubles: Doubles, tmp_path):
    """An installer that is left alone takes the newest of all that is not pinned."""
    subject = replace(foreign(doubles), package="pytest")
    resolved = _resolve(subject, "8.4.2", {}, tmp_path / "one.in")
    assert "iniconfig==2.0.0" in resolved.splitlines(), "an older one than the newest, and it fits"
    assert "pytest==8.4.2" in resolved.splitlines()
    assert "numpy==2.4.6" in resolved.splitlines()
    moved = _resolve(subject, "8.4.2", {"iniconfig": "2.1.0"}, tmp_path / "two.in")
    assert "iniconfig==2.1.0" in moved.splitlines(), "what is asked for moves"


def test_what_the_installer_picked_is_of_interest_and_neither_pinned_nor_a_companion(matrix):
    versions = {"tilelang": "0.1.8", "apache-tvm-ffi": "0.1.9", "torch": "2.13.0", "cloudpickle": "3"}
    assert picked(matrix, "tilelang", {}, versions) == {"apache-tvm-ffi": "0.1.9"}
    assert picked(matrix, "tilelang", {"apache_tvm_ffi": "0.1.9"}, versions) == {}


def test_a_case_is_of_the_toolchain_whose_other_pins_stay(doubles: Doubles):
    """The doubles' toolchains share one lock; test_axis.py runs cases in several versions."""
    (doubles.root / "lock.in").write_text((doubles.root / "lock.txt").read_text().replace("ml-dtypes", "ml_dtypes"))
    project, machine = load(doubles.root / "matrix.yaml"), Machine(())
    toolchain = toolchain_of(project.matrix, project.root, "numpy")
    subject = make_subject(project, "numpy", machine, cases=[f"here/any/{toolchain}/double.forward"])
    assert subject.companions() == {"ml-dtypes": "0.6.0", "pytest": "9.2.0"}
    with pytest.raises(UserError, match="must be a case or cell of"):
        make_subject(project, "numpy", machine, cases=["here/any/other/double.forward"])


def attempt_at(version: str, outcome: str, **versions: str) -> Attempt:
    result = SweptProbe(verdict="works", outcome=outcome, stage="launch", reason="broken")
    return Attempt(version=version, versions={"tool": version, **versions}, probes={"family/probe": result})


def test_a_bisection_finds_the_first_version_that_differs_in_log2_steps():
    tried: list[str] = []

    def attempt(version: Version) -> Attempt:
        tried.append(str(version))
        bad = version >= Version("0.1.12")
        return attempt_at(str(version), "error" if bad else "pass", helper="2" if bad else "1", same="3")

    point = bisect(KNOWN, attempt, state_of_probe("family/probe"), "tool")
    assert (point.last_good.version, point.first_bad.version) == ("0.1.11", "0.1.12")
    assert point.old == "works"
    assert point.new == "fails in launch: broken"
    assert point.elsewhere == {"helper": ("1", "2")}
    assert len(tried) == len(set(tried)) <= 5


def test_ends_in_the_same_state_cannot_be_bisected():
    with pytest.raises(UserError, match="are in the same state: works"):
        bisect(KNOWN, lambda version: attempt_at(str(version), "pass"), state_of_probe("family/probe"), "tool")


def test_a_version_that_stopped_earlier_is_another_state():
    stopped = Attempt(version="1", stopped="import")
    assert state_of_probe("family/probe")(stopped) == "stopped at import"
    assert state_of_case(stopped) == "stopped at import"
    cases = {"a": SweptCase(state="pass"), "c": SweptCase(state="error", stage="lower")}
    assert state_of_case(Attempt(version="1", cases=cases)) == "error in lower"
    assert state_of_case(Attempt(version="1", cases=cases), "a") == "pass"
    assert differences({"a": "1", "b": "1"}, {"b": "2"}, "b") == {"a": ("1", "-")}


def test_a_kept_sweep_may_be_compressed(tmp_path: Path):
    for version in ("1", "2"):
        for name in ("a.json", "b.json.xz"):
            attempts = [Attempt(version=version, stopped="import")]
            keep(tmp_path / name, Sweep(package="p", toolchain="", created="", attempts=attempts))
    plain, packed = kept_sweeps(tmp_path)
    assert [name_of(plain), name_of(packed)] == ["a", "b"]
    assert read(plain) == read(packed)
    assert len(read(packed).attempts) == 2
    assert packed.read_bytes().startswith(b"\xfd7zXZ")


@pytest.mark.parametrize("path", at_least(5, kept_sweeps(ROOT / "docs" / "toolchains")), ids=name_of)
def test_kept_sweeps_are_whole_and_name_no_folder(path: Path):
    text = content_of(path).decode()
    sweep = read(path)
    assert sweep.attempts
    assert not any(word in text for word in ("/root/", "/home/", "/tmp/"))
    for attempt in sweep.attempts:
        assert attempt.lock or attempt.stopped == "resolve"
