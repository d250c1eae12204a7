"""The reason of an error in one line: its whole message, what it was raised from, and what a group of errors holds."""

from __future__ import annotations

import re

MOST = 600  # characters of a reason on a terminal
CUT = "…"  # ends a text that is cut
_BEFORE = re.compile(
    r"\n+(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n+"
)
_CAPTURED = re.compile(r"^-+ Captured .+ -+$", re.MULTILINE)  # below it is what the test printed
_RAISED = re.compile(r"(?:^E(?:  .*)?(?:\n|\Z))+", re.MULTILINE)  # of pytest: the text of an exception
_NAMED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit)\b(?::.*)?$", re.MULTILINE)
_TRACED = re.compile(
    r"^ +\S.*\n(\S.*(?:\n(?!\n|Traceback |-{5,}|The above exc|During hand).+)*)", re.MULTILINE
)  # of Python
_GROUP = re.compile(r"^[ |]*\+-\+?-{5,} 1 -{5,}\n", re.MULTILINE)  # of Python: the first error of a group
_MARGIN = re.compile(r"^ *(?:[|+] ?)+", re.MULTILINE)
_INNER = re.compile(r"^([A-Za-z_][\w.]*(?::.*)?)$", re.MULTILINE)


def folded(text: str) -> str:
    """Return the lines of a text in one line."""
    return " ".join(text.split())


def whole_reason(message: str, detail: str) -> str:
    """Return the message in one line; behind it the first error of a group, and the error that a chain began with."""
    reason, shown = folded(message), _CAPTURED.split(detail)[0]
    for word, text in (("first of them", _first_of_group(shown)), ("after", _first_of_chain(shown))):
        if text and text not in reason:
            reason = f"{reason} ({word}: {text})"
    return reason


def cut(text: str, most: int = MOST) -> str:
    """Return a text of at most so many characters; a mark ends it where it was longer."""
    return text if len(text) <= most else f"{text[: most - len(CUT)].rstrip()}{CUT}"


def of_exception(text: str, line: str) -> str:
    """Return the whole text of an exception that a line begins, in one line; else the line itself.

    Where it ends is known in what pytest shows, and at the end of a traceback of Python.
    """
    shown = [re.sub(r"^E", "", raised, flags=re.MULTILINE) for raised in _RAISED.findall(text)]
    shown += [match[1] for match in _TRACED.finditer(ungrouped(text))]
    return next((whole for whole in map(folded, reversed(shown)) if whole.startswith(folded(line))), line)


def ungrouped(text: str) -> str:
    """Return a text without the margins in which Python shows the errors of a group."""
    return _MARGIN.sub("", text) if "Exception Group Traceback" in text else text


def _first_of_group(detail: str) -> str:
    """Return the first error of a group that is none itself."""
    for place in _GROUP.finditer(detail):
        inner = _MARGIN.sub("", re.split(r"^[ |]*\+-{5,}", detail[place.end() :], maxsplit=1, flags=re.MULTILINE)[0])
        named = [match for match in _INNER.finditer(inner) if "Traceback (most recent" not in match[1]]
        if named and "sub-exception" not in named[-1][1]:
            return folded(inner[named[-1].start() :])
    return ""


def _first_of_chain(detail: str) -> str:
    """Return the error that a chain began with."""
    first, *others = _BEFORE.split(detail)
    if not others:
        return ""
    if raised := _RAISED.findall(first):
        return folded(re.sub(r"^E", "", raised[-1], flags=re.MULTILINE))
    named = [*_NAMED.finditer(first)]
    return folded(first[named[-1].start() :]) if named else ""
