"""The words of other tools in JUnit XML: how a test ended, which attempt it was, and what a suite's numbers count.

The schema of JUnit XML has no word for most of this, so each tool has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernel_matrix.job.skips import is_asked_of_ctest, is_of_runner
from kernel_matrix.store.record import WORST_FIRST, Record

# The elements of a result, from the best to the worst: of several the worst counts. A test that failed again when it
# was run again has failed, with or without an element that says so once more.
ELEMENTS = {"skipped": "skipped", "rerunError": "error", "error": "error", "rerunFailure": "failure",
            "failure": "failure"}  # fmt: skip
WORST_LAST = ("skipped", "error", "failure")
FLAKY = {"flakyFailure": "fail", "flakyError": "error"}  # an earlier attempt of a test that has passed
COUNTS_OF_SKIPPED = ("skipped", "disabled", "ignored")
# How a test ended, in the attributes of tools that leave out the element.
_ENDS = {
    "skipped": ("notrun", "disabled", "skip", "skipped", "ignored", "suppressed", "pending", "excluded", "filtered"),
    "failure": ("fail", "failed", "failure", "failing", "notok"),
    "error": ("error", "errored", "crash", "crashed", "timeout", "timedout", "abort", "aborted", "killed", "broken",
              "interrupted", "cancelled", "canceled", "lost", "incomplete"),
}  # fmt: skip
_END = {word: element for element, words in _ENDS.items() for word in words}
_TAGGED = "TEST_CASE tagged with !mayfail"  # Catch2, beside the failure that a test may have
_OWN_SKIPS = ("pytest.skip", "pytest.xfail", "SKIP")  # the types of skips that only a test itself can ask for
_ATTEMPT = re.compile(r"(retry|rerun|attempt)(?P<of_all>count|number|index)?|(?P<perhaps>retries|reruns|attempts)")
_SOURCE_FILE = re.compile(r"\.(c|cc|cpp|cxx|cu|hip|h|hh|hpp|hxx|inl|ipp|m|mm|cppm|ixx)$")
_MANY_ATTEMPTS = 100
Attempt = tuple[int, int]  # the number of an attempt as its tool counts, and how many there were before it
Result = tuple[Attempt | None, Record]  # the attempt, if the file says which


def may_fail(messages: Sequence[str]) -> bool:
    """Return whether a test says beside its failures that it may have them."""
    return _TAGGED in messages


def end_of(attributes: Mapping[str, str]) -> str:
    """Return the element that the attributes of a test stand for; empty if they say that it ran."""
    words = (re.sub(r"[ _-]", "", attributes.get(name, "").lower()) for name in ("status", "result", "outcome"))
    return max((_END.get(word, "") for word in words), key=("", *WORST_LAST).index)


def end_of_skipped(attributes: Mapping[str, str], kind: str, reason: str) -> str:
    """Return ``skipped`` if a test was skipped by its own word, and ``error`` if its runner could not run it.

    Args:
        attributes: of the test.
        kind: the type of the skip.
        reason: why, in all words that the file has.
    """
    of_google = attributes.get("result") in ("skipped", "suppressed")  # GoogleTest skips nothing by itself
    if kind in _OWN_SKIPS or of_google or not reason:
        return "skipped"
    if attributes.get("status") == "notrun":
        return "skipped" if is_asked_of_ctest(reason) else "error"
    return "error" if is_of_runner(reason) else "skipped"


def attempt(name: str, value: str) -> Attempt | None:
    """Return which attempt a test is by an attribute or a property; None if that says nothing of attempts."""
    match = _ATTEMPT.fullmatch(re.sub(r"[^a-z]", "", name.lower()))
    text = {"true": "1", "false": "0"}.get(value.lower(), value)
    if match is None or not (text.isascii() and text.isdecimal()) or len(text) > 4:
        return None
    number = int(text)
    before = 0 if match["perhaps"] else number - (match[1] == "attempt")  # "retries" may be how many are allowed
    return number, min(max(before, 0), _MANY_ATTEMPTS)


def lists_its_tests(suite: Mapping[str, str], root: Mapping[str, str], *, is_doctest: bool) -> bool:
    """Return whether the number ``tests`` of a suite is the number of tests that its tool lists.

    pytest counts the subtests that pass, too, and lists none of them; Catch2 and doctest count assertions.

    Args:
        suite: its attributes.
        root: the attributes of the element around all suites.
        is_doctest: whether all of its tests look like tests of doctest.
    """
    is_doctest = is_doctest and suite.keys().isdisjoint(COUNTS_OF_SKIPPED)
    return not (is_pytest(suite, root) or suite.get("hostname") == "tbd" or is_doctest)


def is_doctest(test: Mapping[str, str]) -> bool:
    """Return whether a test looks like one of doctest: its class is a source file, and it was run."""
    is_file = _SOURCE_FILE.search(test.get("classname", "")) is not None
    return is_file and test.get("status") == "run" and test.keys().isdisjoint(("result", "duration"))


def is_pytest(suite: Mapping[str, str], root: Mapping[str, str]) -> bool:
    """Return whether pytest has written a suite."""
    return "hostname" in suite and (suite.get("name") == "pytest" or root.get("name") == "pytest tests")


def one_of(results: Sequence[Result], *, are_attempts: bool, names_once: bool) -> Record:
    """Return one record for all results of a suite that have one name.

    The worst counts. Only of attempts that the file tells apart, a pass counts after a failure.

    Args:
        results: in their order.
        are_attempts: whether they are attempts by the word of who gives the file.
        names_once: whether the tool gives each name to one test. What comes again is then an attempt, and an earlier
            one has failed, even if nothing in the file says so.
    """
    *earlier, last = _in_order(results, are_attempts) or [record for _, record in results]
    if not earlier:
        [(number, _)] = results
        untold = ("fail",) * (number[1] if number and last.outcome == "pass" and not last.attempts else 0)
        return replace(last, attempts=(*untold, *last.attempts))
    outcomes = [record.outcome for record in (*earlier, last)]
    if last.outcome == "pass" and _in_order(results, are_attempts):
        return replace(last, attempts=tuple(one for one in outcomes if one != "pass"))
    if names_once and set(outcomes) == {"pass"}:
        return replace(last, attempts=("fail",) * len(earlier))
    return _worst([record for _, record in results])


def _in_order(results: Sequence[Result], are_attempts: bool) -> list[Record]:
    """Return the records in the order of their attempts; nothing if the file does not say which is which."""
    # The first may be without a number, and one that knows of earlier failures comes after these.
    numbers = [number[0] if number else len(record.attempts) for number, record in results]
    if are_attempts or len(set(numbers)) < len(numbers):
        return [record for _, record in results] if are_attempts else []
    return [record for _, (_, record) in sorted(zip(numbers, results, strict=True), key=lambda pair: pair[0])]


def _worst(records: Sequence[Record]) -> Record:
    """Return the worst of several records of one name, with the words of all."""
    outcomes = [record.outcome for record in records]
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in WORST_FIRST if one in outcomes)
    by_worth = sorted(records, key=lambda record: WORST_FIRST.index(record.outcome))
    said = "; ".join(dict.fromkeys(record.message for record in by_worth if record.message))
    return replace(
        by_worth[0],
        message=f"{len(records)} results have this name ({counts}){': ' if said else ''}{said}",
        detail="\n".join(dict.fromkeys(record.detail for record in by_worth if record.detail)),
        seconds=sum(record.seconds for record in records),
        attempts=max((record.attempts for record in records), key=len),
    )
