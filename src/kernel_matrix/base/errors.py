"""The one error that a user is meant to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave cannot be used. The message says where, what, and what to do; the exit code is 2."""

    exit_code = 2


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'runner'?`` for the closest known word, or the list of all when none is close."""
    words = sorted(set(known))
    close = difflib.get_close_matches(word, words, n=1)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" There are: {', '.join(words)}." if words else ""
