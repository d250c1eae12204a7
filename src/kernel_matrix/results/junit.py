"""Records <-> JUnit XML, in which results travel between machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
from junitparser.xunit2 import (
    FlakyError,
    FlakyFailure,
    JUnitXml,
    TestCase,
    TestSuite,
)  # the flavour whose cases have properties

from kernel_matrix.base.files import written_whole
from kernel_matrix.results.record import Outcome, Record

# The elements of a result, from the best to the worst: of several the worst counts.
_ELEMENTS = ("skipped", "error", "failure")
# What some tools say of a test that they have not run, without an element that says so.
_NOT_RUN = ("notrun", "disabled")
_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    for key, value in job.items():
        suite.add_property(key, _clean(value))
    for record in records:
        suite.append(_to_testcase(record))  # add_testcase would count all cases again for each
    suite.update_statistics()
    return suite


def read(path: Path) -> list[Record]:
    """Return the records of any JUnit XML file; another tool's give records without metrics. Each suite is a run.

    Raises:
        BrokenResultError: the file is truncated or not JUnit XML.
    """
    try:
        digest = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        suites = [
            (suite, _properties(suite), sha256(f"{digest} {place}".encode()).hexdigest()[:16])
            for place, suite in enumerate(_parse(path))
        ]
        return [replace(_to_record(case, job), run=run) for suite, job, run in suites for case in suite]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenResultError(f"{path}: {error}") from None


def _parse(path: Path) -> list[Any]:  # of TestSuite: junitparser's own types name the base class
    try:
        xml: Any = JUnitXml.fromfile(str(path))
    except (ElementTree.ParseError, junitparser.JUnitXmlError, OSError, UnicodeDecodeError) as error:
        raise BrokenResultError(f"{path}: not whole JUnit XML ({error})") from None
    return list(xml) if isinstance(xml, JUnitXml) else [xml]


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
            case.add_property(key, _clean(value))
    result: junitparser.Failure | junitparser.Error | junitparser.Skipped | None = None
    if record.outcome == "fail":
        result = junitparser.Failure(_clean(record.message), "OutOfBudget")
    elif record.outcome == "error":
        result = junitparser.Error(_clean(record.message), record.stage)
    elif record.outcome != "pass":
        result = junitparser.Skipped(_clean(record.message), record.outcome)
    if result is not None:
        result.text = _clean(record.detail)
        case.result = [result]
    return case


def _to_record(case: Any, job: Mapping[str, str]) -> Record:
    properties = _properties(case)
    result = max(case.result, key=lambda element: _ELEMENTS.index(element._tag), default=None)
    element = "" if result is None else result._tag
    same = [one for one in case.result if one._tag == element]  # a test of some tools has several failures
    if not element and case._elem.get("status") in _NOT_RUN:
        element = "skipped"
    return Record(
        case=properties.get("case", f"{case.classname or case.name}/{case.name}"),
        outcome=_outcome(element, properties.get("outcome", "")),
        action=properties.get("action", ""),
        stage=properties.get("stage", ""),
        message="; ".join(dict.fromkeys(one.message for one in same if one.message)),
        detail="\n".join(dict.fromkeys(text for one in same if (text := (one.text or "").strip())))
        or _printed(case, element),
        seconds=float(case.time or 0.0),
        attempts=_attempts(case, properties),
        metrics={key[7:]: float(value) for key, value in properties.items() if key.startswith("metric.")},
        facts={key[5:]: value for key, value in properties.items() if key.startswith("fact.")},
        job=job,
    )


def _texts(results: Sequence[Any]) -> str:
    return "\n".join(dict.fromkeys(text for one in results if (text := (one.text or "").strip())))


def _printed(case: Any, element: str) -> str:
    """Return what a test that failed has printed: some tools say there alone why it failed."""
    return (case.system_out or "").strip() if element in ("failure", "error") else ""


def _attempts(case: Any, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the outcomes of the earlier tries. Other tools have an element for each try that a later one made good."""
    if "attempts" in properties:
        return tuple(part for part in properties["attempts"].split(",") if part)
    tries = ((FlakyFailure, "fail"), (FlakyError, "error"))
    return tuple(outcome for kind, outcome in tries for _ in case.iterchildren(kind))


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


def _properties(element: Any) -> dict[str, str]:
    """Return the properties of a suite or of a case.

    Raises:
        ValueError: one has no name.
    """
    properties = {item.name: item.value or "" for item in element.properties()}
    if None in properties:
        raise ValueError("a property has no name")
    return properties


def _clean(text: str) -> str:
    """Replace what XML cannot hold: control characters, such as those of terminal colours, and halves of pairs."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
