"""Read the JUnit XML that the harness writes itself, without an XML parser.

Every byte of a file must fit the one form that :mod:`kernel_matrix.results.junit` writes, well inside all bounds of
:mod:`kernel_matrix.results.validation`. Any other file is left to the XML parser, which also finds what is wrong with
it. So a file is read here only if both ways give the same records; a test holds them to that. Reading so takes a tenth
of the time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernel_matrix.results.columns.batch import Batch, BatchBuilder
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Bounds, RefusedError, check_figures

_VALUE = r'[^"<>]*+'
_PROPERTY = rf'\t<property name="{_VALUE}" value="{_VALUE}"/>\n'
_HEADER = re.compile(r'<\?xml version="1\.0" encoding="utf-8"\?>\n<testsuites name="kernel-matrix">\n')
_SUITE = re.compile(
    rf'\t<testsuite name="{_VALUE}" tests="\d+" errors="\d+" failures="\d+" skipped="\d+" time="[\d.]+">\n'
    rf"\t\t<properties>\n((?:\t\t{_PROPERTY})++)\t\t</properties>\n"
)
_CASE = re.compile(
    rf'\t\t<testcase name="{_VALUE}" classname="{_VALUE}" time="([\d.]++(?:e[-+]\d+)?)">\n'
    rf"\t\t\t<properties>\n((?:\t\t\t{_PROPERTY})++)\t\t\t</properties>\n"
    rf'(?:\t\t\t<(failure|error|skipped)(?: message="({_VALUE})")?(?: type="{_VALUE}")?(?:/>|>([^<>]*+)</\3>)\n)?'
    r"\t\t</testcase>\n"
)
_PAIRS = re.compile(r'<property name="([^"]*+)" value="([^"]*+)"/>')
_SUITE_END, _FILE_END = "\t</testsuite>\n", "</testsuites>\n"
_ENTITY = re.compile("&([^;&]*);?")
_CHARACTERS = {"amp;": "&", "lt;": "<", "gt;": ">", "quot;": '"', "#9;": "\t", "#10;": "\n"}
_SPACES = str.maketrans("\t\n", "  ")  # how XML reads them in an attribute
# The bytes of characters that XML does not have, and of a carriage return, which it reads as a new line.
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n")
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
_OUTCOMES = {  # by the element of the result
    None: ("pass",),
    "failure": ("fail",),
    "error": ("error",),
    "skipped": ("unavailable", "excluded", "missing"),
}
_OWN = ("case", "outcome", "action", "stage", "attempts")
_DEPTH, _MARGIN = 6, 2  # the elements inside one another; how often less than the bounds is surely inside them


class OtherFormError(Exception):
    """The file has another form, or is near a bound."""


def read(data: bytes, bounds: Bounds) -> Batch:
    """Return the results of a file that the harness has written.

    Raises:
        OtherFormError: it has another form. The XML parser must read it.
    """
    if bounds.depth < _DEPTH or len(data.translate(None, _CONTROL)) != len(data):
        raise OtherFormError
    if any(character in data for character in _NO_CHARACTERS):
        raise OtherFormError
    try:
        text = data.decode()
        return _read(text, bounds)
    except (UnicodeDecodeError, ValueError):
        raise OtherFormError from None


def _read(text: str, bounds: Bounds) -> Batch:
    builder = BatchBuilder()
    match = _HEADER.match(text)
    if match is None:
        raise OtherFormError
    cases, place = 0, match.end()
    while suite := _SUITE.match(text, place):
        names, values = _properties(suite[1], 3, bounds)
        facts = dict(zip(names, values, strict=True))
        if "job" not in facts:  # the records of other tools are wanted as they are
            raise OtherFormError
        number = builder.add_job(facts)
        place = suite.end()
        while case := _CASE.match(text, place):
            _add(builder, number, case, bounds)
            cases, place = cases + 1, case.end()
        if place == suite.end() or not text.startswith(_SUITE_END, place):
            raise OtherFormError
        place += len(_SUITE_END)
    if text[place:] != _FILE_END or cases > bounds.cases:
        raise OtherFormError
    return builder.batch


@dataclass(frozen=True)
class _Form:
    """The places of a case's properties by their names: first its own, then its facts, then its metrics."""

    own: dict[str, int]
    facts: tuple[str, ...]
    metrics: tuple[str, ...]


@lru_cache(maxsize=4096)
def _form(names: tuple[str, ...]) -> _Form:
    """Return the form of a case by the names of its properties. Most cases share one of a few forms."""
    facts = tuple(name[5:] for name in names if name.startswith("fact."))
    metrics = tuple(name[7:] for name in names if name.startswith("metric."))
    own = {name: place for place, name in enumerate(names) if name in _OWN}
    ordered = (*own, *(f"fact.{name}" for name in facts), *(f"metric.{name}" for name in metrics))
    if ordered != names or len({*names}) != len(names) or not own.keys() >= {"case", "outcome"}:
        raise OtherFormError
    return _Form(own, facts, metrics)


def _add(builder: BatchBuilder, suite: int, match: re.Match[str], bounds: Bounds) -> None:
    """Add a test case."""
    seconds, block, element, message, detail = match.groups()
    if match.end() - match.start() > bounds.text:
        raise OtherFormError
    names, texts = _properties(block, 4, bounds)
    form = _form(names)
    own = {name: texts[place] for name, place in form.own.items()}
    if own["outcome"] not in _OUTCOMES[element]:
        raise OtherFormError
    first = len(form.own) + len(form.facts)
    values = [*map(float, texts[first:])]
    if not math.isfinite(sum(values)):
        _check_finite(form.metrics, values)
    builder.add(
        suite,
        (
            *(own["case"], own["outcome"], own.get("action", ""), own.get("stage", "")),
            *(_attribute(message or ""), _unescaped(detail or "").strip(), float(seconds)),
            [part for part in own.get("attempts", "").split(",") if part],
        ),
        [*zip(form.facts, texts[len(form.own) : first], strict=True)],
        form.metrics,
        values,
    )


def _properties(block: str, tabs: int, bounds: Bounds) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the values of some properties; ``tabs`` stand before each."""
    pairs = _PAIRS.findall(block)
    if _MARGIN * len(pairs) > bounds.properties or len(block) > bounds.text:
        raise OtherFormError
    if "&" in block or block.count("\n") != len(pairs) or block.count("\t") != tabs * len(pairs):
        pairs = [(_attribute(name), _attribute(value)) for name, value in pairs]
    names, values = zip(*pairs, strict=True)
    return names, values


def _attribute(text: str) -> str:
    """Return the value of an attribute as XML reads it."""
    return _unescaped(text.translate(_SPACES))


def _unescaped(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    if (character := _CHARACTERS.get(match[0][1:])) is None:
        raise OtherFormError
    return character


def _check_finite(names: Sequence[str], values: Sequence[float]) -> None:
    try:
        check_figures([Record("", "pass", metrics=dict(zip(names, values, strict=True)))])
    except RefusedError:
        raise OtherFormError from None
