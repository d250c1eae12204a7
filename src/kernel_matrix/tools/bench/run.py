"""Time the kernels on this machine's devices, one environment after the other, and write the records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.git import commit
from kernel_matrix.base.words import counted
from kernel_matrix.config.own_version import own_version
from kernel_matrix.config.plan import Job
from kernel_matrix.config.reads import Checkout
from kernel_matrix.doctor.environment import examine
from kernel_matrix.pipeline import Project
from kernel_matrix.run.executors import InstallError, Interpreter, MachineError, Prepare, Request, UnavailableError
from kernel_matrix.run.job_run import facts_of, lock_facts
from kernel_matrix.run.settings import load_executor
from kernel_matrix.store import write
from kernel_matrix.store.record import Record
from kernel_matrix.tools.bench.bench_plan import (
    BenchCase,
    Place,
    bench_of,
    cases_at,
    narrowed,
    places_of,
    toolchains_at,
)
from kernel_matrix.tools.bench.processes import Asked, Said, ask
from kernel_matrix.tools.bench.records import lost, record_of
from kernel_matrix.vendors.machine import Machine

_SHAPE = ("hidden", "dtype")  # the axes that most compilers make another kernel for
_MOST_PROCESSES = 20  # that are started anew for one environment, because the one before died


@dataclass(frozen=True)
class Wish:
    """The choice of what is timed; empty means all. ``parallel`` processes first compile what the timing needs."""

    platforms: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    quick: bool = False
    executor: str = "venv"
    parallel: int = 0
    shapes: str = ""  # the list of `more` in place of the device's list
    limit: float = math.inf  # seconds for the timing of each environment: what is left then is missing


@dataclass(frozen=True)
class Group:
    """The toolchains that one process times, and the interpreter that has them; or why they have none."""

    place: Place
    toolchains: tuple[str, ...]
    interpreter: Interpreter | None
    outcome: str = ""
    reason: str = ""


def bench(project: Project, machine: Machine, wish: Wish, say: Callable[[str], None] = print) -> list[Path]:
    """Time what is wished, write a result file for each toolchain, and return the files.

    Raises:
        UserError: nothing can be timed, or something that was named does not exist.
    """
    places = [p for p in places_of(project.matrix, machine) if not wish.platforms or p.platform in wish.platforms]
    if not places:
        raise UserError("this machine has no device of these platforms: what is emulated or only compiled has no time")
    files: list[Path] = []
    with ExitStack() as stack:
        prepare = stack.enter_context(load_executor(wish.executor))
        for place in places:
            cases = narrowed(cases_at(project.matrix, place, quick=wish.quick, shapes=wish.shapes), wish.cases)
            for group in _groups(project, place, wish, prepare, say):
                files += _time(project, group, cases, wish, say)
    if not files:
        raise UserError("no toolchain is left: the options exclude each other")
    return files


def _groups(
    project: Project, place: Place, wish: Wish, prepare: Prepare, say: Callable[[str], None]
) -> Iterator[Group]:
    """Yield the toolchains of a place by their environment: toolchains of one interpreter are timed in one process.

    A process has one set of variables, so toolchains for which matrix.yaml sets others have another process.
    """
    entries = project.matrix.platforms[place.platform].by_toolchain
    together: dict[object, list[tuple[str, Interpreter]]] = {}
    for toolchain in toolchains_at(project.matrix, place):
        if wish.toolchains and toolchain not in wish.toolchains:
            continue
        job = Job(place.platform, toolchain, ())
        request = Request(project.root, project.build, project.matrix, job, place.device, say)
        try:
            interpreter = prepare(request)
        except UnavailableError as reason:
            yield Group(place, (toolchain,), None, "unavailable", str(reason))
        except (InstallError, MachineError) as error:
            yield Group(place, (toolchain,), None, "error", str(error).splitlines()[-1])
        else:
            variables = tuple(sorted(entries[toolchain].environment.items()))
            process = getattr(interpreter, "python", toolchain), variables
            together.setdefault(process, []).append((toolchain, interpreter))
    for members in together.values():
        yield Group(place, tuple(name for name, _ in members), members[0][1])


def _time(
    project: Project, group: Group, cases: Sequence[BenchCase], wish: Wish, say: Callable[[str], None]
) -> list[Path]:
    """Time the cases of a group, and write a result file for each of its toolchains."""
    names, place = ", ".join(group.toolchains), group.place
    own = [case for case in cases if set(case.toolchains) & set(group.toolchains)]
    started, began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    if group.interpreter is None:
        say(f"{place.platform}: {names}: not timed: {group.reason}")
        return [
            _write(project, place, toolchain, _refused(own, group, toolchain), {"started": started}, wish)
            for toolchain in group.toolchains
        ]
    say(f"{place.platform} on {place.device.name}: {names}: {counted(len(own), 'case')}")
    bench = bench_of(project.matrix)
    asked = Asked(place, group.toolchains, tuple(own), wish.rivals, quick=wish.quick)
    first_calls = _compile(project, group.interpreter, asked, wish, say)
    answers = list(_ask_until_done(project, group.interpreter, asked, wish.limit))
    environment = examine(group.interpreter, project.build / "bench")
    facts = {"started": started, "seconds": f"{time.monotonic() - began:.1f}", **environment.facts}
    files = []
    for toolchain in group.toolchains:
        mine = [case for case in own if toolchain in case.toolchains]
        records = [
            _with_first_call(case, record, first_calls)
            for case, record in zip(mine, _records(mine, place, toolchain, answers, bench.rivals[0]), strict=True)
        ]
        files.append(_write(project, place, toolchain, records, facts, wish))
        say("\n".join(f"  {_in_words(record)}" for record in records))
    return files


def _refused(cases: Sequence[BenchCase], group: Group, toolchain: str) -> list[Record]:
    """Return the records of a toolchain that has no interpreter."""
    mine = [case for case in cases if toolchain in case.toolchains]
    return [lost(case, group.place, toolchain, group.outcome, "install", group.reason) for case in mine]


def _compile(
    project: Project, interpreter: Interpreter, asked: Asked, wish: Wish, say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Compile in several processes at a time, each for one operator, what the timing then finds in the caches.

    Return the seconds of each first call by case and contender; nothing where this was not wished.
    """
    if not wish.parallel:
        return {}
    parts: dict[str, list[BenchCase]] = {}
    for case in asked.cases:  # the tokens of a case are free, so the same kernels serve them
        axes = "-".join(str(value) for axis, value in case.axes.items() if axis in _SHAPE)
        parts.setdefault(f"{case.op}.{case.direction}-{axes}", []).append(case)
    began, name = time.monotonic(), f"{asked.place.platform}.{asked.toolchains[0]}"

    def one(part: str) -> Said:
        of_part = replace(asked, cases=tuple(parts[part]), only_compile=True)
        limit = bench_of(project.matrix).limit
        return ask(project, of_part, interpreter, f"{name}.compile.{part}", limit, stopped.is_set)

    stopped = Event()
    with ThreadPoolExecutor(wish.parallel) as pool:
        try:
            answers = list(pool.map(one, parts))
        finally:  # an interrupted command waits for the threads, and these for their processes
            stopped.set()
    say(f"  compiled in {time.monotonic() - began:.0f} s, {min(wish.parallel, len(parts))} processes at a time")
    return {case: dict(calls) for said in answers for case, calls in said.first_calls.items()}


