"""The questions about a GPU that the stand-in could not answer, and what it has answered without knowing."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NoReturn

UNANSWERED: Counter[str] = Counter()
ASSUMED: Counter[str] = Counter()
_OWN = str(Path(__file__).parents[1])


class NoAnswerError(RuntimeError):
    """A program asked something that only a GPU can answer."""


def refuse(question: str) -> NoReturn:
    """Write a question down with the place that asks, and raise an error.

    Raises:
        NoAnswerError: always.
    """
    UNANSWERED[f"{question} ({asking()})"] += 1
    raise NoAnswerError(f"{question}: no GPU is here, and the stand-in for one cannot answer this")


def assume(answer: str) -> None:
    """Write down what the stand-in has answered without knowing it."""
    ASSUMED[answer] += 1


def asking() -> str:
    """Return the place in the program that asks: the nearest that is neither this recorder nor torch nor triton."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return f"{'/'.join(path.parts[-2:])}:{frame.f_lineno}"


def _is_inner(file: str) -> bool:
    return file.startswith((_OWN, "<")) or "/site-packages/torch/" in file or "/site-packages/triton/" in file


class StandIn:
    """An object with known attributes. A question for another one is written down, and is an AttributeError.

    ``label`` is the name that the object has in such questions.
    """

    def __init__(self, label: str, /, **attributes: object) -> None:
        self.__dict__.update(attributes, _label=label)

    def __getattr__(self, attribute: str) -> NoReturn:
        question = f"{self.__dict__.get('_label', 'stand-in')}.{attribute}"
        if not attribute.startswith("__"):
            UNANSWERED[f"{question} ({asking()})"] += 1
        raise AttributeError(f"{question}: no GPU is here, and the stand-in for one does not have this")
