"""One job: decide what this machine does with its cases, prepare its environment, run it, and write its records."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from threading import Event

from packaging.utils import canonicalize_name

from kernel_matrix.base.patterns import is_found
from kernel_matrix.config.file_readers import CONTAINER, MADE_FROM_LOCKS
from kernel_matrix.config.model import Expectation, Matrix
from kernel_matrix.config.own_version import OwnVersion, own_version
from kernel_matrix.config.plan import Job
from kernel_matrix.config.reads import Checkout
from kernel_matrix.config.snapshot import Snapshot
from kernel_matrix.config.suite import facts_of as facts_of_tests
from kernel_matrix.config.suite import is_suite, stands_for_all, tests_of
from kernel_matrix.diagnosis import Rule, rules_of
from kernel_matrix.job.surroundings import environment_facts
from kernel_matrix.results.states import detection
from kernel_matrix.run.decide import Decision, decide, device_of
from kernel_matrix.run.executors import InstallError, Interpreter, MachineError, Prepare, Request, UnavailableError
from kernel_matrix.run.job_command import portable
from kernel_matrix.run.no_device import as_unavailable, has_device
from kernel_matrix.run.progress import in_progress
from kernel_matrix.run.quiet import Quiet
from kernel_matrix.run.settings import Progress, Settings, choose_executor, load_executor
from kernel_matrix.run.supervise import Supervisor
from kernel_matrix.store import write
from kernel_matrix.store.record import Record, versions_of
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

_CAUSE = re.compile(r"(?:cause|Caused by): ")  # begins lines in which uv says why
_FEW = 1000  # results: a report reads them from a journal sooner than pyarrow is imported to write tables
_WAY_OUT = (
    "Run it again, and change no source meanwhile. What the tests themselves write belongs elsewhere; a file that no "
    "job reads can stand in ci.unread of matrix.yaml"
)


def facts_of(request: Request, executor: str, devices: Iterable[Device]) -> dict[str, str]:
    """Return the facts that every job's results have; ``devices`` are those that its cases run on."""
    job, device = request.job, request.device
    return {
        "job": job.id,
        "platform": job.platform,
        "toolchain": job.toolchain,
        "executor": executor,
        "device": device.name if device else "none",
        "driver": device.driver if device else "",
        "device.vendor": device.vendor if device else "",
        "device.targets": " ".join(sorted({target for device in devices for target in device.targets})),
    }


def _with_more(files: Sequence[str]) -> str:
    """Return the first file, and how many more there are."""
    return f"{files[0]} and {len(files) - 1} more files" if len(files) > 1 else files[0]


def lock_facts(request: Request, executor: str) -> dict[str, str]:
    """Return the lock that an executor makes the environment from, and its digest; nothing where it makes none.

    Raises:
        UnavailableError: no lock can have the vendor's builds.
        InstallError: there is no such lock.
    """
    if executor not in MADE_FROM_LOCKS:
        return {}
    lock, root = request.lock, request.root
    name = lock.relative_to(root).as_posix() if lock.is_relative_to(root) else lock.name
    return {"lock": name, "lock.sha256": sha256(lock.read_bytes()).hexdigest()}


def installed_facts(facts: Mapping[str, str], own: OwnVersion | None = None) -> dict[str, str]:
    """Return a digest of all that a job's Python has, but the package under test; nothing where that is not known."""
    versions: dict[str, str] = {canonicalize_name(name): version for name, version in versions_of(facts).items()}
    versions.pop(canonicalize_name(own.name) if own else "", None)
    lines = sorted(f"{name}=={version}\n" for name, version in versions.items())
    return {"environment.sha256": sha256("".join(lines).encode()).hexdigest()} if lines else {}


def why_not_installed(text: str) -> str:
    """Return the line that says why there is no environment: the last one; of uv's causes, what they are about.

    That is a distribution or an address: it stands in the line before the causes, or in one of them.
    """
    *before, last = map(str.strip, text.splitlines())
    if last.startswith("hint:") and any(before):  # uv's advice stands below what it is about
        reason = why_not_installed("\n".join(before).rstrip())
        return f"{reason} ({last})"
    causes = [*takewhile(_CAUSE.match, reversed([*before, last]))][::-1]
    chain = [*before, last][-len(causes) - 1 :]
    about = next((line for line in chain[:-1] if causes and re.search("`|://", line)), "")
    return ": ".join(_CAUSE.sub("", line) for line in (about, last) if line)


def environment_facts_of(request: Request, executor: str) -> dict[str, str]:
    """Return what decides the environment that a job would have now: its lock, or all that this Python has."""
    try:
        return lock_facts(request, executor) or installed_facts(environment_facts())
    except (UnavailableError, InstallError) as reason:
        return {"lock": str(reason)}


