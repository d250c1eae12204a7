"""A sweep says how far each version gets. A bisect finds the version that changed something, and what else changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.version import Version
from test_probes import make

from kernel_matrix.base.errors import UserError
from kernel_matrix.lab.bisect import bisect, differences, state_of_case, state_of_probe
from kernel_matrix.lab.probe import load_probes
from kernel_matrix.lab.sweep import Row, Subject, added, chosen, document, published, sweep, toolchain_of
from kernel_matrix.vendors.machine import Device, Machine

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
def swept(tmp_path_factory, request) -> tuple[Subject, list[Row]]:
    """Sweep two versions of a tiny package, and a pair that does not resolve. The newer version fails the probe."""
    from kernel_matrix.config.load import load

    folder = tmp_path_factory.mktemp("sweep")
    probe = make(folder, "old_only", "import iniconfig._parse", '[[expect]]\n# verdict = "works"')
    probe.path.write_text(
        probe.path.read_text()
        .replace('requires = ["numpy"]', 'requires = ["iniconfig"]')
        .replace("import iniconfig._parse", "import importlib.metadata as m; assert m.version('iniconfig') < '2.1'")
    )
    machine = Machine((Device("cpu", "test", ("any",)),))
    matrix = load(ROOT / "matrix.yaml")
    probes = load_probes(folder)
    subject = Subject("iniconfig", ROOT, folder / "build", matrix, machine, None, probes, say=lambda _: None)
    rows = sweep(subject, [Version("2.0.0"), Version("2.1.0")], {}, workers=2)
    rows += sweep(subject, [Version("2.0.0")], {"packaging": ["0.0.999"]}, workers=1)
    return subject, rows


def test_a_sweep_makes_an_environment_per_version_and_says_where_it_stopped(swept):
    _, (old, new, impossible) = swept
    assert old.stopped == ""
    assert old.versions["iniconfig"] == "2.0.0"
    assert old.lock == ["iniconfig==2.0.0"]
    assert old.probes["family/old_only"]["verdict"] == "works"
    assert (new.stopped, new.message) == ("probes", "changed: family/old_only")
    assert impossible.stopped == "resolve"
    assert "no version of packaging==0.0.999" in impossible.message


def test_a_sweep_s_file_is_plain_data_without_folders_of_this_machine(swept):
    subject, rows = swept
    text = json.dumps(document(subject, rows))
    assert json.loads(text)["rows"][0]["version"] == "2.0.0"
    assert str(subject.build) not in text


def test_an_environment_that_was_made_is_taken_again(swept):
    subject, _ = swept
    [complete] = (subject.build / "sweeps" / "iniconfig" / "envs").glob("iniconfig-2.0.0-cpu-*/complete")
    before = complete.stat().st_mtime_ns
    sweep(subject, [Version("2.0.0")], {}, workers=1)
    assert complete.stat().st_mtime_ns == before


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
    subject, rows = swept
    kept = document(subject, rows[:1])
    whole = added(kept, document(subject, rows[1:]))
    assert [(row["version"], row["pins"]) for row in whole["rows"]] == [
        ("2.0.0", {"packaging": "0.0.999"}),
        ("2.0.0", {}),
        ("2.1.0", {}),
    ]
    again = json.loads(json.dumps(kept))
    again["rows"][0]["probes"] = {"family/new": {"verdict": "changed", "outcome": "error", "stage": "", "reason": ""}}
    [one] = added(kept, again)["rows"]
    assert one["probes"].keys() == {"family/old_only", "family/new"}
    assert one["stopped"] == "probes"
    assert added({"package": "another", "rows": []}, kept) == kept


def row(version: str, outcome: str, **versions: str) -> Row:
    one = {"verdict": "works", "outcome": outcome, "stage": "launch", "reason": "broken"}
    return Row(version, {}, versions={"tool": version, **versions}, probes={"family/probe": one})


def test_a_bisection_finds_the_first_version_that_differs_in_log2_steps():
    tried: list[str] = []

    def attempt(version: Version) -> Row:
        tried.append(str(version))
        bad = version >= Version("0.1.12")
        return row(str(version), "error" if bad else "pass", helper="2" if bad else "1", same="3")

    change = bisect(KNOWN, attempt, state_of_probe("family/probe"), "tool")
    assert (change.last_good.version, change.first_bad.version) == ("0.1.11", "0.1.12")
    assert change.old == "works"
    assert change.new == "fails in launch: broken"
    assert change.elsewhere == {"helper": ("1", "2")}
    assert len(tried) == len(set(tried)) <= 5


def test_ends_in_the_same_state_cannot_be_bisected():
    with pytest.raises(UserError, match="are in the same state: works"):
        bisect(KNOWN, lambda version: row(str(version), "pass"), state_of_probe("family/probe"), "tool")


def test_a_version_that_stopped_earlier_is_another_state():
    stopped = Row("1", {}, stopped="import")
    assert state_of_probe("family/probe")(stopped) == "stopped at import"
    assert state_of_case(stopped) == "stopped at import"
    assert state_of_case(Row("1", {}, op={"state": "error", "stage": "lower"})) == "error in lower"
    assert differences({"a": "1", "b": "1"}, {"b": "2"}, "b") == {"a": ("1", "-")}


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "toolchains").glob("*.json")), ids=lambda path: path.stem)
def test_kept_sweeps_are_whole_and_name_no_folder(path: Path):
    text = path.read_text()
    sweep = json.loads(text)
    assert sweep["rows"]
    assert not any(word in text for word in ("/root/", "/home/", "/tmp/"))
    for one in sweep["rows"]:
        assert one["lock"] or one["stopped"] == "resolve"


def verdicts(package: str) -> dict[str, str]:
    """Return each probe's verdicts over the kept versions, where the package imports: ``1 to 2 works, 3 known``."""
    rows = json.loads((ROOT / "docs" / "toolchains" / f"{package}.json").read_text())["rows"]
    order = list(dict.fromkeys(row["version"] for row in rows))
    far = sorted(rows, key=lambda row: row["stopped"] in ("resolve", "install", "import"), reverse=True)
    of_version = {row["version"]: row["probes"] for row in far}
    told = {}
    for name in dict.fromkeys(name for row in rows for name in row["probes"]):
        runs: list[list[str]] = []
        for before, version in zip(["", *order], order, strict=False):
            one = of_version[version].get(name)
            if one and runs and runs[-1][1:] == [before, one["verdict"]]:
                runs[-1][1] = version
            elif one:
                runs.append([version, version, one["verdict"]])
        told[name] = ", ".join(f"{a} {verdict}" if a == b else f"{a} to {b} {verdict}" for a, b, verdict in runs)
    return told


@pytest.mark.parametrize("package", ["tilelang", "apache-tvm", "triton"])
def test_the_page_says_of_every_probe_what_the_kept_sweep_told(package):
    page = (ROOT / "docs" / "toolchains.md").read_text()
    table = dict(re.findall(r"^\| .*\(\.\./probes/(.+)\.py\) \| .* \| (.*) \|$", page, re.MULTILINE))
    told = verdicts(package)
    assert {name: table.get(name) for name in told} == told
