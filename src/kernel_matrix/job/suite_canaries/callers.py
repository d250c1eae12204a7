"""Tell which line of the suite asks a comparison. What libraries and the package compare for themselves has none.

The suite's own code is the test's file, what lies in the suite's folder, a ``conftest.py``, and outside of libraries a
module whose name says that it is for tests. Where tests lie beside packages, these are not the suite's. A library is
asked for the suite where it is for tests itself, or where it only calls the function that it was handed.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from kernel_matrix.job.suite_canaries.source import line_of
from kernel_matrix.job.suite_canaries.uses import Use, Uses

_HERE = f"{Path(__file__).parent}/"
_HARNESS = f"{Path(__file__).parents[2]}/"  # compares for itself
_STANDARD = f"{Path(contextlib.__file__).parent}/"  # compares no arrays, and calls what it was handed
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_FOR_TESTS = {"test", "tests", "testing", "asserts", "assertions"}  # words of a module's name
_ASSERTS = "assert"  # how the name of a function begins that is for tests
_CHECKS = (_ASSERTS, "check", "compare", "verify", "validate", "expect")  # the same, where it raises
_RUNS = ("hypothesis.core", "hypothesis.stateful")  # call tests; all other code of Hypothesis draws, or assumes


class Callers:
    """Know the code of a suite, and the test of it that runs."""

    def __init__(self, root: Path, suite: Path | None = None) -> None:
        """Name lines by their files below ``root``. ``suite`` is the folder of the suite, if it is known."""
        self.root, self.known = f"{root}/", suite
        self.file = self.test = ""  # of the test that runs
        self.suite = f"{suite}/" if suite else ""
        self.mixed = False  # whether packages lie in the suite's folder, too
        self._uses = Uses()
        self._places: set[tuple[int, int]] = set()

    def begin(self, file: str, test: str) -> None:
        """Begin with another test, a function of that file."""
        self.file, self.test = file, test
        self._places.clear()
        folder = self.known or self._folder(Path(file))
        self.suite = f"{folder}/"
        self.mixed = not _is_for_tests(folder.name) and (not self.known or self.suite == self.root)

    def _folder(self, file: Path) -> Path:
        """Return the highest folder of a test that is one of tests by its name; the folder of its file without one."""
        below = [folder for folder in file.parents if str(folder).startswith(self.root)]
        return next((folder for folder in reversed(below) if _is_for_tests(folder.name)), file.parent)

    def is_again(self) -> bool:
        """Return whether the same place of the code was here before in the test that runs."""
        frame = _nearest()
        place = (id(frame.f_code), frame.f_lasti) if frame else (0, 0)
        again = place in self._places
        self._places.add(place)
        return again

    def line(self, watched: Sequence[Any], *, asserts: bool, each: bool = False) -> str:
        """Return the line that compares, and the test's own line where that is in another file; empty for no line.

        ``watched`` are the function that is called, and what stands around it. It may answer for ``each`` element. The
        test itself stands for the line where it handed the function to a thread, or to pytest.
        """
        frames = self._frames()
        first = next((n for n, frame in enumerate(frames) if self._is_suites(frame)), len(frames))
        between, own = frames[:first], frames[first:]
        if not each and (not frames or (asserts and not own and _module(frames[0]).startswith("_pytest."))):
            return f"{self.file.removeprefix(self.root)}:{line_of(self.file, self.test)}"
        if (
            not own
            or (each and between)
            or (between and not (_ask_for_tests(between, asserts=asserts) or _handed(between, watched)))
        ):
            return ""
        answers = not asserts and not between and not _is_text()
        called = getattr(watched[0], "__name__", "") if watched and not between else ""
        if self._decides(own, called, raises=asserts, answers=answers, each=each):
            return ""
        nearest = self._at(own[0])
        of_test = next((self._at(frame) for frame in own if frame.f_code.co_filename == self.file), "")
        return nearest if of_test in ("", nearest) else f"{nearest}, called at {of_test}"

    def _frames(self) -> list[FrameType]:
        """Return the frames that call, from the nearest one to what calls the test, or to the last."""
        frames: list[FrameType] = []
        for frame in _callers():
            frames.append(frame)
            if len(frames) > 1 and self._is_test(frames[-2]):
                break
        return frames

    def _is_test(self, frame: FrameType) -> bool:
        return frame.f_code.co_name == self.test and frame.f_code.co_filename == self.file

    def _at(self, frame: FrameType) -> str:
        return f"{frame.f_code.co_filename.removeprefix(self.root)}:{frame.f_lineno}"

    def _is_suites(self, frame: FrameType) -> bool:
        path = frame.f_code.co_filename
        if path == self.file:
            return True
        if any(part in path for part in _LIBRARIES):
            return any(part in self.suite for part in _LIBRARIES) and path.startswith(self.suite)
        if path.startswith(_HARNESS):
            return False
        named = path.endswith("/conftest.py") or _is_for_tests(_module(frame))
        return named or (path.startswith(self.suite) and not (self.mixed and _is_packaged(path)))

    def _decides(self, frames: Sequence[FrameType], called: str, *, raises: bool, answers: bool, each: bool) -> bool:
        """Return whether what the comparison says can only decide what goes on, and makes no test red.

        It ``raises``, which code further out may catch; or it ``answers``, which is followed as long as functions
        return it.
        """
        for n, frame in enumerate(frames):
            module = _module(frame)
            if module.startswith("hypothesis."):
                return not module.startswith(_RUNS)
            is_test, use = self._is_test(frame), Use.KEPT
            if not self._is_suites(frame):
                answers = False
            elif raises or answers:
                use = self._uses.of(frame, answers=answers, is_test=is_test, called=called, each=each and not n)
                called = frame.f_code.co_name
                raises, answers = use is Use.ASSERTED, use is Use.RETURNED
            if use is Use.DECIDES or is_test:  # pytest makes nothing of what a test returns
                of_pytest = any(_module(one).startswith("_pytest.") for one in frames[n + 1 : n + 2])
                return use is Use.DECIDES or (use is Use.RETURNED and of_pytest)
        return False


def _callers() -> Iterator[FrameType]:
    """Yield the frames that call, from the nearest one; none of the standard library, nor of code without a file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        standard = path.startswith(_STANDARD) and not any(part in path for part in _LIBRARIES)
        if not standard and not path.startswith((_HERE, "<")):
            yield frame
        frame = frame.f_back


