"""Ask the index whether a lock can be installed, for each kind of build and Python. Only metadata is fetched."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.utils import canonicalize_name

from kernel_matrix.adopt.uv_compile import excludes, find_links, stand_ins
from kernel_matrix.config import locks
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors import builds

_ADDED = re.compile(r"^ \+ (\S+?)==(\S+)", re.MULTILINE)
_UNREACHED = re.compile(r"failed to fetch|request failed|dns error|connect|timed out", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """An index's answer about a lock for one Python; the fault is empty if all of it can be installed, and no more."""

    lock: Path
    kind: str
    python: str
    fault: str = ""
    stands_in: str = ""  # the index that did not answer, for which the table of builds stands in

    @property
    def is_unanswered(self) -> bool:
        """Return whether the fault is that nothing answered."""
        return bool(_UNREACHED.search(self.fault))


def ask(lock: Path, kind: str, python: str, machine: str) -> Answer:
    """Return whether the lock can be installed, and whether more would come in than it pins."""
    text = lock.read_text(encoding="utf-8")
    pins = locks.pins_in(text)
    version = pins.get(builds.distribution(), "")
    backend = builds.backend_of(kind, version) if version else ""
    stands_in = backend if backend and not answers(backend, machine) else ""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        variables: dict[str, str | None] = {"UV_TORCH_BACKEND": backend or None, **builds.variables_of(kind)}
        if stands_in:
            variables["UV_TORCH_BACKEND"] = None
            stand_ins(place, kind, version)
            named = rf"^({builds.distribution()}==[^\s;+]+)(\+\S+)?"
            text = re.sub(named, rf"\1+{backend}", text, flags=re.MULTILINE)
        (place / "lock.txt").write_text(text, encoding="utf-8")
        try:
            said = uv(
                *("pip", "install", "--dry-run", "--python", sys.executable, "--target", str(place / "target")),
                *("--python-version", python, "--python-platform", builds.platform_of(kind, machine)),
                *(excludes(place, kind) if builds.excluded(pins) else ()),
                *(*find_links(place, kind), "-r", str(place / "lock.txt")),
                variables=variables,
            )
        except InstallError as error:
            lines = " ".join(str(error).split("error:", 1)[-1].split())
            return Answer(lock, kind, python, lines[:600], stands_in)
    return Answer(lock, kind, python, _unpinned(said, pins), stands_in)


def _unpinned(said: str, pins: Collection[str]) -> str:
    """Return what would be installed and is not pinned."""
    found = [f"{name}=={version}" for name, version in _ADDED.findall(said) if canonicalize_name(name) not in pins]
    return f"it does not pin what comes in besides: {', '.join(found)}" if found else ""


@cache
def answers(backend: str, machine: str) -> bool:
    """Return whether the index of a kind of builds answers."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.in")
        wanted.write_text(f"{builds.distribution()}\n", encoding="utf-8")
        try:
            uv(
                *("pip", "compile", "--quiet", "--no-deps", "--no-header", "--python-platform", machine, str(wanted)),
                variables={"UV_TORCH_BACKEND": backend, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"},
            )
        except InstallError as error:
            return not _UNREACHED.search(str(error))
    return True


def in_words(answers: Sequence[Answer]) -> str:
    """Return a line about the answers for one lock: a yes, or the first fault with its Pythons."""
    first = answers[0]
    name = f"{first.lock.name} for {first.kind}"
    faults = dict.fromkeys(answer.fault for answer in answers if answer.fault)
    if not faults:
        return f"{name}: can be installed on Python {', '.join(answer.python for answer in answers)}"
    each = (
        f"Python {', '.join(answer.python for answer in answers if answer.fault == fault)}: {fault}" for fault in faults
    )
    return f"{name}: {'; '.join(each)}"
