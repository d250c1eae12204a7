"""Records <-> JUnit XML: of our own for CI services, and of other tools.

The words of other tools are not ours. Only in a file that kernel-matrix has written do properties say what a result is.
"""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from itertools import compress, groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

import junitparser
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite  # the flavour whose cases have properties

from kernel_matrix.base.files import written_whole
from kernel_matrix.base.printing import printable_text, without_colours
from kernel_matrix.base.words import counted
from kernel_matrix.store import dialects, formats, journal, names
from kernel_matrix.store.record import Outcome, Record
from kernel_matrix.store.validation import Bounds, RefusedError, check_figures, check_job

_OURS = "kernel-matrix"  # the name of all suites together
_SUITES = ("testsuites", "testsuite")
_OF_A_SUITE = "(the suite itself)"  # the name of a test that stands for what no test says
_OF_BOOST = re.compile(r"^- reason: '(.*)'$", re.MULTILINE)  # in what it prints of a test that it skips
_RUN, _IDENTITY = "run", re.compile("[0-9a-f]{16}")  # the property of a suite that names its run
# What no XML has: control characters, as bytes and as references.
_NO_CHARACTER = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:0*(?:[0-8]|1[124-9]|2\d|3[01])|x0*(?:[0-8bcef]|1[0-9a-f]));", re.IGNORECASE
)
# How our own files begin, and nearly all of their bytes: properties of a case without references and markup.
_BEGIN = b'<?xml version="1.0" encoding="utf-8"?>'
_PLAIN = re.compile(rb"""(?<=<properties>)(?:[\t\n ]*<property name="[ !#-%'-;=-~]*" value="[ !#-%'-;=-~]*"/>)++""")


class BrokenResultError(Exception):
    """A file is not JUnit XML, or it is truncated."""


class _ElementError(Exception):
    """The first element is none of JUnit XML."""


class OtherFormatError(BrokenResultError):
    """A file is whole, and something else than JUnit XML; ``has_results`` is whether it may have results of tests."""

    def __init__(self, words: str, *, has_results: bool) -> None:
        super().__init__(words)
        self.has_results = has_results


def write(path: Path, name: str, records: Sequence[Record], job: Mapping[str, str]) -> None:
    """Write the records of a job as one test suite; every metric and fact becomes a property."""
    xml = JUnitXml(_OURS)
    xml.add_testsuite(_to_suite(name, records, job))
    _write(xml, path)


