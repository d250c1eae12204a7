"""Know a file that is no JUnit XML by how it begins, and how the tool that wrote it writes JUnit XML."""

from __future__ import annotations

import re
from typing import NamedTuple

_BEGINNING = 4096  # bytes that tell what a file is
_TO_DOTNET = "dotnet test --logger junit, with the package JunitXml.TestLogger"
_TO_CARGO = "cargo nextest run, with junit in its profile"
TO_ANY = "let the tool that wrote it write JUnit XML"


class Format(NamedTuple):
    """Hold the name of a format, what to do to get JUnit XML, and whether it has results of tests."""

    name: str
    remedy: str
    has_results: bool = True


# The beginning of each. Of XML it is the first element, behind what may stand before it.
_FORMATS = {
    r"<TestRun[\s/>]": Format("TRX of .NET", _TO_DOTNET),
    r"<assembl(ies|y)[\s/>]": Format("XML of xUnit.net", _TO_DOTNET),
    r"<test-r(un|esults)[\s/>]": Format("XML of NUnit", _TO_DOTNET),
    r"<Catch(2TestRun)?[\s/>]": Format("XML of Catch2", "PROGRAM --reporter JUnit::out=FILE"),
    r"<doctest[\s/>]": Format("XML of doctest", "PROGRAM --reporters=junit --out=FILE"),
    r"<Test(Log|Result)[\s/>]": Format("XML of Boost.Test", "PROGRAM --log_format=JUNIT --log_sink=FILE"),
    r"<Site[\s/>]": Format("XML of CTest for CDash", "ctest --output-junit FILE"),
    r"<robot[\s/>]": Format("XML of Robot Framework", "robot --xunit FILE"),
    r"<(coverage|report)[\s/>]": Format("a report of coverage", "name the file of the tests", has_results=False),
    r"(?i)<(!doctype )?html[\s/>]": Format("a page of HTML", "a download may have failed", has_results=False),
    r"PK\x03\x04": Format("a zip archive", "unpack it, and name the folder"),
    r"BZh|\xfd7zXZ|\x28\xb5\x2f\xfd": Format("a packed file", "unpack it; gzip alone is read as it is"),
    r"PAR1": Format("a table of Parquet", "give its folder to `kernel-matrix report` as it is"),
    r"TAP version|1\.\.\d+\s|(not )?ok\b": Format(
        "TAP", "prove --formatter TAP::Formatter::JUnit, bats --report-formatter junit, node --test-reporter=junit; "
        "Meson writes meson-logs/testlog.junit.xml by itself"),
    r"[{\[][^\0]*\"testsuites\"": Format("JSON of GoogleTest", "PROGRAM --gtest_output=xml:FILE"),
    r"\{[^\0]*\"Action\":": Format("JSON of go test", "gotestsum --junitfile FILE"),
    r"\{[^\0]*\"type\": *\"(suite|test)\"": Format("JSON of cargo test", _TO_CARGO),
    r"\{[^\0]*\"numTotalTests\"": Format("JSON of Jest", "jest --reporters=jest-junit"),
    r"\{[^\0]*\"(nodeid|\$report_type|pytest_version)\"": Format("JSON of pytest", "pytest --junitxml FILE"),
    r"\{[^\0]*\"__version__\"": Format("JSON of lit", "lit --xunit-xml-output FILE"),
    r"=+ test session starts": Format("what pytest prints", "pytest --junitxml FILE"),
    r"[^<]*(\[={10}\] Running|\[ RUN  )": Format("what GoogleTest prints", "PROGRAM --gtest_output=xml:FILE"),
    r"[^<]*(Test project |Start +\d+: )": Format("what CTest prints", "ctest --output-junit FILE"),
    r"[^<]*running \d+ tests?\b": Format("what cargo test prints", _TO_CARGO),
    r"[{\[]": Format("JSON", TO_ANY),
}  # fmt: skip
_KNOWN = [(re.compile(pattern.encode()), known) for pattern, known in _FORMATS.items()]
_BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)


def format_of(content: bytes) -> Format | None:
    """Return the format of a file that is no JUnit XML; None if it is XML, or begins like a part of it."""
    beginning = content[:_BEGINNING]
    before = _BEFORE.match(beginning)
    rest = beginning[before.end() if before else 0 :]
    for pattern, known in _KNOWN:
        if pattern.match(rest):
            return known
    return Format("no XML", TO_ANY) if rest and not rest.startswith((b"<", b"\xfe", b"\xff")) else None