@dataclass
class JobRun:
    """One job with all that its run needs, and the records of the cases that have ended."""

    request: Request
    settings: Settings
    progress: Progress
    executor: str
    decisions: Mapping[str, Decision]
    lock: Mapping[str, str] = field(default_factory=dict)  # the facts of the lock that its environment is made from
    interpreter: Interpreter | None = None
    refusal: Record | None = None  # of every case, where there is no interpreter
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.request.job

    @cached_property
    def actions(self) -> dict[str, str]:
        """Return the action of each case that has one."""
        return {case: decision.action for case, decision in self.decisions.items() if decision.action}

    @cached_property
    def _expectations(self) -> dict[str, tuple[Expectation, ...]]:
        return {case.id: case.expectations for case in self.job.cases if case.expectations}

    @cached_property
    def _lacks_a_device(self) -> bool:
        """True if tests of the package's own suite run here, on a lane without a device that they may ask for."""
        return is_suite(self.request.matrix) and not has_device(self.request.matrix, self.job.platform)

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return rules_of(self.request.matrix, self.settings.root)

    @property
    def measures(self) -> bool:
        """Return whether something is timed here: such jobs come last, and have the machine to themselves for that."""
        return any(case.timed and self.actions.get(case.id) == "run" for case in self.job.cases)

    def ended(self, record: Record) -> None:
        """Take a case's record."""
        # Reading the rules takes longer than most rows: a test that passed asks for none.
        if record.outcome in ("fail", "error") and self._lacks_a_device and not self._is_expected(record):
            record = as_unavailable(record, self._rules)
        self.records[record.case] = record
        self.progress.case(self.job.id, "known" if self._is_expected(record) else in_progress(record))

    def _is_expected(self, record: Record) -> bool:
        """Return whether a case fails as matrix.yaml expects. Whether the entry still holds, the judge asks later."""
        rules, ended = self._expectations.get(record.case, ()), (record.outcome, record.stage)
        return any((rule.outcome, rule.stage or "") == ended and is_found(rule.match, record.text) for rule in rules)

    def finish(self, turn: AbstractContextManager[object], quiet: Quiet, stop: Event) -> Path | None:
        """Run the job when it is its ``turn``, and write the records of all its cases, while nobody measures.

        Return the file, or None if it could not be written.
        """
        began, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._end_what_is_not_tried()
        environment: dict[str, str] = {}
        read = self._read()
        known = {"commit": read.commit(), **read.facts, **self._environment()}
        if self.interpreter:
            with turn, quiet.work() as share:
                supervisor = Supervisor(self.request, self.actions, self.interpreter, self.ended, stop, share, known)
                opened = read.watched(self.settings.root, self.request.root)
                self.progress.job(self.job.id, "running")
                with closing(opened):
                    environment = supervisor.run(resume=self.settings.resume)
                    all_the_time = not self.settings.resume  # a run that is resumed has opened files before
                    seen = read.seen(known["commit"], opened.end() if all_the_time else None)
                known |= seen.facts
                self._say_what_is_its_own(seen.own)
                self._refuse_what_changed(seen.changed, supervisor)
        with quiet.work():
            return self._write(began, started, {**environment, **known})

    def _environment(self) -> dict[str, str]:
        """Return the facts of the job's Python, without the folders of this machine."""
        if not self.interpreter:
            return {}
        facts = self.interpreter.facts
        return {name: portable(self.request, self.interpreter, value) for name, value in facts.items()}

    def _say_what_is_its_own(self, files: Sequence[str]) -> None:
        """Say which files that git does not track were read and then written."""
        if files:
            text = (
                f"{_with_more(files)}: read, then written. Git does not track it, so it is no part of what was measured"
            )
            self.progress.job(self.job.id, text)

    def _refuse_what_changed(self, changed: Sequence[str], supervisor: Supervisor) -> None:
        """Make each result an error if files that the job reads were written while it ran."""
        if not changed:
            return
        supervisor.forget()
        message = f"{_with_more(changed)} changed while the job ran, so nobody knows what it measured. {_WAY_OUT}"
        for case in self.actions.keys() & self.records.keys():
            record = self.records[case]
            if record.outcome == "missing":  # nothing was measured
                continue
            detail = "\n".join((*changed, f"its outcome was {record.outcome}", record.message, record.detail))
            self.records[case] = replace(record, outcome="error", stage="machine", message=message, detail=detail)

    def _write(self, began: float, started: str, environment: Mapping[str, str]) -> Path | None:
        """Write the records with the facts of the job."""
        devices = [decision.device for decision in self.decisions.values() if decision.device]
        common = {**facts_of(self.request, self.executor, devices), **self.lock}
        facts = {**common, "started": started, "seconds": f"{time.monotonic() - began:.1f}", **environment}
        facts |= self._own_version(facts) | detection(self.records.values()).facts | self._tests()
        facts |= installed_facts(facts, own_version(self.settings.root, self.request.matrix.package))
        records = [self.records[case.id] for case in self.job.cases if case.id in self.records]
        try:
            as_tables = len(records) > _FEW or not self.settings.gathered
            path = write.replace(self.settings.results, facts, records, as_tables=as_tables)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            text = f"its results are lost, {self.settings.results}: {reason}. Make room and run it again"
            self.progress.job(self.job.id, text)
            return None
        self.progress.job(self.job.id, "done")
        return path

    def _tests(self) -> dict[str, str]:
        """Return the facts that say which tests the suite has; those that were planned, where no list came.

        None came where they could not be listed, and from a machine that has no device for them.
        """
        if not self.request.tests and is_suite(self.request.matrix):
            planned = tests_of(self.request.matrix)
            lost = {case.cell.target for case in self.job.cases if stands_for_all(case.cell)}
            if self.refusal or (lost and not planned):
                return facts_of_tests(planned, lost)
        return facts_of_tests(self.request.tests)

    def _end_what_is_not_tried(self) -> None:
        for case in self.job.cases:
            decision = self.decisions[case.id]
            if not decision.action:
                self.ended(Record(case.id, decision.outcome, message=decision.reason))
            elif self.refusal:
                self.ended(replace(self.refusal, case=case.id))

    def _read(self) -> Snapshot:
        """Return what the job reads, as it is when the job starts."""
        ops = {case.cell.op for case in self.job.cases}
        checkout = Checkout(self.request.matrix, self.settings.root)
        return Snapshot.of(checkout, self.job.platform, self.job.toolchain, self.executor, ops)

    def _own_version(self, facts: dict[str, str]) -> dict[str, str]:
        """Return the version of the package under test as a fact; drop the fact of an installed one, which it hides."""
        own = own_version(self.settings.root, self.request.matrix.package)
        if own is None or not own.version:
            return {}
        for name in versions_of(facts):
            if canonicalize_name(name) == canonicalize_name(own.name):
                del facts[f"version.{name}"]
        return {f"version.{own.name}": own.version}