def write_all(path: Path, records: Iterable[Record]) -> None:
    """Write the records of several runs, each run as one test suite."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    whole = JUnitXml(_OURS)
    for run in runs.values():
        # Not add_testsuite: it makes one of two that have the same name and properties.
        whole.append(_to_suite(run[0].job.get("job", path.stem), run, run[0].job))
    whole.update_statistics()
    _write(whole, path)


def _write(xml: JUnitXml, path: Path) -> None:
    with written_whole(path) as part:
        xml.write(str(part), pretty=True)


def _to_suite(name: str, records: Sequence[Record], job: Mapping[str, str]) -> TestSuite:
    suite = TestSuite(name)
    run = {_RUN: records[0].run} if records and records[0].run else {}
    for key, value in {**job, **run}.items():
        suite.add_property(key, printable_text(value))
    for record in records:
        suite.append(_to_testcase(record))  # add_testcase would count all cases again for each
    suite.update_statistics()
    return suite


def _to_testcase(record: Record) -> TestCase:
    classname, _, name = record.case.rpartition("/")
    case = TestCase(name, classname, round(record.seconds, 4))
    facts: dict[str, str] = {
        "case": record.case,
        "outcome": record.outcome,
        "action": record.action,
        "stage": record.stage,
        "attempts": ",".join(record.attempts),
        **{f"fact.{key}": value for key, value in record.facts.items()},
        **{f"metric.{key}": repr(float(value)) for key, value in record.metrics.items()},
    }
    for key, value in facts.items():
        if value:
            case.add_property(key, printable_text(value))
    result: junitparser.Failure | junitparser.Error | junitparser.Skipped | None = None
    if record.outcome == "fail":
        result = junitparser.Failure(printable_text(record.message), "OutOfBudget")
    elif record.outcome == "error":
        result = junitparser.Error(printable_text(record.message), record.stage)
    elif record.outcome != "pass":
        result = junitparser.Skipped(printable_text(record.message), record.outcome)
    if result is not None:
        result.text = printable_text(record.detail)
        case.result = [result]
    return case


def read(path: Path, bounds: Bounds | None = None) -> list[Record]:
    """Return the records of any JUnit XML file; records of other tools have no metrics. Each suite is a run.

    A suite that was written from a run says which one; the runs of others follow from the bytes of the file.
    The file is checked while it is read: nothing is kept that is larger than the bounds. Of another tool's file, a
    detail that cannot be used is lost, and its longest texts are cut.

    Raises:
        BrokenResultError: the file is truncated or not JUnit XML.
        RefusedError: it declares a document type or entities, or holds more than honest results do.
    """
    return [record for _, record in read_tests(path, bounds).tests]


class Tests(NamedTuple):
    """The tests of a file, each with its class, and a sentence about each number that cannot be right."""

    tests: list[tuple[str, Record]]
    notes: list[str]


def read_tests(path: Path, bounds: Bounds | None = None, *, are_attempts: bool = False) -> Tests:
    """Return the tests of any JUnit XML file, packed or not, as ``read`` does.

    ``are_attempts`` says that what has one name in a suite is one test that was run again.
    """
    bounds = bounds or Bounds()
    content = b""
    try:
        content = _unpacked(path.read_bytes(), bounds)
        return _read(content, bounds, are_attempts)
    except (expat.ExpatError, OSError, EOFError) as error:
        _refuse_format(path, content)
        kind = "it is empty" if path.is_file() and not path.stat().st_size else str(error)
        raise BrokenResultError(f"{path}: not whole JUnit XML ({kind})") from None
    except _ElementError as error:
        _refuse_format(path, content)
        words = f"{path}: this is no JUnit XML, as it begins with the element {error}: {formats.TO_ANY}"
        raise OtherFormatError(words, has_results=False) from None
    except (ValueError, TypeError, LookupError) as error:
        remedy = ": write it in UTF-8" if "encoding" in str(error) else ""  # expat asks Python's codecs
        raise BrokenResultError(f"{path}: {error}{remedy}") from None


def _read(content: bytes, bounds: Bounds, are_attempts: bool) -> Tests:
    """Return the tests of a file. In another tool's, characters that no XML has are replaced, and hide no result."""
    digest = sha256(content).hexdigest()
    try:
        return _Reading(bounds, digest, are_attempts).parse(content)
    except expat.ExpatError:
        if f'name="{_OURS}"'.encode() in content[:200]:
            raise
        replaced = _NO_CHARACTER.sub(b"\xff", content).decode(errors="replace").encode()
        return _Reading(bounds, digest, are_attempts).parse(replaced)


def _refuse_format(path: Path, content: bytes) -> None:
    """Raise an OtherFormatError for what is known, and is no JUnit XML."""
    if known := formats.format_of(content):
        words = f"{path}: this is {known.name}, and no JUnit XML: {known.remedy}"
        raise OtherFormatError(words, has_results=known.has_results)


def _unpacked(content: bytes, bounds: Bounds) -> bytes:
    """Return the content of a file that gzip may have packed."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    with gzip.open(BytesIO(content)) as file:
        unpacked = file.read(bounds.file_bytes + 1)
    if len(unpacked) > bounds.file_bytes:
        raise RefusedError(f"it has more than {bounds.file_bytes} bytes, unpacked")
    return unpacked


def read_any(path: Path, bounds: Bounds) -> list[Record]:
    """Return the records of a journal, or of a JUnit file, whatever tool has written it.

    Raises:
        RefusedError: it holds more than honest results do, or figures that cannot be.
        BrokenResultError: it is not whole JUnit XML.
    """
    if names.is_journal(path):
        return journal.read(path, bounds)
    records = read(path, bounds)
    check_figures(records)
    for job, _ in groupby(record.job for record in records):
        check_job(job)
    return records


@dataclass
class _Counts:
    """Count the tests of a suite, those that were skipped or failed, and those that are like doctest's."""

    tests: int = 0
    skipped: int = 0
    failed: int = 0
    of_doctest: int = 0

    def add(self, other: _Counts) -> None:
        self.tests, self.skipped = self.tests + other.tests, self.skipped + other.skipped
        self.failed, self.of_doctest = self.failed + other.failed, self.of_doctest + other.of_doctest


