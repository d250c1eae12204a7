"""Result files -> plain dictionaries, one for each test case."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.parsers import expat

from kernel_matrix.config.model import ASSERTED

_NOT_OUTPUTS = ("", "artifact", "bench", "canary", "time")
_CONTROL = re.compile(r"[\x7f-\x9f]")  # those that XML may have
_AGAIN = {"rerunFailure": "failure", "rerunError": "error"}  # it failed again when it was run again
# How the words begin that the attributes of a test have in place of an element.
_BEGIN = {"failure": "fail|not ?ok", "error": "err|crash|time|abort|kill|broken|interrupt|cancel|lost|incomplete",
          "skipped": "not ?run|disabled|skip|ignored|suppress|pending|exclud|filter"}  # fmt: skip
_DIGITS = 1e-4  # relative: the page rounds to five digits


class Raw(NamedTuple):
    """One test case of a result file."""

    file: str
    case: str
    outcome: str
    action: str
    stage: str
    message: str
    text: str
    seconds: float
    attempts: tuple[str, ...]
    metrics: dict[str, float]
    outputs: dict[str, dict[str, float]]  # the figures by output
    subjects: dict[str, dict[str, float]]  # the figures by what they are of, such as an output or "time"
    facts: dict[str, str]
    job: dict[str, str]
    run: str  # the key of the job: the path of its file, and its place in a file of several jobs
    samples: Mapping[str, tuple[str, list[int], bytes]] = MappingProxyType({})  # by output: dtype, shape and bits


def is_asserted(raw: Raw) -> bool:
    """Return whether a result is of a test of a suite that asserts by itself."""
    return raw.case.split("/")[3].endswith(f".{ASSERTED}")


class _Reader:
    """Take in a file as expat reads it. A tree of it would take most of the audit's time."""

    def __init__(self, path: Path, by_case: dict[str, list[Raw]]) -> None:
        self.path, self.by_case, self.jobs = path, by_case, 0
        self.job: dict[str, str] = {}
        self.case: dict[str, str] = {}  # the attributes of a test case, and so on below
        self.given: dict[str, str] = self.job
        self.results: dict[str, list[str]] = {}
        self.flaky: list[str] = []
        self.text: list[str] | None = None
        self.is_ours: bool | None = None  # the properties of other tools mean something else
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self.start, self.end
        parser.CharacterDataHandler = self.characters
        with path.open("rb") as content:
            parser.ParseFile(content)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Take in the start of an element."""
        name = _AGAIN.get(name, name)
        if self.is_ours is None:
            self.is_ours = name == "testsuites" and attributes.get("name") == "kernel-matrix"
        if name == "property":
            if not self.is_ours:
                return
            if self.given is not self.job or attributes.get("name") != "run":  # the run is a key, and no fact
                self.given[attributes.get("name", "")] = attributes.get("value", "")
        elif name == "testcase":
            self.case, self.given, self.results, self.flaky = attributes, {}, {}, []
        elif name == "testsuite":
            self.job = self.given = {}
            self.jobs += 1
        elif name in ("failure", "error", "skipped"):
            self.text = self.results[name] = []
            self.characters(attributes.get("message", ""))
        elif name in ("flakyFailure", "flakyError"):
            self.flaky.append({"flakyFailure": "fail", "flakyError": "error"}[name])

    def end(self, name: str) -> None:
        """Take in the end of an element."""
        name = _AGAIN.get(name, name)
        if name in ("failure", "error", "skipped"):
            self.text = None
        elif name == "testcase":
            raw = self._raw()
            self.by_case.setdefault(raw.case, []).append(raw)

    def characters(self, data: str) -> None:
        """Take in text, and keep the text of a result."""
        if self.text is not None:
            self.text.append(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", data))

    def _words(self) -> Iterator[str]:
        """Yield the elements that the words of a test stand for: its attributes, and why CTest has not run it."""
        said = " ".join(self.case.get(name, "") for name in ("status", "result", "outcome")).lower().replace("_", " ")
        yield from (element for element, words in _BEGIN.items() if re.search(rf"\b(?:{words})", said))
        why = " ".join(self.results.get("skipped", []))
        if not self.is_ours and why and said.strip() == "notrun" and not re.match("SKIP_RE|Disabled", why):
            yield "error"

    def _raw(self) -> Raw:
        given, results = self.given, self.results
        message, *text = results.get("failure") or results.get("error") or results.get("skipped") or [""]
        return _raw(
            file=self.path.name,
            case=given.get("case", f"{self.case.get('classname')}/{self.case.get('name')}"),
            outcome=_outcome({*results, *self._words()}, given.get("outcome", "")),
            action=given.get("action", ""),
            stage=given.get("stage", ""),
            message=message,
            text=f"{message}\n{''.join(text).strip()}",
            seconds=_seconds(self.case.get("time", "")),
            attempts=tuple(part for part in given.get("attempts", "").split(",") if part) or tuple(self.flaky),
            metrics={key[7:]: float(value) for key, value in given.items() if key.startswith("metric.")},
            facts={key[5:]: value for key, value in given.items() if key.startswith("fact.")},
            job=self.job,
            run=f"{self.path} {self.jobs}",
        )


def read(files: Iterable[Path]) -> dict[str, list[Raw]]:
    """Return the test cases of all files, by id."""
    by_case: dict[str, list[Raw]] = {}
    for path in files:
        if path.suffix in (".parquet", ".jsonl"):
            for raw in _of_tables(path) if path.suffix == ".parquet" else _of_journal(path):
                by_case.setdefault(raw.case, []).append(raw)
        else:
            _Reader(path, by_case)
    return by_case


def _of_tables(jobs: Path) -> Iterator[Raw]:
    """Yield the test cases of runs that came as tables, row by row. ``jobs`` is their file of the table of jobs.

    The files of one run have its name, in a folder for each table. Those of a set of runs have the names of the tables.
    """
    from pyarrow.parquet import ParquetFile  # it takes long to import, and not all results are tables

    is_set = jobs.parent.name != "jobs"

    def rows(table: str) -> list[dict[str, Any]]:
        path = jobs.with_name(f"{table}.parquet") if is_set else jobs.parent.parent / table / jobs.name
        return list(ParquetFile(path).read().to_pylist())

    metrics: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows("outputs"):
        of_case = metrics.setdefault((row.pop("run"), row.pop("case")), {})
        output, others = row.pop("output"), dict(row.pop("others"))
        given = {figure: value for figure, value in row.items() if value is not None}
        of_case |= {f"{output}.{figure}": value for figure, value in (given | others).items()}
    samples: dict[tuple[str, str], dict[str, tuple[str, list[int], bytes]]] = {}
    for row in rows("samples"):
        of_outputs = samples.setdefault((row["run"], row["case"]), {})
        of_outputs[row["output"]] = row["dtype"], row["shape"], row["bits"]
    facts = {row["run"]: dict(row["facts"]) for row in rows("jobs")}
    for row in rows("cases"):
        key = row["run"], row["case"]
        figures = dict(row["figures"]) | metrics.get(key, {})
        yield _of_row(jobs, row, facts[row["run"]], figures, samples.get(key, {}))


def _of_journal(path: Path) -> Iterator[Raw]:
    """Yield the test cases of a run whose machine has left a journal in place of tables."""
    first, *ends = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    for end in ends:
        samples = {
            output: (sample["dtype"], sample["shape"], base64.b64decode(sample["bits"]))
            for output, sample in end["samples"].items()
        }
        yield _of_row(path, end, first["facts"], end["metrics"], samples)


def _of_row(file: Path, row: Mapping[str, Any], job: dict[str, str], metrics: dict[str, float], samples: Any) -> Raw:
    """Return the test case of a row of a table, or of an entry of a journal, which is of one run."""
    names = ("case", "outcome", "action", "stage", "message", "seconds")
    return _raw(
        file=file.name,
        **{name: row[name] for name in names},
        text=f"{row['message']}\n{row['detail']}",
        attempts=tuple(row["attempts"]),
        metrics=metrics,
        facts=dict(row["facts"]),
        job=job,
        run=f"{file} {row.get('run', '')}",
        samples=samples,
    )


def _raw(metrics: dict[str, float], **given: Any) -> Raw:
    """Return a test case, whose figures are also told apart by what they are of."""
    subjects: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        subject, _, figure = key.rpartition(".")
        subjects.setdefault(subject, {})[figure] = value
    outputs = {subject: figures for subject, figures in subjects.items() if subject not in _NOT_OUTPUTS}
    return Raw(metrics=metrics, outputs=outputs, subjects=subjects, **given)


def _seconds(text: str) -> float:
    """Return the time of a test; 0 for a text that is no time."""
    text = text.replace(",", "") if "." in text else text.replace(",", ".")
    try:
        return float(text) if 0 <= float(text) < float("inf") else 0.0
    except ValueError:
        return 0.0


def _outcome(tags: set[str], outcome: str) -> str:
    if "failure" in tags:
        return "fail"
    if "error" in tags:
        return "error"
    if "skipped" in tags:
        return outcome if outcome in ("excluded", "missing") else "unavailable"
    return outcome or "pass"


def same(shown: Any, value: float) -> bool:
    """Return whether a number of the page equals the number of a result file, rounded as the page does."""
    if isinstance(shown, str):
        return shown == str(value)
    if not isinstance(shown, int | float):
        return False
    return shown == value or abs(shown - value) <= _DIGITS * abs(value)


def same_all(shown: dict[str, Any], values: dict[str, float]) -> bool:
    """Return whether two mappings have the same keys and numbers."""
    return shown.keys() == values.keys() and all(same(shown[key], value) for key, value in values.items())
