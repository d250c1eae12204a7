"""Compile caches: a compiler that mishandles one kind of cache is found by that kind, and a sound one by none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import COPY, Doubles, harness, share

from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check
from kernel_matrix.tools.caches import disks
from kernel_matrix.tools.caches.kinds import KINDS
from kernel_matrix.tools.caches.results import Ran, Result
from kernel_matrix.tools.caches.try_kinds import tried

COMPILER = Path(__file__).with_name("cached") / "kernel_side.py"
TOKENS = {"sound": 1, "shared": 2, "cold": 3, "warm": 4, "other-version": 5, "cut-short": 6, "read-only": 7, "full": 8}


@pytest.fixture
def cached(here: Doubles) -> Doubles:
    """Return a package whose kernels are compiled by two versions of the small compiler in ``cached``."""
    shutil.copy(COMPILER, here.root / "suite")
    (here.root / "lock-2.txt").write_text((here.root / "lock.txt").read_text() + "# the second version\n")
    here.edit("suite: suite,", "suite: suite, probes: probes,")
    here.edit(
        "environment: {", f'environment: {{ DOUBLES_CACHE: "{{cache}}/doubles", DOUBLES_COUNT: {here.root}/count,'
    )
    here.edit("  good: {", "  old: { backend: good, lock: lock-2.txt, requires: [numpy] }\n  good: {")
    with_versions = [
        f"{{ toolchain: {name}, environment: {{ DOUBLES_VERSION: '{number}' }} }}"
        for name, number in (("good", 1), ("old", 2))
    ]
    here.edit("toolchains: [good,", f"toolchains: [{', '.join(with_versions)},")
    here.edit("tokens: [1, 2, 3]", f"tokens: {[*TOKENS.values()]}")
    share(here.root / "build", COPY)
    return here


def caches(doubles: Doubles, *options: str) -> tuple[int, dict[str, Check], str]:
    """Run the command on the double, and return its status, the check of each kind and its output."""
    named = ("--matrix", str(doubles.root / "matrix.yaml"), "--executor", "current", "--toolchain", "good")
    done = harness("caches", *named, *options)
    found = {check.name.removeprefix("cache "): check for check in checks.read(doubles.root / "build" / "checks")}
    return done.returncode, found, done.stdout + done.stderr


def case(doubles: Doubles, name: str) -> str:
    target = next(iter(doubles.matrix.platforms["here"].targets))
    return f"here/{target}/good/double.forward/tokens{TOKENS[name]}"


@pytest.mark.slow
def test_each_kind_of_cache_finds_the_compiler_that_mishandles_it_and_no_other(cached: Doubles):
    entry = {"kind": "warm", "toolchain": "good", "finding": "other bits", "reason": "The double keeps three digits."}
    (cached.root / "probes").mkdir()
    (cached.root / "probes" / "caches.yaml").write_text(json.dumps([entry]))
    status, found, output = caches(cached, "--most", "8")
    assert status == 1, output
    by_name = {case(cached, name): name for name in TOKENS}
    kinds = {kind: {by_name[one.case] for one in check.findings} for kind, check in found.items()}
    kinds["shared"].discard("warm")  # one of the two processes may read what the other one has just written
    assert kinds == {
        **{kind: {kind} for kind in KINDS},
        "read-only": {"read-only", "warm"},  # one of its two caches is filled
    }, output
    texts = {(kind, one.case): one.text for kind, check in found.items() for one in check.findings}
    assert texts["warm", case(cached, "warm")] == "other bits of out"
    assert texts["read-only", case(cached, "warm")] == "with a filled cache: other bits of out"
    assert texts["read-only", case(cached, "read-only")].startswith(
        "with an empty cache: error in stage import: OSError"
    )
    assert texts["full", case(cached, "full")].startswith("error in stage import: OSError: [Errno 28]")
    assert "No such file" in texts["shared", case(cached, "shared")]
    [cell] = found["full"].cells
    assert (cell.tried, cell.found, cell.unfinished) == (7, 1, 0), "what differs from an empty cache is not compared"
    [cell] = found["warm"].cells
    assert (cell.tried, cell.found, cell.explained) == (7, 0, 1)
    assert "explained: The double keeps three digits." in output
    assert not found["warm"].is_red
    assert not (cached.root / "build" / "results").exists(), "the results of the matrix stay as they are"


@pytest.mark.slow
def test_what_cannot_be_tried_says_why_and_is_no_pass(cached: Doubles, monkeypatch: pytest.MonkeyPatch):
    cached.edit("lock-2.txt", "lock.txt")
    monkeypatch.setattr(disks, "_OWN_MOUNTS", (("sh", "-c", "echo no mounts >&2; exit 1"),))
    disks._unshare.cache_clear()
    kinds = ("--kind", "read-only", "--kind", "other-version")
    status, found, output = caches(cached, *kinds, "--case", case(cached, "sound"))
    assert (status, found["read-only"].cells, found["other-version"].cells) == (0, (), ())
    assert "this machine allows a process no mounts of its own: no mounts" in found["read-only"].note
    assert "matrix.yaml has no other version of it" in found["other-version"].note
    assert found["read-only"].note in output
    disks._unshare.cache_clear()


class FakeLane:
    """A lane whose runs have the bits that a test says (``?``: lost), and which keeps a file or none."""

    def __init__(self, folder: Path, bits: str, file: str = "") -> None:
        self.cache, self.kept, self.name = folder / "cache", folder / "kept", "here/any/fake"
        self.job = SimpleNamespace(cases=[SimpleNamespace(id="here/any/fake/op.forward/one")])
        package = SimpleNamespace(environment={"A_CACHE": "{cache}/a", "OTHER": "x"})
        self.project = SimpleNamespace(matrix=SimpleNamespace(package=package))
        self._bits, self._file = iter(bits), file

    def run(self, before=()) -> Ran:
        if self._file:
            (self.cache / self._file).touch()
        bits = next(self._bits)
        result = Result("error" if bits == "?" else "pass", bits, {"y": bits}, red=bits == "?", ended=bits != "?")
        return Ran({one.id: result for one in self.job.cases})


def test_what_cannot_be_compared_is_not_tried(tmp_path: Path):
    nothing = tried(FakeLane(tmp_path, "aa"), ["warm"])
    assert (nothing["cold"].differences, nothing["cold"].why_not) == ({"here/any/fake/op.forward/one": ()}, "")
    assert (nothing["warm"].differences, nothing["warm"].why_not) == ({}, "it keeps no file in A_CACHE")
    lost = tried(FakeLane(tmp_path, "aa?", "file"), ["warm"])["warm"]
    assert (lost.differences, lost.unfinished) == ({}, {"here/any/fake/op.forward/one": "?"})
    unsteady = tried(FakeLane(tmp_path, "abcd", "file"), ["warm"])
    assert unsteady["cold"].differences == {"here/any/fake/op.forward/one": ("other bits of y",)}
    assert unsteady["warm"].why_not == "no case gives the same bits twice with an empty cache"


def test_a_package_without_a_cache_is_told_so_in_one_sentence(here: Doubles):
    here.edit("{cache}", "/tmp")
    done = harness("caches", "--matrix", str(here.root / "matrix.yaml"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "matrix.yaml names no compile cache" in done.stderr