@dataclass
class _Suite:
    """A suite that is being read: its numbers by its own word, and the numbers of results that the file has."""

    name: str
    attributes: Mapping[str, str]
    place: int  # among all suites of the file
    said: _Counts
    found: _Counts = field(default_factory=_Counts)

    def lacks(self) -> tuple[str, str]:
        """Return which failures, and which tests, its numbers have and its results have not."""
        said, found = self.said, self.found
        unlisted = max(said.skipped - found.skipped, 0)  # some tools list no test that they skip
        return (
            f"{said.failed} of its tests failed, and the file has {found.failed} of them"
            if said.failed > found.failed else "",
            f"it has {counted(said.tests, 'test')}, and the file has {found.tests} of them"
            if said.tests > found.tests + unlisted else "",
        )  # fmt: skip


class _Reading:
    """The tests of a file that were read so far, and the parts of the test that is being read."""

    def __init__(self, bounds: Bounds, digest: str, are_attempts: bool) -> None:
        self.bounds, self._digest, self._are_attempts = bounds, digest, are_attempts
        self._most, self._many, self._deepest = bounds.text, bounds.properties, bounds.depth
        self._number = 0  # of tests
        self._tests: dict[Any, list[dialects.Result]] = {}  # by their suite and name
        self._groups: dict[Any, tuple[str, bool]] = {}  # their class, and whether its tool names each test once
        self._notes: list[str] = []
        self._is_ours, self._root = False, dict[str, str]()
        self._open: list[_Suite] = []
        self._suites = self._all_suites = self._depth = 0  # suites that lie in no other; all suites; open elements
        self._run, self._job = "", dict[str, str]()
        self._case: dict[str, str] | None = None  # the attributes of the test
        self._given: dict[str, str] = self._job  # the properties of the test, or of its suite
        self._results: dict[str, list[list[str]]] = {}  # message and text of each, by element
        self._tries: list[str] = []
        self._attempt: dialects.Attempt | None = None
        self._skip = ""  # the type of a skip
        self._texts: list[str] | None = None  # of the element that is being read
        self._parser = expat.ParserCreate()

    def parse(self, content: bytes) -> Tests:
        """Read a whole file.

        Raises:
            ExpatError: it is no whole XML.
            ValueError: it is no JUnit XML.
            LookupError: it is in an encoding that Python does not know.
            RefusedError: it declares a document type or entities, or holds more than honest results do.
        """
        parser = self._parser
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        done = 0
        # Without comments, sections and instructions the text "<properties>" is nothing but the start of an element.
        plain = content.startswith(_BEGIN) and b"<!" not in content and not content.rfind(b"<?")
        for match in _PLAIN.finditer(content) if plain else ():
            parser.Parse(content[done : match.start()], False)
            done = match.end() if self._take_plain(match[0]) else match.start()
        parser.Parse(content[done:], True)
        return Tests([*map(self._one, self._tests)], self._notes)

    def _one(self, key: Any) -> tuple[str, Record]:
        """Return the class and the record of a test that the file may have several times."""
        group, names_once = self._groups[key]
        of_name = self._tests[key]
        return group, dialects.one_of(of_name, are_attempts=self._are_attempts, names_once=names_once)

    def _take_plain(self, properties: bytes) -> bool:
        """Take properties of a case, which expat need not read; return False for those that it takes or refuses."""
        is_given = self._is_ours and self._case is not None and self._depth < self._deepest
        parts = properties.decode().split('"') if is_given and len(properties) <= self._most else []
        if fits := 0 < len(parts) // 4 <= self._many - len(self._given):
            self._given.update(zip(parts[1::4], parts[3::4], strict=True))
        return fits

    def _cut(self, text: str, most: int) -> str:
        """Return the first characters of a text of another tool. In a file of ours no text is too long."""
        if len(text) > most and self._is_ours:
            raise RefusedError(f"a text is longer than {self.bounds.text} characters")
        return text[:most]

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the start of an element. The properties of a suite are the facts of its job."""
        self._depth += 1
        if self._depth > self._deepest:
            raise RefusedError(f"its elements lie more than {self._deepest} deep")
        if tag != "property":
            self._element(tag, attributes)
        elif self._is_ours and "name" in attributes:
            name, value = attributes["name"], attributes.get("value", "")
            self._cut(max(name, value, key=len), self._most)
            if len(self._given) >= self._many:
                raise RefusedError(f"a case has more than {self._many} properties")
            if name == _RUN and self._case is None and _IDENTITY.fullmatch(value):
                self._run = value
            else:
                self._given[name] = value
        elif self._case is not None:
            self._take_attempt({attributes.get("name", "")[:100]: attributes.get("value", "")[:100]})

    def _element(self, tag: str, attributes: dict[str, str]) -> None:
        if len(max(attributes.values(), key=len, default="")) > self.bounds.text:
            attributes = {name: self._cut(value, self.bounds.text) for name, value in attributes.items()}
        if self._depth == 1:
            if tag not in _SUITES:
                raise _ElementError(repr(tag[:60]))
            self._is_ours, self._root = tag == "testsuites" and attributes.get("name") == _OURS, attributes
        self._hear(None)  # the text of an element ends where another begins
        if tag in _SUITES:
            self._start_suite(tag, attributes)
        elif tag == "testcase" and self._open:
            self._start_case(attributes)
        elif tag in dialects.ELEMENTS:
            if self._case is None and tag != "skipped" and self._open:  # it is of the whole suite
                self._start_case({"classname": self._open[-1].name, "name": _OF_A_SUITE})
            if self._case is not None:
                result = [attributes.get("message", "")]
                self._results.setdefault(dialects.ELEMENTS[tag], []).append(result)
                self._skip = attributes.get("type", "") if tag == "skipped" else self._skip
                self._hear(result)
        elif tag == "system-out" and self._case is not None:
            self._hear(self._results.setdefault(tag, [[]])[0])
        elif tag in dialects.FLAKY:
            self._tries.append(dialects.FLAKY[tag])

    def _start_suite(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "testsuite" and not any(suite.name for suite in self._open):
            self._job, self._run = {}, sha256(f"{self._digest} {self._suites}".encode()).hexdigest()[:16]
            self._given = self._job
            self._suites += 1
        tests, skipped, failed = (
            sum(int(text) for name in counts if (text := attributes.get(name, "")[:18]).isdecimal())
            for counts in (("tests",), dialects.COUNTS_OF_SKIPPED, ("failures", "errors"))
        )
        name = attributes.get("name") or tag if tag == "testsuite" else ""
        self._all_suites += 1
        self._open.append(_Suite(name, attributes, self._all_suites, _Counts(tests, skipped, failed)))

    def _start_case(self, attributes: dict[str, str]) -> None:
        if self._number >= self.bounds.cases:
            raise RefusedError(f"it has more than {self.bounds.cases} cases")
        self._number += 1
        self._case, self._given, self._results, self._tries = attributes, {}, {}, []
        self._attempt, self._skip = None, ""
        if not self._is_ours:
            self._take_attempt(attributes)

    def _take_attempt(self, words: Mapping[str, str]) -> None:
        """Take the number of the attempt that a test is, where an attribute or a property says it."""
        for name, value in words.items():
            self._attempt = dialects.attempt(name, value) or self._attempt

    def _hear(self, texts: list[str] | None) -> None:
        """Append what is read to these texts; to none if there are none."""
        self._texts, self._left = texts, self.bounds.text
        self._parser.CharacterDataHandler = None if texts is None else self._characters

    def _characters(self, text: str) -> None:
        if self._texts is not None and self._left:
            self._texts.append(self._cut(text, self._left))
            self._left -= len(self._texts[-1])

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "property" and self._texts is None:
            return
        self._hear(None)
        if self._case is not None:
            if tag == "testcase" or (tag in dialects.ELEMENTS and self._case.get("name") == _OF_A_SUITE):
                self._end_case(self._case)
        elif tag in _SUITES:
            self._end_suite(self._open.pop(), tag)

    def _end_suite(self, suite: _Suite, tag: str) -> None:
        """Add what a suite has found to the one around it, and an error for numbers that it has not kept."""
        failed, tests = ("", "") if self._is_ours else suite.lacks()
        only_of_doctest = 0 < suite.found.tests == suite.found.of_doctest
        if tests and not dialects.lists_its_tests(suite.attributes, self._root, is_doctest=only_of_doctest):
            self._notes.append(f"{suite.name or tag}: by its own word {tests}. Its tool counts more than tests.")
            tests = ""
        if not self._is_ours and 0 < suite.said.tests < suite.found.tests - suite.found.skipped:
            told = (
                f"by its own word it counts {counted(suite.said.tests, 'test')}, and the file has {suite.found.tests}"
            )
            self._notes.append(f"{suite.name or tag}: {told}.")
        if failed or tests:
            self._open.append(suite)
            self._start_case(case := {"classname": suite.name or tag, "name": _OF_A_SUITE})
            self._results = {"error": [[f"by its own word {' and '.join(filter(None, (failed, tests)))}"]]}
            self._end_case(case)
            self._open.pop()
        suite.found.failed = max(suite.said.failed, suite.found.failed)
        suite.found.tests = max(suite.said.tests, suite.found.tests)
        if self._open:
            self._open[-1].found.add(suite.found)

    def _end_case(self, case: Mapping[str, str]) -> None:
        failed = sum(len(self._results.get(element, ())) for element in ("error", "failure")) + len(self._tries)
        record = self._record(case)
        failed = max(failed, record.outcome in ("fail", "error"))  # where an attribute alone says it
        suite = self._open[-1]
        key = self._number if self._is_ours else (suite.place, record.case)
        self._tests.setdefault(key, []).append((self._attempt, record))
        self._groups[key] = case.get("classname", ""), dialects.is_pytest(suite.attributes, self._root)
        suite.found.add(_Counts(1, record.outcome == "unavailable", failed, dialects.is_doctest(case)))
        self._case, self._given = None, self._job

    def _record(self, case: Mapping[str, str]) -> Record:
        """Return the record of a test. Of the elements of several results the worst counts."""
        printed, name, time = self._results.pop("system-out", []), case.get("name", ""), case.get("time", "")
        element = self._element_of(case, "".join(printed[0]) if printed else "")
        results = self._results.get(element) or self._results.get("skipped", [])  # several, of some tools
        texts = [text for _, *parts in results if (text := "".join(parts).strip())]
        if not texts and element in ("failure", "error"):  # some tools say why in what a test has printed alone
            texts = ["".join(parts).strip() for parts in printed]
        known: dict[str, Any] = {
            "case": printable_text(f"{case.get('classname') or name}/{name}"),
            "outcome": _outcome(element, ""),
            "message": self._plain("; ".join(dict.fromkeys(message for message, *_ in results if message))),
            "detail": self._plain("\n".join(dict.fromkeys(texts))),
            "seconds": float(time or 0) if self._is_ours else _seconds(time),
            "attempts": tuple(sorted(self._tries, key=["fail", "error"].index)),
        }
        said = _said(element, self._given) if self._is_ours else {}
        return Record(**{**known, **said}, job=self._job, run=self._run)

    def _plain(self, text: str) -> str:
        return printable_text(text if self._is_ours else without_colours(text))

    def _element_of(self, case: Mapping[str, str], printed: str) -> str:
        """Return the element that says how a test ended: of several the worst counts."""
        skips = self._results.get("skipped", [])
        if not self._is_ours and dialects.may_fail([message for message, *_ in skips]):
            return "skipped"
        element = max(*self._results, dialects.end_of(case), "", key=("", *dialects.WORST_LAST).index)
        if self._is_ours or element != "skipped":
            return element
        reason = "; ".join(text for parts in skips for part in parts if (text := part.strip()))
        told = printed.strip() if case.get("status") == "notrun" else "; ".join(_OF_BOOST.findall(printed))
        return dialects.end_of_skipped(case, self._skip, reason or told)


def _said(element: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the properties of a case of ours say of its record."""
    names = tuple(given)
    (metrics, are_metrics), (facts, are_facts) = _named(names, "metric."), _named(names, "fact.")
    return {
        **{name: given[name] for name in ("case", "action", "stage") if name in given},
        "outcome": _outcome(element, given.get("outcome", "")),
        "attempts": tuple(part for part in given.get("attempts", "").split(",") if part),
        "metrics": dict(zip(metrics, map(float, compress(given.values(), are_metrics)), strict=True)),
        "facts": dict(zip(facts, compress(given.values(), are_facts), strict=True)),
    }


@lru_cache(maxsize=256)  # most records of a file share one of a few layouts
def _named(names: tuple[str, ...], kind: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the names of a kind without its word, and which of all names they are."""
    return tuple(n.removeprefix(kind) for n in names if n.startswith(kind)), tuple(n.startswith(kind) for n in names)


def _seconds(text: str) -> float:
    """Return a time; 0 if the text is none. Some tools group thousands by commas, and some write 0,5."""
    with suppress(ValueError):
        seconds = float(text.replace(",", "" if "." in text else "."))
        return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0
    return 0.0


def _refuse(*_: object) -> None:
    raise RefusedError("it declares a document type or entities, which results never do")


def _outcome(element: str, outcome: str) -> Outcome:
    """Return the outcome of a case from the element of its result and from its property.

    The property says more than the element, and cannot make the outcome better than the element does.
    """
    if outcome and outcome not in Outcome.__args__:  # type: ignore[attr-defined]
        raise ValueError(f"unknown outcome {outcome!r}")
    match element:
        case "failure":
            return "fail"
        case "error":
            return "error"
        case "skipped":
            return outcome if outcome in ("excluded", "missing") else "unavailable"  # type: ignore[return-value]
    return outcome or "pass"  # type: ignore[return-value]
