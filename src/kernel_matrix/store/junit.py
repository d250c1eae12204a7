"""Records <-> JUnit XML, in which results travel between machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from xml.parsers import expat

import junitparser
from junitparser.xunit2 import (
    JUnitXml,
    TestCase,
    TestSuite,
)  # the flavour whose cases have properties

from kernel_matrix.base.files import written_whole
from kernel_matrix.store import journal, names
from kernel_matrix.store.record import Outcome, Record, printable_text
from kernel_matrix.store.validation import Bounds, RefusedError, check_figures

# The elements of a result, from the best to the worst: of several the worst counts.
_ELEMENTS = ("skipped", "error", "failure")
_TEXTS = (*_ELEMENTS, "system-out")
_FLAKY = {"flakyFailure": "fail", "flakyError": "error"}
# What some tools say of a test that they have not run, without an element that says so.
_NOT_RUN = ("notrun", "disabled")
_RUN, _IDENTITY = "run", re.compile("[0-9a-f]{16}")  # the property of a suite that names its run


class BrokenResultError(Exception):
    """A file is not JUnit XML, or it is truncated."""


def write(path: Path, name: str, records: Sequence[Record], job: Mapping[str, str]) -> None:
    """Write the records of a job as one test suite; every metric and fact becomes a property."""
    xml = JUnitXml("kernel-matrix")
    xml.add_testsuite(_to_suite(name, records, job))
    _write(xml, path)


def write_all(path: Path, records: Iterable[Record]) -> None:
    """Write the records of several runs, each run as one test suite."""
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    whole = JUnitXml("kernel-matrix")
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
    """Return the records of any JUnit XML file; another tool's give records without metrics. Each suite is a run.

    A suite that was written from a run says which one; the runs of others follow from the bytes of the file.
    The file is checked while it is read: nothing is kept that is larger than the bounds.

    Raises:
        BrokenResultError: the file is truncated or not JUnit XML.
        RefusedError: it declares a document type or entities, or holds more than honest results do.
    """
    try:
        content = path.read_bytes()
        reading = _Reading(bounds or Bounds(), sha256(content).hexdigest())
        reading.parse(content)
    except (expat.ExpatError, OSError) as error:
        raise BrokenResultError(f"{path}: not whole JUnit XML ({error})") from None
    except (ValueError, TypeError) as error:
        raise BrokenResultError(f"{path}: {error}") from None
    return reading.records


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
    return records


class _Reading:
    """The records of a file that were read so far, and the parts of the test case that is being read."""

    def __init__(self, bounds: Bounds, digest: str) -> None:
        self.bounds, self._digest = bounds, digest
        self.records: list[Record] = []
        self._suites = 0
        self._run, self._job = "", dict[str, str]()
        self._open = self._cases = 0  # suites inside one another; test cases
        self._case: dict[str, str] | None = None  # the attributes of the test case
        self._properties: list[list[str]] = []  # the attributes of each
        self._results: dict[str, list[tuple[str, str]]] = {}  # message and text of each, by element
        self._tries: list[str] = []
        self._printed = ""
        self._text: list[str] = []
        self._parser = expat.ParserCreate()

    def parse(self, content: bytes) -> None:
        """Read a whole file.

        Raises:
            ExpatError: it is no whole XML.
            ValueError: it is no JUnit XML.
            RefusedError: it declares a document type or entities, or holds more than honest results do.
        """
        parser, depth, properties = self._parser, 0, self._properties
        deepest, longest, most = self.bounds.depth, self.bounds.text, self.bounds.properties

        def start(tag: str, attributes: list[str]) -> None:
            nonlocal depth
            depth += 1
            if depth > deepest:
                raise RefusedError(f"its elements lie more than {deepest} deep")
            if tag == "property" and depth > 1:  # nearly all elements are properties, and wait for the end of theirs
                properties.append(attributes)
                if len(properties) > most:
                    raise RefusedError(f"a case has more than {most} properties")
                return
            if len(max(attributes, key=len, default="")) > longest:
                raise RefusedError(f"a text is longer than {longest} characters")
            self._start(tag, dict(zip(attributes[::2], attributes[1::2], strict=True)), depth)

        def end(tag: str) -> None:
            nonlocal depth
            depth -= 1
            if tag != "property":
                self._end(tag)

        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.Parse(content, True)

    def _pairs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names and the values of the properties that were read, and forget them."""
        names, values = _in_columns(self._properties)
        self._properties.clear()
        longest = self.bounds.text
        if len("".join(names)) + len("".join(values)) > longest < max(map(len, (*names, *values))):
            raise RefusedError(f"a text is longer than {longest} characters")
        return names, values

    def _start(self, tag: str, attributes: dict[str, str], depth: int) -> None:
        if depth == 1 and tag not in ("testsuites", "testsuite"):
            raise ValueError(f"not whole JUnit XML (it begins with the element {tag[:60]!r})")
        self._parser.CharacterDataHandler = None  # the text of an element ends where another begins
        if tag == "testsuite":
            self._end_facts()
            self._open += 1
            if self._open == 1:
                self._job, self._run = {}, sha256(f"{self._digest} {self._suites}".encode()).hexdigest()[:16]
                self._suites += 1
        elif tag == "testcase" and self._open:
            self._end_facts()
            self._cases += 1
            if self._cases > self.bounds.cases:
                raise RefusedError(f"it has more than {self.bounds.cases} cases")
            self._case, self._results, self._tries, self._printed = attributes, {}, [], ""
        elif tag in _TEXTS and self._case is not None:
            if tag in _ELEMENTS:
                self._results.setdefault(tag, []).append((attributes.get("message", ""), ""))
            self._text = []
            self._parser.CharacterDataHandler = self._characters
        elif tag in _FLAKY:
            self._tries.append(_FLAKY[tag])

    def _characters(self, text: str) -> None:
        self._text.append(text)
        if sum(map(len, self._text)) > self.bounds.text:
            raise RefusedError(f"a text is longer than {self.bounds.text} characters")

    def _end(self, tag: str) -> None:
        self._parser.CharacterDataHandler = None
        if tag == "testsuite":
            self._end_facts()
            self._open -= 1
        elif tag == "testcase" and self._case is not None:
            self.records.append(self._record(self._case))
            self._case = None
        elif tag in _ELEMENTS and self._case is not None:
            of_tag = self._results[tag]
            of_tag[-1] = of_tag[-1][0], "".join(self._text).strip()
        elif tag == "system-out" and self._case is not None:
            self._printed = "".join(self._text).strip()

    def _end_facts(self) -> None:
        """Take the properties that stand outside of test cases: those of a suite are the facts of its job."""
        pairs = dict(zip(*self._pairs(), strict=True))
        if self._open == 1:
            if _IDENTITY.fullmatch(pairs.get(_RUN, "")):
                self._run = pairs.pop(_RUN)
            self._job |= pairs

    def _end_case(self) -> tuple[dict[str, str], dict[str, float], dict[str, str]]:
        """Return the properties of the test case: those of its own, its metrics and its facts."""
        given: dict[str, str] = {}
        metrics: dict[str, float] = {}
        facts: dict[str, str] = {}
        for name, value in zip(*self._pairs(), strict=True):
            if name.startswith("metric."):
                metrics[name[7:]] = float(value)
            elif name.startswith("fact."):
                facts[name[5:]] = value
            else:
                given[name] = value
        return given, metrics, facts

    def _record(self, case: Mapping[str, str]) -> Record:
        """Return the record of a test case. Of the elements of several results the worst counts."""
        (given, metrics, facts), name = self._end_case(), case.get("name", "")
        element = max(self._results, key=_ELEMENTS.index, default="")
        results = self._results.get(element, [])  # a test of some tools has several failures
        if not element and case.get("status") in _NOT_RUN:
            element = "skipped"
        # Some tools say in what a test has printed alone why it failed.
        printed = self._printed if element in ("failure", "error") else ""
        return Record(
            case=given.get("case", f"{case.get('classname') or name}/{name}"),
            outcome=_outcome(element, given.get("outcome", "")),
            action=given.get("action", ""),
            stage=given.get("stage", ""),
            message="; ".join(dict.fromkeys(message for message, _ in results if message)),
            detail="\n".join(dict.fromkeys(text for _, text in results if text)) or printed,
            seconds=float((case.get("time") or "0").replace(",", "")),
            attempts=self._attempts(given),
            metrics=metrics,
            facts=facts,
            job=self._job,
            run=self._run,
        )

    def _attempts(self, given: Mapping[str, str]) -> tuple[str, ...]:
        """Return the outcomes of the earlier tries. Other tools have an element for each that a later one made good."""
        if "attempts" in given:
            return tuple(part for part in given["attempts"].split(",") if part)
        return tuple(sorted(self._tries, key=["fail", "error"].index))


def _in_columns(properties: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the values of properties, each of which has its attributes in a list.

    Raises:
        ValueError: one has no name.
    """
    with suppress(ValueError):  # others have other attributes
        first, names, second, values = zip(*properties, strict=True)
        if {*first} == {"name"} and {*second} == {"value"}:  # as nearly all have them
            return names, values
    given = [dict(zip(one[::2], one[1::2], strict=True)) for one in properties]
    if any("name" not in one for one in given):
        raise ValueError("a property has no name")
    return tuple(one["name"] for one in given), tuple(one.get("value", "") for one in given)


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
