"""The error that a user reads, the hints that it gives, and the faults that pydantic finds, in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pydantic takes long to import
    from pydantic import ValidationError

_LONGEST_HINT = 300  # a plan has thousands of names


class UserError(Exception):
    """An error in what the user gave. Its message says where, what, and what to do; the exit status is 2."""

    exit_code = 2


def unknown(where: str, kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that does not exist, with the closest known name.

    ``unknown("--toolchain", "toolchain", "op-1", ["op-2"])`` says
    ``--toolchain op-1: there is no such toolchain. Did you mean 'op-2'?``; ``where`` may be empty.
    """
    place = f"{where} {name}".strip()
    return UserError(f"{place}: there is no such {kind}.{did_you_mean(name, known)[:_LONGEST_HINT]}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'runner'?`` for the closest known word, or the list of all words when none is close."""
    words = sorted(set(known))
    close = difflib.get_close_matches(word, words, n=1)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" There are: {', '.join(words)}." if words else ""


def first_fault(error: ValidationError) -> str:
    """Return the first fault, after the place where it is: ``rows.0.id: Field required``."""
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg']}"
