"""Records as JUnit XML, the form in which results travel between machines, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite  # the flavour whose cases have properties

from kernel_matrix.base.files import written_whole
from kernel_matrix.results.record import Outcome, Record


class BrokenResultError(Exception):
    """A file that is not JUnit XML, or not all of it."""


def write(path: Path, name: str, records: Sequence[Record], job: Mapping[str, str]) -> None:
    """Write one job's records as one test suite; every metric and fact is a property."""
    suite = TestSuite(name)
    for key, value in job.items():
        suite.add_property(key, _clean(value))
    for record in records:
        suite.add_testcase(_to_testcase(record))
    suite.update_statistics()
    xml = JUnitXml("kernel-matrix")
    xml.add_testsuite(suite)
    with written_whole(path) as part:
        xml.write(str(part), pretty=True)


def merge(paths: Iterable[Path], into: Path) -> None:
    """All suites of several files in one."""
    whole = JUnitXml("kernel-matrix")
    for path in paths:
        for suite in _parse(path):
            whole.add_testsuite(suite)
    whole.update_statistics()
    whole.write(str(into), pretty=True)


def read(path: Path) -> list[Record]:
    """The records of any JUnit XML file; one that is not ours gives records without metrics.

    Raises:
        BrokenResultError: the file is truncated or not JUnit XML.
    """
    try:
        suites = [(suite, _properties(suite)) for suite in _parse(path)]  # all records of a suite share its job
        return [_to_record(case, job) for suite, job in suites for case in suite]
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
    properties = {item.name: item.value or "" for item in case.properties()}
    result = case.result[0] if case.result else None
    kind = "pass" if result is None else {"failure": "fail", "skipped": "unavailable"}.get(result._tag, "error")
    outcome = properties.get("outcome", kind) if kind != "fail" else "fail"
    if outcome not in Outcome.__args__:  # type: ignore[attr-defined]
        raise ValueError(f"unknown outcome {outcome!r}")
    return Record(
        case=properties.get("case", f"{case.classname}/{case.name}"),
        outcome=outcome,  # type: ignore[arg-type]
        action=properties.get("action", ""),
        stage=properties.get("stage", ""),
        message=(result.message or "") if result is not None else "",
        detail=(result.text or "").strip() if result is not None else "",
        seconds=float(case.time or 0.0),
        attempts=tuple(part for part in properties.get("attempts", "").split(",") if part),
        metrics={key[7:]: float(value) for key, value in properties.items() if key.startswith("metric.")},
        facts={key[5:]: value for key, value in properties.items() if key.startswith("fact.")},
        job=job,
    )


def _properties(suite: Any) -> dict[str, str]:
    return {item.name: item.value or "" for item in suite.properties()}


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold, and without terminal colours."""
    return "".join(char if char in "\n\t" or char >= " " else "\N{REPLACEMENT CHARACTER}" for char in text)
