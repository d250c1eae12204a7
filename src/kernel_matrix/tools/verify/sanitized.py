"""Run a right candidate under NVIDIA's compute-sanitizer on the card that is here, in the sandbox.

The logs come from processes beside the candidate: they can make a verdict redder, and no wrong candidate right.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.job.kernel_process import KernelProcessError
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.tools.verify.inside.confine import LOOSE, NO_FILTER
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.task import Case, Task
from kernel_matrix.tools.verify.verdict import NOTHING

_SIDE = "kernel_matrix.tools.verify.inside.recorded:sanitized"
_SECONDS = 120.0  # of one tool
_CASES, _BYTES = 4, 16 << 20  # of inputs: a tool makes a launch a hundred times as slow
_END = "SUMMARY: "  # in the last line about a process that was watched
_ENVIRONMENT = {**tools.ENVIRONMENT, "CUDA_LAUNCH_BLOCKING": "1"}


@dataclass(frozen=True)
class Wanted:
    """The tools to run, and the program; ``without`` says why none runs."""

    names: tuple[str, ...] = ()
    path: str = ""
    without: str = ""

    @property
    def readable(self) -> list[str]:
        """The folders that a candidate's process has to read for them: that of the program, and of what it starts."""
        programs = [Path(self.path), Path(self.path).resolve()] if self.path else []
        folders = [path for one in programs for path in (one.parent, one.parent.parent / tools.PROGRAM)]
        return [str(path) for path in folders if path.is_dir()]


NONE = Wanted()


@dataclass
class Found:
    """The answers: what is red, what was not tried, and what a reader should know."""

    red: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def wanted(options: argparse.Namespace, device: str) -> Wanted:
    """Return the tools that the options ask for: all of them for one candidate on a card.

    Raises:
        UserError: the named ones cannot run here.
    """
    asked = options.sanitize
    if NOTHING in (asked or ()) or (asked is None and (options.quick or options.jsonl is not None or device == "cpu")):
        return NONE
    if device == "cpu":
        raise UserError("--sanitize: compute-sanitizer looks at kernels on an NVIDIA GPU, and none is used here.")
    try:
        return Wanted(tuple(asked or tools.OF_NVIDIA), tools.program())
    except UserError as error:
        if asked:
            raise
        return Wanted(without=str(error))


def looked_at(server: Server, task: Task, source: str, cases: Sequence[Case], want: Wanted) -> Found:
    """Run the candidate under each tool, and say what came of it."""
    found = Found()
    if want.without:
        found.not_tried.append(f"sanitizers: {want.without}")
    if not want.names:
        return found
    try:
        loose = _loose(server, want)
    except KernelProcessError as error:
        found.not_tried.append(f"sanitizers: compute-sanitizer does not begin in the sandbox ({error.text})")
        return found
    chosen = list(_chosen(cases))
    logs = _logs(server, task, (source, task.entry), chosen, want, want.names, loose)
    named = {name: tools.findings_in(name, log) for name, (_, log) in logs.items()}
    red = [name for name, texts in named.items() if texts]
    known = _of_reference(server, task, chosen, want, red, loose) if red and task.plain else set()
    for name, texts in named.items():
        status, log = logs[name]
        for text in texts:
            (found.notes if _kind(name, text) in known else found.red).append(_sentence(name, text, known))
        if not texts:
            whole = _END in log
            (found.notes if whole else found.not_tried).append(f"{name}: {'found nothing' if whole else status}")
    if loose:
        found.notes.append(f"for the sanitizers the sandbox was without {LOOSE[loose]}")
    return found


def _kind(name: str, text: str) -> tuple[str, str, str]:
    return name, tools.place(name, text).kernel, text.partition("\n")[0]


def _sentence(name: str, text: str, known: set[tuple[str, str, str]]) -> str:
    _, kernel, first = _kind(name, text)
    told = f"{name}: {first.strip('= ')} in {kernel or 'a kernel without a name'}"
    return f"{told}: the reference does it too" if _kind(name, text) in known else told


def _chosen(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield a few cases of other sizes: at a multiple of a block, nothing lies behind an end."""
    seen: list[list[tuple[int, ...]]] = []
    for case in cases:
        shapes = [one.shape for one in case.values.values()]
        small = sum(math.prod(one.shape) * one.itemsize for one in case.values.values()) <= _BYTES
        if shapes not in seen and small and len(seen) < _CASES:
            seen.append(shapes)
            yield case


def _of_reference(
    server: Server, task: Task, cases: Sequence[Case], want: Wanted, names: Sequence[str], loose: int
) -> set[tuple[str, str, str]]:
    """Return what the tools find in the reference, which runs PyTorch's own kernels."""
    assert task.plain is not None
    logs = _logs(server, task, task.plain, cases, want, names, loose)
    return {_kind(name, text) for name, (_, log) in logs.items() for text in tools.findings_in(name, log)}


@functools.lru_cache(maxsize=1)
def _loose(server: Server, want: Wanted) -> int:
    """Return how loose the sandbox has to be for the program; what is tried with is no candidate.

    Raises:
        KernelProcessError: it begins in none.
    """
    words = {"commands": {"memcheck": tools.command(want.path, "memcheck", "{log}")}, "surroundings": _ENVIRONMENT}
    told = ""
    for loose in range(server.loose, NO_FILTER + 1):
        with server.process({"loose": loose}) as process:
            process.patience(_SECONDS, _SECONDS)
            ended, files = process.call(_SIDE, {}, {**words, "calls": [], "seconds": _SECONDS})
        log = files["memcheck"].tobytes().decode(errors="replace")
        if _END in log:
            return loose
        told = f"{ended['memcheck']}; {' '.join(log.split())[-200:]}"
    raise KernelProcessError(told, "", "import")


def _logs(
    server: Server,
    task: Task,
    program: tuple[str, str],
    cases: Sequence[Case],
    want: Wanted,
    names: Sequence[str],
    loose: int,
) -> dict[str, tuple[str, str]]:
    """Return, for each tool, how it ended and what it wrote."""
    source, entry = program
    told = {"source": source, "entry": entry, "modules": dict(task.modules)}
    calls: list[dict[str, Any]] = [
        {**told, "call": one.call, "seed": one.seed, "build": one.build, "grad": bool(one.operator.differentiable)}
        for one in cases
    ]
    arrays = {f"{n} {key}": one for n, case in enumerate(cases) for key, one in case.values.items()}
    arrays |= {f"{n} state {key}": one for n, case in enumerate(cases) for key, one in case.state.items()}
    commands = {name: tools.command(want.path, name, "{log}") for name in names}
    words = {"commands": commands, "surroundings": _ENVIRONMENT, "calls": calls, "seconds": _SECONDS}
    try:
        with server.process({"loose": loose}) as process:
            process.patience(_SECONDS * len(names), _SECONDS)
            ended, files = process.call(_SIDE, arrays, words)
        return {n: (str(ended[n])[:200], files[n].tobytes().decode(errors="replace")) for n in names}
    except (KernelProcessError, KeyError, TypeError) as error:
        return dict.fromkeys(names, (f"no answer: {str(error)[:160]}", ""))
