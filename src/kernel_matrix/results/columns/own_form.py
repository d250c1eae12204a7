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

import numpy as np
import numpy.typing as npt

from kernel_matrix.results.columns.batch import Batch, BatchBuilder
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Bounds, RefusedError, check_figures

_VALUE = r'[^"<>]*+'
_PROPERTY = rf'\t<property name="{_VALUE}" value="{_VALUE}"/>\n'
_HEADER = re.compile(r'<\?xml version="1\.0" encoding="utf-8"\?>\n<testsuites name="kernel-matrix">\n')
_SUITE = re.compile(
    rf'\t<testsuite name="({_VALUE})" tests="\d+" errors="\d+" failures="\d+" skipped="\d+" time="[\d.]+">\n'
    rf"\t\t<properties>\n((?:\t\t{_PROPERTY})++)\t\t</properties>\n"
)
_PAIRS = re.compile(r'<property name="([^"]*+)" value="([^"]*+)"/>')
_SUITE_END, _FILE_END = "\t</testsuite>\n", "</testsuites>\n"
# The parts of a test case: its beginning with its properties, the element of its result if it has one, and its end.
_CASE_BEGIN, _CASE_END, _PROPERTIES_END = "\t\t<testcase name=", "\t\t</testcase>\n", "\t\t\t</properties>\n"
_RESULT = re.compile(
    rf'\t\t\t<(failure|error|skipped)(?: message="({_VALUE})")?(?: type="({_VALUE})")?(?:/>|>([^<>]*+)</\1>)\n'
)
_SECONDS = re.compile(r"[\d.]++(?:e[-+]\d+)?")
# The signs that a value must not hold, or that XML reads as a space there, and how many of each the parts around the
# values of a test case have: a fixed number, and more for each property.
_SIGNS, _OF_CASE, _OF_PROPERTY = b"<>\n\t", np.array((4, 4, 4, 10)), np.array((1, 1, 1, 4))
_ENTITY = re.compile("&([^;&]*);?")
_CHARACTERS = {"amp;": "&", "lt;": "<", "gt;": ">", "quot;": '"', "#9;": "\t", "#10;": "\n"}
_SPACES = str.maketrans("\t\n", "  ")  # how XML reads them in an attribute
_FIRST_PRINTED = (
    32  # the bytes before it are no characters of XML, but a tab and a new line; "\r" is read as the latter
)
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
_OUTCOMES = {  # by the element of the result
    None: ("pass",),
    "failure": ("fail",),
    "error": ("error",),
    "skipped": ("unavailable", "excluded", "missing"),
}
_OWN = ("case", "outcome", "action", "stage", "attempts")
_AT_ONCE = 2**16  # bytes whose signs are counted
_DEPTH, _MARGIN = 6, 2  # the elements inside one another; how often less than the bounds is surely inside them


class OtherFormError(Exception):
    """The file has another form, or is near a bound."""


def read(data: bytes, bounds: Bounds) -> Batch:
    """Return the results of a file that the harness has written.

    Raises:
        OtherFormError: it has another form. The XML parser must read it.
    """
    signs, unprinted = _counts(data)
    if bounds.depth < _DEPTH or unprinted != signs[2] + signs[3]:
        raise OtherFormError
    if not data.isascii() and any(character in data for character in _NO_CHARACTERS):
        raise OtherFormError
    try:
        reading = _Reading(data.decode(), bounds)
        reading.file()
    except (UnicodeDecodeError, ValueError):
        raise OtherFormError from None
    # The parts between the values are as they must be. So if a value held such a sign, the file would have more of it.
    if not np.array_equal(reading.signs, signs):
        raise OtherFormError
    return reading.builder.batch


def _counts(data: bytes) -> tuple[npt.NDArray[np.int64], int]:
    """Return the number of each sign, and that of all characters that are not printed."""
    counts = np.zeros(len(_SIGNS) + 1, np.int64)
    for first in range(0, len(data), _AT_ONCE):  # what fits into the caches is counted several times as fast
        codes = np.frombuffer(data, np.uint8, min(_AT_ONCE, len(data) - first), first)
        masks = (*(codes == sign for sign in _SIGNS), codes < _FIRST_PRINTED)
        counts += [np.count_nonzero(mask) for mask in masks]
    return counts[:-1], int(counts[-1])


