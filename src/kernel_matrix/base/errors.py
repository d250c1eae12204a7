"""The error that a user reads, the hints that it gives, and the faults that pydantic finds, in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pydantic takes long to import
    from pydantic import ValidationError

_LONGEST_LIST = 300  # a plan has thousands of names
_MOST_WORDS = 3


class UserError(Exception):
    """An error in what the user gave. Its message says where, what, and what to do; the exit status is 2."""

    exit_code = 2


def unknown(where: str, kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that does not exist, with the closest known name.

    ``unknown("--toolchain", "toolchain", "op-1", ["op-2"])`` says
    ``--toolchain op-1: there is no such toolchain. Did you mean 'op-2'?``; ``where`` may be empty.
    """
    place = f"{where} {name}".strip()
    return UserError(f"{place}: there is no such {kind}.{did_you_mean(name, known)}")


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, in one line, without the number and the path that Python adds."""
    text = getattr(error, "strerror", None) or str(error)
    return (text.splitlines() or [type(error).__name__])[0]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'runner'?`` for the words that begin so, else the closest, else a list of the words."""
    words = sorted(set(known))
    close = [one for one in words if word and one.startswith(word)] or difflib.get_close_matches(word, words, n=1)
    if close:
        return " Did you mean '" + "' or '".join(close[:_MOST_WORDS]) + "'?"
    listed = ", ".join(words)
    if len(listed) > _LONGEST_LIST:
        listed = listed[:_LONGEST_LIST].rpartition(", ")[0]
        listed += f" and {len(words) - listed.count(', ') - 1} more"
    return f" There are: {listed}." if words else ""


def first_fault(error: ValidationError) -> str:
    """Return the first fault, after the place where it is: ``rows.0.id: Field required``."""
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg']}"
