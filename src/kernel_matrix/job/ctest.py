"""Collect the tests of a CMake project as pytest's: CTest runs each, and says how it ended.

The suite is then the folder that CMake has built, where CTest keeps its list (``CTestTestfile.cmake``). A program that
several tests start is an operator, as a file of Python tests is. CTest itself knows what belongs to a test (fixtures,
folders, variables, exit statuses that mean "skipped", time limits), so it runs each. GoogleTest's tests are among them,
each by its name, where the project calls ``gtest_discover_tests``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kernel_matrix.job.skips import is_asked_of_ctest

LIST = "CTestTestfile.cmake"
NO_TEST = "CTest lists no test of the project: write enable_testing() and add_test() into its CMakeLists.txt"
# How a test ended, in what CTest prints: "...***Failed  0.01 sec", "...Subprocess aborted***Exception:  0.01 sec".
_ENDED = re.compile(r"\.(?P<how>[^.\n]*)\*\*\*(?P<kind>.+?) +[\d.]+ sec", re.MULTILINE)
_ASSERTED = ("Failed", "Required regular expression", "Error regular expression")
_OF_GOOGLETEST = re.compile(r"(\S+: Failure\n(?:(?!\[ ).*\n)*)")
_SKIPPED_BY_GOOGLETEST = re.compile(r": Skipped\n(.+)\n")
_NONE_RAN = "[==========] Running 0 tests from 0 test suites."


class Folder(pytest.Directory):
    """The folder that CMake has built."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its tests in CTest's order."""
        for number, test in enumerate(_listed(self.path), start=1):
            command = test.get("command") or [test["name"]]
            program = Path(command[0])
            path = self.path / (program if program.is_relative_to(self.path) else program.name)
            yield Test.from_parent(self, name=test["name"], path=path, number=number)


class Test(pytest.Item):
    """A test of CTest's list."""

    __test__ = False  # its name looks like a test class

    def __init__(self, *, number: int, **more: Any) -> None:
        """``number`` is its place in CTest's list, from one."""
        super().__init__(**more)
        self.number = number

    def runtest(self) -> None:
        """Run the test.

        Raises:
            AssertionError: it failed; with GoogleTest's words or the last that it printed.
            RuntimeError: it did not come to its end, or could not begin.
        """
        assert self.parent
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, "result.xml")
            only = f"{self.number},{self.number}"
            process = _ctest(self.parent.path, "-I", only, "--output-junit", str(file))
            try:
                cases = ElementTree.parse(file).iter("testcase")  # noqa: S314  CTest has just written it
                case = next(case for case in cases if case.get("name") == self.name)
            except (OSError, ElementTree.ParseError, StopIteration):
                raise RuntimeError(f"CTest has not run it: {process.stdout}{process.stderr}".strip()) from None
        printed = case.findtext("system-out") or ""
        self.add_report_section("call", "stdout", printed)
        _judge(case, printed, process.stdout)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:  # noqa: ARG002
        """Return what the test printed, and why it failed."""
        printed = "".join(text for _, _, text in self._report_sections)
        return f"{printed.rstrip()}\n{excinfo.value}".strip()

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the program and the test's name."""
        return self.path, None, self.name


class Plugin:
    """Collect the folder of a suite by CTest."""

    def __init__(self, suite: Path) -> None:
        """``suite`` has CTest's list."""
        self.suite = suite

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Return CTest's collector for the suite."""
        return Folder.from_parent(parent, path=path) if path == self.suite else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Let the suite have any name: pytest leaves out folders that are called ``build``."""
        return False if collection_path == self.suite else None


def _listed(folder: Path) -> list[Mapping[str, Any]]:
    """Return CTest's description of the tests of a folder."""
    process = _ctest(folder, "--show-only=json-v1")
    try:
        tests: list[Mapping[str, Any]] = json.loads(process.stdout)["tests"]
    except (ValueError, KeyError, TypeError):
        tests = []
    if process.returncode or not (tests or '"tests"' in process.stdout):
        said = process.stderr.strip() or process.stdout.strip() or "it says nothing"
        raise pytest.Collector.CollectError(f"ctest --show-only ended with status {process.returncode}: {said}")
    return tests


def _ctest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the environment's CTest, or the machine's where it has none."""
    program = shutil.which("ctest", path=str(Path(sys.executable).parent)) or shutil.which("ctest")
    if program is None:
        raise pytest.Collector.CollectError("ctest is not installed: write 'cmake' into the lock of the toolchain")
    # CTest writes its log into the folder that it is given, and a job must not write into the folder of its sources.
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, LIST).write_text(f"subdirs([==[{folder}]==])\n")
        command = [program, "--test-dir", scratch, *options]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _judge(case: ElementTree.Element, printed: str, of_ctest: str) -> None:
    """Return if a test has passed.

    Raises:
        AssertionError: it has not.
        RuntimeError: it did not come to its end, or could not begin.
    """
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    skipped, status = case.find("skipped"), case.get("status")
    if status in ("notrun", "disabled") or skipped is not None:
        reason = (skipped.get("message") if skipped is not None else None) or "Disabled"
        if status == "disabled" or is_asked_of_ctest(reason):
            said = _SKIPPED_BY_GOOGLETEST.search(printed)
            pytest.skip(said[1] if said else reason)
        raise RuntimeError(lines[-1] if lines else reason)
    if status == "fail":
        found = _ENDED.search(of_ctest)
        ended = f"{found['kind']} {found['how']}".strip() if found else "Failed"
        words = [" ".join(text.split()) for text in _OF_GOOGLETEST.findall(printed)]
        message = "; ".join(words) or (lines[-1] if lines else "it printed nothing")
        raise AssertionError(message) if ended.startswith(_ASSERTED) else RuntimeError(f"{ended}: {message}")
    if status != "run":
        raise RuntimeError(f"CTest says {status!r}, which is not known here")
    if _NONE_RAN in printed:
        raise RuntimeError("GoogleTest ran no test")