class _Reading:
    """The results that were read so far, and the signs that stand between their values."""

    def __init__(self, text: str, bounds: Bounds) -> None:
        self._text, self._bounds = text, bounds
        self._cases = self._properties = 0
        self._rest: list[str] = []  # the parts that are no test case, and the results of those that have one
        self.builder = BatchBuilder()

    @property
    def signs(self) -> npt.NDArray[np.int64]:
        """The number of each sign."""
        rest = "".join(self._rest)
        of_rest = np.array([rest.count(chr(sign)) for sign in _SIGNS], np.int64)
        return np.asarray(of_rest + self._cases * _OF_CASE + self._properties * _OF_PROPERTY)

    def file(self) -> None:
        """Read the whole file.

        Raises:
            OtherFormError: it has another form.
        """
        text = self._text
        match = _HEADER.match(text)
        if match is None:
            raise OtherFormError
        self._rest.append(match[0])
        place = match.end()
        while suite := _SUITE.match(text, place):
            _check_unused(suite[1])
            names, values = _properties(suite[2], 3, self._bounds)
            facts = dict(zip(names, values, strict=True))
            if "job" not in facts:  # the records of other tools are wanted as they are
                raise OtherFormError
            end = self._suite(self.builder.add_job(facts), suite.end())
            if end == suite.end() or not text.startswith(_SUITE_END, end):
                raise OtherFormError
            self._rest += (suite[0], _SUITE_END)
            place = end + len(_SUITE_END)
        if text[place:] != _FILE_END or self._cases > self._bounds.cases:
            raise OtherFormError
        self._rest.append(_FILE_END)

    def _suite(self, number: int, place: int) -> int:
        """Read the test cases of a suite from a place on, and return the place after them."""
        text = self._text
        while text.startswith(_CASE_BEGIN, place):
            end = text.find(_CASE_END, place)
            if end < 0 or end - place > self._bounds.text:
                raise OtherFormError
            self._case(number, text[place:end])
            place = end + len(_CASE_END)
        return place

    def _case(self, suite: int, text: str) -> None:
        head, end_of_head, result = text.partition(_PROPERTIES_END)
        parts = head.split('"')  # what stands between the values, and the values
        count = len(parts) // 4 - 1
        if not end_of_head or _MARGIN * count > self._bounds.properties or parts[::2] != _between(count):
            raise OtherFormError
        self._cases, self._properties = self._cases + 1, self._properties + count
        names, texts, seconds = parts[7::4], parts[9::4], parts[5]
        if "&" in head:
            names, texts = [*map(_unescaped, names)], [*map(_unescaped, texts)]
            _check_unused(parts[1], parts[3])  # the case's name and class
        form = _form(tuple(names))
        first = form.facts_end
        values = [*map(float, texts[first:])]
        if not math.isfinite(sum(values)):
            _check_finite(form.metrics, values)
        texts.append("")  # stands for a property that the case does not have, at the place -1
        case, outcome, action, stage, attempts = map(texts.__getitem__, form.own)
        message, detail = self._result(result, outcome)
        if not _SECONDS.fullmatch(seconds):
            raise OtherFormError
        tries = [part for part in attempts.split(",") if part] if attempts else []
        own = (case, outcome, action, stage, message, detail, float(seconds), tries)
        self.builder.add(suite, own, (form.facts, texts[form.facts_begin : first]), form.metrics, values)

    def _result(self, text: str, outcome: str) -> tuple[str, str]:
        """Return the message and the detail of a result."""
        element = message = detail = None
        if text:
            match = _RESULT.fullmatch(text)
            if match is None:
                raise OtherFormError
            self._rest.append(text)
            element, message, kind, detail = match.groups()
            _check_unused(kind or "")
        if outcome not in _OUTCOMES[element]:
            raise OtherFormError
        return _attribute(message or ""), _unescaped(detail or "").strip()


@lru_cache(maxsize=4096)
def _between(properties: int) -> list[str]:
    """Return the parts that stand between the values of a test case with so many properties."""
    begin = [_CASE_BEGIN, " classname=", " time=", ">\n\t\t\t<properties>\n\t\t\t\t<property name="]
    return [*begin, *[" value=", "/>\n\t\t\t\t<property name="] * (properties - 1), " value=", "/>\n"]


@dataclass(frozen=True)
class _Form:
    """The places of a case's properties by their names: first its own, then its facts, then its metrics.

    ``own`` has those of ``_OWN``, and -1 where there is none.
    """

    own: tuple[int, ...]
    facts: tuple[str, ...]
    metrics: tuple[str, ...]
    facts_begin: int
    facts_end: int


@lru_cache(maxsize=4096)
def _form(names: tuple[str, ...]) -> _Form:
    """Return the form of a case by the names of its properties. Most cases share one of a few forms."""
    facts = tuple(name[5:] for name in names if name.startswith("fact."))
    metrics = tuple(name[7:] for name in names if name.startswith("metric."))
    own = {name: place for place, name in enumerate(names) if name in _OWN}
    ordered = (*own, *(f"fact.{name}" for name in facts), *(f"metric.{name}" for name in metrics))
    if ordered != names or len({*names}) != len(names) or not own.keys() >= {"case", "outcome"}:
        raise OtherFormError
    return _Form(tuple(own.get(name, -1) for name in _OWN), facts, metrics, len(own), len(own) + len(facts))


def _properties(block: str, tabs: int, bounds: Bounds) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the values of the properties of a suite; ``tabs`` stand before each."""
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


def _check_unused(*texts: str) -> None:
    """Check values that no record needs: they must be XML all the same."""
    for text in texts:
        _unescaped(text)


def _character(match: re.Match[str]) -> str:
    if (character := _CHARACTERS.get(match[0][1:])) is None:
        raise OtherFormError
    return character


def _check_finite(names: Sequence[str], values: Sequence[float]) -> None:
    try:
        check_figures([Record("", "pass", metrics=dict(zip(names, values, strict=True)))])
    except RefusedError:
        raise OtherFormError from None