def _is_text() -> bool:
    """Return whether code without a file calls, as that of ``exec`` is: what becomes of an answer is not known."""
    frame = _nearest()
    return frame is not None and frame.f_code.co_filename.startswith("<")


def _nearest() -> FrameType | None:
    """Return the frame that calls a function that is watched."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


@functools.lru_cache(maxsize=1024)
def _is_for_tests(name: str) -> bool:
    return not _FOR_TESTS.isdisjoint(re.split(r"[._\W]+", name.lower()))


@functools.lru_cache(maxsize=1024)
def _is_packaged(file: str) -> bool:
    return Path(file).with_name("__init__.py").is_file()


def _ask_for_tests(between: Sequence[FrameType], *, asserts: bool) -> bool:
    """Return whether the code that compares is for tests, and the code that the suite calls is so too."""
    starts = _CHECKS if asserts else _ASSERTS
    return all(
        _is_for_tests(_module(frame))
        or (_may_be_for_tests(frame) and frame.f_code.co_name.lstrip("_").lower().startswith(starts))
        for frame in (between[0], between[-1])
    )


def _may_be_for_tests(frame: FrameType) -> bool:
    """Return whether the name of its function can say so: it is a library's, or in no package. No other is tested."""
    path = frame.f_code.co_filename
    return any(part in path for part in _LIBRARIES) or not _is_packaged(path)


def _handed(between: Sequence[FrameType], watched: Sequence[Any]) -> bool:
    """Return whether code between the suite and the comparison has the function as an argument."""
    return any(any(value is one for one in watched) for frame in between for value in _arguments(frame))


def _arguments(frame: FrameType) -> Iterator[Any]:
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    for name in (*code.co_varnames[:count], *code.co_freevars):
        value = values.get(name)
        yield from value if isinstance(value, tuple) else (value,)
