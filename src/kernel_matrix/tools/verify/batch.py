"""Judge many candidates: one line in, one line out. A run that is killed goes on where it stopped."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.tools.verify import python
from kernel_matrix.tools.verify.verdict import HACK, RIGHT, UNDECIDED, UNUSABLE, WRONG, digest

_TASKS = 8  # that a worker keeps, with what is right for their inputs
_BYTES = 512 << 20  # of what is right, for all of them
_EVERY = 5.0  # seconds between two lines of progress
_TRIES = 2  # of a line whose judge ended

Line = dict[str, Any]


def batch(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Judge each line of a file, and return the exit status: 1 if one is red, 2 if one cannot be used, 3 or 0.

    Raises:
        UserError: the file cannot be read.
    """
    lines = _read(options.jsonl)
    out = verdicts_of(options)
    done = _done(out, lines)
    todo = [one for one in lines if one["line"] not in done]
    if done:
        say(f"{len(done)} of {len(lines)} lines have their verdict already, in {out}")
    counts, began, shown = Counter(one["verdict"] for one in done.values()), time.monotonic(), 0.0
    with out.open("a", encoding="utf-8") as file:
        for number, verdict in enumerate(_judged(todo, options), 1):
            file.write(json.dumps(verdict) + "\n")
            file.flush()
            os.fsync(file.fileno())
            counts[verdict["verdict"]] += 1
            if time.monotonic() - shown > _EVERY or number == len(todo):
                shown = time.monotonic()
                say(_progress(len(done) + number, len(lines), counts, number / max(shown - began, 1e-9)))
    say(f"verdicts: {out}")
    if counts[WRONG] + counts[HACK]:
        return 1
    return 2 if counts[UNUSABLE] else 3 if counts[UNDECIDED] else 0


def verdicts_of(options: argparse.Namespace) -> Path:
    """Return the file of the verdicts."""
    return Path(options.out or options.jsonl.with_suffix(".verdicts.jsonl"))


def _progress(number: int, whole: int, counts: Mapping[str, int], rate: float) -> str:
    words = ", ".join(
        f"{counts[name]} {name}" for name in (RIGHT, WRONG, HACK, UNDECIDED, UNUSABLE) if counts.get(name)
    )
    left = f", {(whole - number) / rate:.0f} s left" if number < whole and rate else ""
    return f"{number} of {whole}: {words}; {rate:.2g} a second{left}"


def _read(path: Path) -> list[Line]:
    """Return the lines, each with its number and what names it.

    Raises:
        UserError: the file cannot be read, or a line is no JSON object with a candidate and a task.
    """
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--jsonl {path}: it cannot be read: {reason_of(error)}.") from error
    found = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError as error:
            raise UserError(f"--jsonl {path}: line {number} is no JSON: {error}.") from error
        if not isinstance(line, dict) or not ({"candidate", "source"} & line.keys() and "against" in line):
            raise UserError(f'--jsonl {path}: line {number} needs "candidate" (or "source") and "against".')
        found.append({**line, "line": number, "key": digest(text)})
    return found


def _done(out: Path, lines: list[Line]) -> dict[int, Line]:
    """Return the verdicts that are there; a last line that was cut off is taken away.

    Raises:
        UserError: they belong to other lines.
    """
    if not out.exists():
        return {}
    content = out.read_bytes()
    kept: list[tuple[Line, bytes]] = []
    for text in content.splitlines(keepends=True):
        with contextlib.suppress(ValueError):  # a kill left a part of a line
            kept.append((json.loads(text), text.rstrip(b"\n") + b"\n"))
    whole = b"".join(text for _, text in kept)
    if whole != content:
        out.write_bytes(whole)
    keys = {one["line"]: one["key"] for one in lines}
    done = {int(one["line"]): one for one, _ in kept}
    if any(keys.get(number) != one["key"] for number, one in done.items()):
        raise UserError(f"{out} has verdicts on other lines than this file's: name another file by --out.")
    return done


