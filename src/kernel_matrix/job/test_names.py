"""Name the tests of a suite as operators and cases: a file is an operator, a test in it is a case.

The name of a test comes from whoever wrote it: it may have slashes, spaces, any letter of Unicode, and any length. The
name of a case is a part of an id with slashes, and stands in file names, in XML and on a page. So a test whose name
does not fit gets one that does, with a digest of the whole name at its end.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST = 120  # characters of a case's name
SUITE, COLLECTED = "suite", "collected"  # the operator and the case that stand for all tests of a lane
NOT_COLLECTED = "the suite has no such test here: it was not collected in this environment"
IMPORT = "import"  # the case of a file that does not import
SAME = "eager."  # and an output: the fact that plain code gives the very bits of the result
FAULTS = "faults"  # the fact that says how many parts of a test failed, where more than one did

_NOT_IN_AN_OP = re.compile(r"[^A-Za-z0-9._-]+")
_TIMED = "-timed"  # ends the name of a case that is timed

Key = tuple[str, str]  # the operator and the name of a case


def op_of(path: Path, suite: Path) -> str:
    """Return the operator of a test file: its path in the suite, with points for slashes, without its suffix."""
    inside = path.relative_to(suite) if path.is_relative_to(suite) else Path(path.name)
    return op_named(".".join(inside.with_suffix("").parts))


def op_named(plain: str) -> str:
    """Return the operator of a file or class of tests, which is ``plain`` itself where that fits."""
    plain = plain.replace("/", ".").replace("::", ".")
    name = _NOT_IN_AN_OP.sub("_", plain)
    if not name[:1].isalnum() or name == SUITE:
        name = f"file.{name}"
    return name if name in (plain, f"file.{plain}") and len(name) <= MOST else f"{name[:MOST]}-{_digest(plain)}"


def case_of(test: str) -> str:
    """Return the name of the case of a test, which is ``test`` itself where that fits."""
    plain = "".join(char if char.isprintable() and char not in " /\\" else "_" for char in test)
    if plain == test and 0 < len(test) <= MOST and not test.endswith(_TIMED) and test != IMPORT:
        return test
    return f"{plain[: MOST - 9]}~{_digest(test)}"


def keys_of(tests: Iterable[tuple[Path, str]], suite: Path) -> Iterator[Key]:
    """Yield the key of each test, given its file and its name there. A name that comes again gets a number."""
    return numbered((op_of(path, suite), case_of(test)) for path, test in tests)


def numbered(keys: Iterable[Key]) -> Iterator[Key]:
    """Yield the keys; one that comes again gets a number."""
    times: Counter[Key] = Counter()
    for key in keys:
        times[key] += 1
        yield key if times[key] == 1 else (key[0], f"{key[1]}~{times[key]}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