@dataclass
class Preparation:
    """Make each job's run in two steps: decide what this machine does with its cases, then make its environment."""

    matrix: Matrix
    machine: Machine
    settings: Settings
    progress: Progress
    stack: ExitStack  # closes the executors
    loaded: dict[str, Prepare] = field(default_factory=dict)  # one of each executor for the whole run

    def decided(self, job: Job) -> JobRun:
        """Return the job's run, which has no environment yet."""
        executor, _ = choose_executor(self.settings.executor, self.matrix.platforms[job.platform])
        choices = {"excluded": self.settings.excluded, "in_container": executor == CONTAINER}
        decisions = {case.id: decide(self.matrix, case, self.machine, **choices) for case in job.cases}
        request = Request(
            self.settings.root,
            self.settings.build,
            self.matrix,
            job,
            device_of(job, decisions),
            lambda text: self.progress.job(job.id, text),
            seconds=self.settings.seconds,
        )
        run = JobRun(request, self.settings, self.progress, executor, decisions)
        tests = self.settings.tests.get((job.platform, job.toolchain), ())
        if isinstance(tests, Record):
            run.refusal = tests
        else:
            run.request = replace(request, tests=tests, canaries=self.settings.canaries)
        return run

    def make_environment(self, run: JobRun) -> None:
        """Give the run its interpreter, or the reason why it has none; nothing if it has nothing to do."""
        if not run.actions:
            return
        if run.refusal:
            with suppress(UnavailableError, InstallError):
                run.lock = lock_facts(run.request, run.executor)
            return
        if run.executor not in self.loaded:
            self.loaded[run.executor] = self.stack.enter_context(load_executor(run.executor))
        try:
            run.lock = lock_facts(run.request, run.executor)
            run.interpreter = self.loaded[run.executor](run.request)
            if run.interpreter.root:
                run.request = replace(run.request, root=run.interpreter.root)
        except UnavailableError as reason:
            run.refusal = Record("", "unavailable", message=str(reason))
        except InstallError as error:
            text = str(error)
            run.refusal = Record("", "error", stage="install", message=why_not_installed(text), detail=text)
        except MachineError as error:
            run.refusal = Record("", "error", stage="machine", message=str(error))
