"""The unusual values that a case of the fuzzer has in place of its usual ones. It needs NumPy alone.

A rule is ``TENSOR=KIND@PLACE``, such as ``x=denormal@last``; several are joined by ``+``, and a case without one is
``plain``. The rules and the values as the suite draws them determine the result, on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
PLAIN = "plain"
DRAWN = "fuzz.drawn"  # the fact of a case that names the tensors which it has drawn


def _spread(values: Values) -> Values:
    """Return values of the same signs, whose magnitudes are powers of two from 2^-28 to 2^28."""
    return np.where(values < 0, -1.0, 1.0) * 2.0 ** np.clip(np.round(8 * values), -28, 28)


# The first kinds are the simplest: the search shrinks towards them.
KINDS: dict[str, Callable[[Values], Values]] = {
    "zero": lambda values: np.zeros_like(values),
    "negative_zero": lambda values: np.full_like(values, -0.0),
    "ones": lambda values: np.ones_like(values),
    "equal": lambda values: np.full_like(values, values.flat[0]),
    "signs": lambda values: np.where(values < 0, -1.0, 1.0),
    "negative": lambda values: -np.abs(values),
    "integers": lambda values: np.round(4 * values),
    "large": lambda values: values * 2.0**10,
    "huge": lambda values: values * 2.0**40,
    "tiny": lambda values: values * 2.0**-60,
    "denormal": lambda values: np.round(values * 2.0**9) * 2.0**-149,  # below the least normal number of fp32
    "spread": _spread,
    "infinite": lambda values: np.where(values < 0, -np.inf, np.inf),
    "nan": lambda values: np.full_like(values, np.nan),
}
NOT_FINITE = ("infinite", "nan")  # tried only where matrix.yaml says that the operator takes them
PLACES = ("all", "first", "last", "one")


@dataclass(frozen=True)
class Rule:
    """One tensor's unusual values; ``place`` says where: everywhere, in the first or last row, or in one element."""

    tensor: str
    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.tensor}={self.kind}@{self.place}"

    def change(self, values: Values) -> None:
        """Put the unusual values in."""
        if not values.size:
            return
        chosen = {
            "all": values,
            "first": values[:1],
            "last": values[-1:],
            "one": values.reshape(-1)[values.size * 2 // 3 :][:1],
        }[self.place]
        chosen[...] = KINDS[self.kind](chosen.copy())


def read(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text.

    Raises:
        ValueError: it is no such text; the message says why.
    """
    if text == PLAIN:
        return ()
    rules = []
    for word in text.split("+"):
        tensor, _, rest = word.partition("=")
        kind, _, place = rest.partition("@")
        if not tensor or kind not in KINDS or place not in PLACES:
            raise ValueError(
                f"{word!r} is no rule TENSOR=KIND@PLACE; kinds: {', '.join(KINDS)}; places: {', '.join(PLACES)}"
            )
        rules.append(Rule(tensor, kind, place))
    return tuple(rules)


def write(rules: tuple[Rule, ...]) -> str:
    """Return the text of rules."""
    return "+".join(map(str, rules)) or PLAIN