def _ask_until_done(project: Project, interpreter: Interpreter, asked: Asked, limit: float) -> Iterator[Said]:
    """Start a process, and another one for the rest where a process died: without the contender that it died with.

    After ``limit`` seconds the process is ended, and nothing is said of what it was timing.
    """
    end, longest = time.monotonic() + limit, bench_of(project.matrix).limit
    name = f"{asked.place.platform}.{asked.toolchains[0]}"
    for number in range(_MOST_PROCESSES):
        seconds = min(longest, end - time.monotonic())
        said = ask(project, asked, interpreter, name if not number else f"{name}.{number}", seconds)
        if said.status is None and seconds < longest:  # it did not hang: its time was over
            yield replace(said, during="", is_over=True)
            return
        yield said
        rest = tuple(case for case in asked.cases if case.id not in said.cases)
        if not said.during or not rest:
            return
        skip = asked.skip
        if said.contender:
            skip |= {(said.during, said.contender)}
        else:
            rest = tuple(case for case in rest if case.id != said.during)
        asked = replace(asked, cases=rest, skip=skip)


def _records(
    cases: Sequence[BenchCase], place: Place, toolchain: str, answers: Sequence[Said], baseline: str
) -> list[Record]:
    """Return the record of every case, from the process that has timed it."""
    own = next(
        (case["own"][toolchain] for said in answers for case in said.cases.values() if toolchain in case["own"]), ""
    )
    return [_record(case, place, toolchain, answers, baseline, own) for case in cases]