def _judged(todo: list[Line], options: argparse.Namespace) -> Iterator[Line]:
    """Yield the verdicts as they come, from as many processes as are asked for; each keeps to a task while it can."""
    groups: dict[str, deque[Line]] = defaultdict(deque)
    for line in todo:
        groups[str(line["against"])].append(line)
    workers = [_Worker(options) for _ in range(max(1, min(options.jobs, len(todo))))]
    try:
        for one in workers:
            one.give(groups)
        while busy := {one.pipe: one for one in workers if one.line is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                if (verdict := worker.take()) is not None:
                    yield verdict
                worker.give(groups)
    finally:
        for one in workers:
            one.end()


class _Worker:
    """One process that judges, with a sandbox of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        words = {name: value for name, value in vars(options).items() if name not in ("command", "parser")}
        self._options, self._task, self._tries = argparse.Namespace(**words), "", 0
        self.line: Line | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._options), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, groups: dict[str, deque[Line]]) -> None:
        """Give the process a line: of its task, else of the task with most lines."""
        if self.line is not None:
            return
        if not groups.get(self._task):
            self._task = max(groups, key=lambda one: len(groups[one]), default="")
        if not groups.get(self._task):
            return
        self.line, self._tries = groups[self._task].popleft(), 0
        self.pipe.send(self.line)

    def take(self) -> Line | None:
        """Return the verdict; None where the process ended, and another one tries once more."""
        assert self.line is not None
        line = self.line
        try:
            verdict: Line = self.pipe.recv()
            if "no sandbox" in verdict:
                raise UserError(verdict["no sandbox"])
        except (EOFError, OSError):
            self.end()
            self._start()
            self._tries += 1
            if self._tries < _TRIES:
                self.pipe.send(line)
                return None
            verdict = {"verdict": UNUSABLE, "reason": "the judge's process ended twice on this line", "status": 2}
        self.line = None
        named: Line = {
            name: line[name] for name in ("line", "key", "id", "candidate", "against", "cell") if name in line
        }
        return {**verdict, "file": named.pop("candidate", ""), **named}

    def end(self) -> None:
        """End the process."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _work(pipe: Connection, options: argparse.Namespace) -> None:
    """Judge lines until the pipe ends. What is right for a task is computed once."""
    judges: OrderedDict[str, Any] = OrderedDict()
    try:
        python.imported()
        from kernel_matrix.tools.verify.sandbox.server import Server
        from kernel_matrix.tools.verify.whole import device_of, wish_of

        wish = wish_of(options)
        server = Server(options.sandbox, device=device_of(options), warm=True, readable=wish.readable)
    except UserError as error:
        pipe.send({"no sandbox": str(error)})
        return
    try:
        while True:
            try:
                line = pipe.recv()
            except EOFError:
                return
            pipe.send(_verdict(line, judges, server, options, wish))
            _make_room(judges)
    finally:
        server.close()


def _make_room(judges: OrderedDict[str, Any]) -> None:
    """Forget the tasks that were not asked for longest, and give back the memory between what is kept.

    The C library would keep what arrays of a new task's sizes have left, and so the process would grow by tasks.
    """
    while len(judges) > 1 and (len(judges) > _TASKS or sum(one.numbers.size for one in judges.values()) > _BYTES):
        judges.popitem(last=False)
    with contextlib.suppress(AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def _verdict(line: Line, judges: OrderedDict[str, Any], server: Any, options: argparse.Namespace, wish: Any) -> Line:
    """Return the verdict on a line, without the seeds: their cases serve other candidates."""
    from kernel_matrix.tools.verify.forms import read_candidate, read_task
    from kernel_matrix.tools.verify.judge import Judge
    from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError

    named = str(line.get("candidate", ""))
    key = f"{line['against']} {line.get('inputs', '')} {named if named.endswith('.json') else named.partition(':')[2]}"
    try:
        if key not in judges:
            task = read_task(
                str(line["against"]),
                line.get("inputs"),
                device=server.device,
                fixed=options.fixed_sizes,
                candidate=named,
            )
            judges[key] = Judge(task, server, wish)
        judges.move_to_end(key)
        judge = judges[key]
        source = line["source"] if "source" in line else read_candidate(named, judge.task)
        document: Line = judge.verdict(source).document()
    except (UserError, UnusableError) as error:
        return {"verdict": UNUSABLE, "reason": str(error), "status": 2}
    except UndecidedError as error:
        return {"verdict": UNDECIDED, "reason": str(error), "status": 3}
    document["counterexample"].pop("seed", None)
    return document