def _record(case: BenchCase, place: Place, toolchain: str, answers: Sequence[Said], baseline: str, own: str) -> Record:
    """Return the record of a case. Where its own kernel has ended a process, that is its error."""
    died = [said for said in answers if said.during == case.id]
    said = next((said for said in answers if case.id in said.cases), None)
    if said is not None and own in said.cases[case.id]["results"]:
        return record_of(case, place, toolchain, said.cases[case.id], said.device, baseline)
    for one in died:
        if one.contender in (own, ""):
            return lost(case, place, toolchain, "error", *one.end)
    if died and not own:  # no process has named the contender
        return lost(case, place, toolchain, "error", *died[0].end)
    if any(said.is_over for said in answers):
        return lost(case, place, toolchain, "missing", "", "the time of the benchmark was over before this case")
    if not answers[0].device:  # it did not come to the first case
        return lost(case, place, toolchain, "error", *answers[0].end)
    return lost(case, place, toolchain, "missing", "", "the benchmark's process ended before this case")


def _with_first_call(case: BenchCase, record: Record, calls: Mapping[str, Mapping[str, float]]) -> Record:
    """Return the record with the seconds of the first call of all, in which it was compiled."""
    seconds = calls.get(case.id, {}).get(record.facts.get("bench.contender", ""))
    if seconds is None or record.outcome != "pass":
        return record
    return replace(record, metrics={**record.metrics, "bench.first_call_s": seconds})


def _write(
    project: Project, place: Place, toolchain: str, records: Sequence[Record], facts: Mapping[str, str], wish: Wish
) -> Path:
    """Write the records of a toolchain next to the results of the jobs."""
    ops = {record.case.split("/")[3].rpartition(".")[0] for record in records}
    read = Checkout(project.matrix, project.root).facts_unwatched(place.platform, toolchain, wish.executor, ops)
    job = f"{place.platform}.{toolchain}.bench"
    named = Job(place.platform, toolchain, ())
    request = Request(project.root, project.build, project.matrix, named, place.device, print)
    try:
        lock = lock_facts(request, wish.executor)
    except (InstallError, UnavailableError):  # the records say so
        lock = {}
    of_job = {
        **facts_of(request, wish.executor, ()),
        "job": job,
        "device.targets": place.target,
        "commit": commit(project.root),
        **lock,
        "bench": "quick" if wish.quick else "whole",
        "bench.compiled": f"beforehand, {wish.parallel} processes at a time" if wish.parallel else "while it was timed",
        **read,
        **facts,
    }
    own = own_version(project.root, project.matrix.package)
    if own is not None and own.version:
        of_job[f"version.{own.name}"] = own.version
    return write.replace(project.results, of_job, records)


def _in_words(record: Record) -> str:
    """Return a line about a record: its times, or why it has none."""
    name, metrics = record.case.split("/", 3)[3], record.metrics
    if record.outcome != "pass":
        return f"{name}: {record.outcome}: {record.message}"
    ratios = ", ".join(
        f"{value:.2f} × {rival.removeprefix('bench.ratio.')}"
        for rival, value in metrics.items()
        if rival.startswith("bench.ratio.")
    )
    spread = f"{metrics['bench.p5_us']:.1f} to {metrics['bench.p95_us']:.1f}"
    times = f"{metrics['bench.median_us']:.1f} µs ({spread}, {metrics['bench.samples']:.0f} samples)"
    disturbed = f"; disturbed: {record.facts['bench.disturbed']}" if "bench.disturbed" in record.facts else ""
    return f"{name}: {times}, {metrics['bench.floor_share']:.0%} of the floor; as fast as {ratios}{disturbed}"
