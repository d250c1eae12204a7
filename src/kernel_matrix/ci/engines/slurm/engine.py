"""The engine: submit by sbatch, poll by squeue and sacct, cancel by scancel."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.ci.engines import REPORT, AwayError, Fitted
from kernel_matrix.ci.engines.batches import MOST_ROWS
from kernel_matrix.ci.engines.slurm import copied, nodes, script
from kernel_matrix.ci.engines.state import Batch, ClusterRun, mark_interrupted, status_of_report
from kernel_matrix.ci.placing import Machines
from kernel_matrix.config.model import Matrix
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.run.proven import KEY, key_to_share
from kernel_matrix.vendors.registry import vendor_named

_MOST_ROWS = 20_000
_QUEUE = "%j|%K|%T|%V|%S|%e|%N|%r"  # name, task, state, submitted, start, end, nodes, reason
_ARRAYS, _TASKS = "%j|%F", "%j|%K|%A"  # name and id; name, task and id
_ACCOUNTING = "JobName,JobID,State,Submit,Start,End,NodeList,Reason"
_LATE, _PAUSE = 60.0, 2.0  # seconds in which a job may come whose submission had no answer, and between two looks
_MINUTES_OFF = 90  # that two clocks are apart at most: munge refuses 5, and a night of autumn has an hour twice
Seen = dict[tuple[str, str], tuple[str, ...]]  # by name of the job and number of the task: the other fields


class Slurm:
    """Slurm, from version 20.11 on, through its own programs."""

    def __init__(self) -> None:
        """Begin with no row that needs something of this process."""
        self._couriers = copied.Couriers()

    def machines(self, matrix: Matrix) -> Machines:
        """Return the nodes for the targets that ci.slurm names; any node has a CPU."""
        named = matrix.ci.slurm.targets if matrix.ci.slurm else {}

        def labels(platform: str, target: str) -> tuple[str, ...]:
            if target in named:
                return ("slurm", target)
            return ("slurm",) if vendor_named(matrix.platforms[platform].device).hosted else ()

        return Machines("slurm", labels, _MOST_ROWS)

    def fit(self, batches: Sequence[Batch]) -> Fitted:
        """Return the batches as sinfo's nodes can have them."""
        listed = nodes.parse(ask("sinfo", "--noheader", "--Node", f"--format={nodes.FORMAT}"))
        longest = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"))
        fitted = nodes.fit(batches, listed, int(longest[1]) if longest else MOST_ROWS)
        idle = ", ".join(nodes.unused(batches, listed))
        sentence = [f"the cluster also has {idle}, and no row asks for it"] if idle else []
        return Fitted(fitted.batches, (*fitted.changed, *sentence), fitted.lacking)

    def script(self, run: ClusterRun) -> str:
        """Return the script that submits a run by hand."""
        return script.submission(run)

    def submit(self, run: ClusterRun) -> None:
        """Submit each batch, and the report after them."""
        logs = script.logs(run)
        logs.mkdir(parents=True, exist_ok=True)
        mark_interrupted(run)  # until all rows are there: else a later call would go on with a part of them
        if run.disk:
            copied.pack(run)
        jobs: list[str] = []
        try:
            for number in range(len(run.batches)):
                output = [] if run.disk else [f"--output={logs}/%x_%a.log"]
                jobs.append(_sbatch(run, number, script.array(run, number), *output))
            status_of_report(run).unlink()
            if not run.disk:  # nodes do not see the results
                after = f"--dependency=afterany:{':'.join(jobs)}"
                _sbatch(run, REPORT, script.report(run), after, f"--output={logs}/%x.log")
        except BaseException:
            mark_interrupted(run)
            with suppress(UserError):
                self.cancel(run)
            raise

    def poll(self, run: ClusterRun) -> list[JobStatus]:
        """Return the status of each row and of the report: of squeue, and of sacct where squeue has forgotten one."""
        wanted = {(script.job_name(run, REPORT), ""): REPORT} | {
            (script.job_name(run, number), str(task)): row
            for number, batch in enumerate(run.batches)
            for task, row in enumerate(batch.rows)
        }
        seen = _queued(run)
        arrays = {name for name, _ in seen}
        if wanted.keys() - seen.keys():
            try:
                seen = {**_accounted(run), **seen}
            except AwayError:  # of the accounts: who ended meanwhile is not known yet
                raise
            except UserError:  # there is no accounting: what is not known is said to be absent
                pass
        found = [_status(run, row, seen.get(key), known=key[0] in arrays) for key, row in wanted.items()]
        if not run.disk:
            return found
        rows = [one for one in found if one.row != REPORT]
        go_on = self._couriers.are_on_the_way or any(one.status in ("queued", "running") for one in rows)
        return [*rows, JobStatus(row=REPORT, status="queued" if go_on else "completed")]

    def attend(self, run: ClusterRun, statuses: Sequence[JobStatus]) -> None:
        """Bring the rows that run their copies of the checkout, and take their results, where nodes do not see it."""
        if not run.disk:
            return
        faults = self._couriers.attend(run, statuses, lambda: _running(run))
        for (row, _), fault in faults.items():
            script.log_of(run, row).write_text(f"{row}: {fault}\n", encoding="utf-8")
        if waiting := {one.row for one in statuses if one.status == "running" and (one.row, one.started) in faults}:
            self.cancel(run, waiting)

    def cancel(self, run: ClusterRun, rows: Collection[str] | None = None) -> None:
        """Cancel all jobs of a run, or the tasks of some rows."""
        gone = (
            [job for _, job in _arrays(run)]
            if rows is None
            else [job for row, job in _tasks_by_row(run).items() if row in rows]
        )
        if gone:
            ask("scancel", *gone)
        if rows is None:
            self._couriers.wait()

    def never_starts(self, why: str) -> bool:
        """Return whether a job that waits for this reason waits for ever."""
        return never_starts(why)

    def log(self, run: ClusterRun, row: str) -> Path:
        """Return the file of what a row's job prints."""
        return script.log_of(run, row)


def _sbatch(run: ClusterRun, part: int | str, text: str, *options: str) -> str:
    """Submit a script and return the id of its job. A variable such as SBATCH_ACCOUNT is stronger than the script."""
    name = script.job_name(run, part)
    file = Path(run.folder) / f"{name}.sh"
    write_atomically(file, text)
    asked = [line.partition(" ")[2] for line in text.splitlines() if line.startswith("#SBATCH ")]
    try:
        said = ask("sbatch", "--parsable", *asked, *options, "--export=ALL", str(file), **{KEY: key_to_share()})
    except AwayError as error:
        said = _arrived(run, name, error)
    if not (numbers := re.findall(r"^(\d+)(?:;\S*)?$", said, re.MULTILINE)):
        raise UserError(f"sbatch: it has printed no number of a job: {said.strip()[-300:]}")
    return str(numbers[-1])


def _arrived(run: ClusterRun, name: str, error: AwayError) -> str:
    """Return the id of a job that was submitted and had no answer. It may have come all the same: it is not sent again.

    Raises:
        AwayError: it has not come.
    """
    until = time.monotonic() + _LATE
    while time.monotonic() < until:
        with suppress(AwayError):
            if jobs := [job for of, job in _arrays(run, "--states=all") if of == name]:
                return jobs[0]
        time.sleep(_PAUSE)
    raise error


def _names(run: ClusterRun) -> list[str]:
    return [script.job_name(run, part) for part in (*range(len(run.batches)), REPORT)]


def _table(text: str, form: str) -> Iterator[list[str]]:
    """Yield the fields of lines of the form that was asked for: a site's own words may stand beside them."""
    for line in text.splitlines():
        if len(fields := line.split("|", form.count("|"))) == form.count("|") + 1:
            yield fields


def _queued(run: ClusterRun) -> Seen:
    """Return what squeue knows: the jobs that wait and run, and for some minutes those that have ended."""
    text = ask(
        *("squeue", "--noheader", "--array", "--states=all", f"--name={','.join(_names(run))}", f"--format={_QUEUE}")
    )
    return {(name, task if task.isdigit() else ""): tuple(fields) for name, task, *fields in _table(text, _QUEUE)}


def _accounted(run: ClusterRun) -> Seen:
    """Return what the accounting knows of the jobs since the run was made. Its clock may be another one."""
    since = f"{datetime.fromtimestamp(run.created - 60 * _MINUTES_OFF).astimezone():%Y-%m-%dT%H:%M:%S}"
    times = (f"--starttime={since}", f"--endtime=now+{_MINUTES_OFF}minutes")
    named = (f"--name={','.join(_names(run))}", *times, f"--format={_ACCOUNTING}")
    seen: Seen = {}
    text = ask("sacct", "--noheader", "--parsable2", "--allocations", *named)
    for name, job, *fields in _table(text, _ACCOUNTING.replace(",", "|")):
        for task in _tasks(job.partition("_")[2]):
            seen[name, task] = tuple(fields)
    return seen


def _tasks(text: str) -> Iterator[str]:
    """Yield the tasks that sacct names: ``3``, or ``[4-6,9]`` of those that wait; one without a number of a job."""
    for part in text.partition("%")[0].strip("[]").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            yield from (str(number) for number in range(int(first), int(last or first) + 1))
        elif not text:
            yield ""


def _arrays(run: ClusterRun, *options: str) -> list[tuple[str, str]]:
    """Return name and id of each array that squeue knows. Who submits a script twice has two of a name."""
    names = _names(run)
    text = ask("squeue", "--noheader", f"--name={','.join(names)}", f"--format={_ARRAYS}", *options)
    return list(dict.fromkeys((name, job) for name, job in _table(text, _ARRAYS) if name in names))


def _tasks_by_row(run: ClusterRun) -> dict[str, str]:
    """Return the id of the job of each row and of the report, of those that squeue knows."""
    jobs = dict(_arrays(run))
    report = jobs.get(script.job_name(run, REPORT))
    return ({REPORT: report} if report else {}) | {
        row: f"{jobs[name]}_{task}"
        for number, batch in enumerate(run.batches)
        if (name := script.job_name(run, number)) in jobs
        for task, row in enumerate(batch.rows)
    }


def _running(run: ClusterRun) -> dict[str, str]:
    """Return the id of the job of each row that runs. srun takes no other one."""
    named = f"--name={','.join(_names(run))}"
    text = ask("squeue", "--noheader", "--array", "--states=RUNNING", named, f"--format={_TASKS}")
    ids = {(name, task): job for name, task, job in _table(text, _TASKS)}
    rows = {
        row: (script.job_name(run, number), str(task))
        for number, batch in enumerate(run.batches)
        for task, row in enumerate(batch.rows)
    }
    return {row: ids[key] for row, key in rows.items() if key in ids}


def _status(run: ClusterRun, row: str, fields: tuple[str, ...] | None, *, known: bool) -> JobStatus:
    """Return the status of a row's job; ``known``: squeue knows others of its array."""
    if fields is None:
        if known and not script.log_of(run, row).exists():  # squeue forgets at once what was cancelled while it waited
            return JobStatus(row=row, status="completed", conclusion="cancelled")
        return JobStatus(row=row, status="absent")
    state, submitted, start, end, where, reason = fields
    status = status_of(row, state, submitted=submitted, start=start, end=end, nodes=where, reason=reason)
    if status.conclusion == "failure" and script.warned(run, row).exists():
        return status.model_copy(update={"conclusion": "timed_out"})
    if status.conclusion in ("never_started", "cancelled") and not status.machine and script.log_of(run, row).exists():
        return status.model_copy(update={"conclusion": "lost"})
    return status


_HABITS = ("SACCT_", "SBATCH_", "SCANCEL_", "SINFO_", "SQUEUE_")  # begin options of a program that a person has set
_KEPT = ("SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_RESERVATION")  # of those, what holds where matrix.yaml says nothing
_SECONDS = 120.0  # the programs themselves give up sooner
# What they say while the controller, or the database of accounts, is down or restarts.
_AWAY = re.compile(
    r"(?i)unable to contact|connection (refused|timed out|reset)|socket timed out|not responding|zero bytes|"
    r"communication (connection )?failure|slurmdbd|resource temporarily unavailable|backup controller|munge"
)

_BY_CLOCK = re.compile(r"(?i)zero bytes|authentication error|(expired|rewound) credential")


def _variables() -> dict[str, str]:
    """Return the variables of Slurm's programs, without those in which people keep their habits."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(_HABITS)}
    return {**kept, "SLURM_TIME_FORMAT": "%s"}


def ask(*words: str, **variables: str) -> str:
    """Return what a program of Slurm prints; it has these variables besides those of this process.

    Raises:
        AwayError: the controller does not answer now.
        UserError: the program is not here, or refuses.
    """
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            env={**_variables(), **variables},
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise UserError(
            f"{words[0]} is not here. Type this where the cluster's jobs are submitted, or install Slurm's clients "
            "(Debian: apt-get install slurm-client)."
        ) from None
    except subprocess.TimeoutExpired:
        raise AwayError(f"{words[0]} had no answer within {_SECONDS:g} s") from None
    if done.returncode:
        raise _fault(words, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _fault(words: Sequence[str], said: str) -> UserError:
    reason = "; ".join(dict.fromkeys(line.partition("error: ")[2] or line for line in said.splitlines()[-3:]))
    text = f"{words[0]}: {reason or 'it failed and said nothing'}"
    if _BY_CLOCK.search(said):
        text += " (so does a clock of this machine that is minutes off: munge refuses it)"
    return AwayError(text) if _AWAY.search(said) else UserError(text)


_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_CONCLUSIONS = {
    "COMPLETED": "success",
    "FAILED": "failure",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timed_out",
    "DEADLINE": "never_started",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
}
# What no time mends. Other reasons end by themselves, or when somebody repairs a node or a limit is free again.
_FOR_EVER = re.compile(
    r"BadConstraints|InvalidAccount|InvalidQOS|(Account|Qos|QOS)NotAllowed|not permitted to use|DependencyNever|"
    r"Partition(Node|Time)Limit|MaxMemPerLimit|ReservationDeleted|RequiresReservation|"
    r"(Assoc|QOS)Max\w*(Per(Job|Node)|Wall)\w*|QOSMin\w+|"  # what one job asks for, not what others have taken
    r"JobHoldMaxRequeue|launch[ _]failed[ _]requeued[ _]held|AccountingPolicy"
)


def status_of(row: str, state: str, *, submitted: str, start: str, end: str, nodes: str, reason: str) -> JobStatus:
    """Return the status of a row's job. The times are seconds since 1970."""
    word = state.split()[0].rstrip("+")  # sacct: CANCELLED by 1000
    if word in _WAITING:
        why = "" if reason in ("None", "(null)") else reason
        return JobStatus(row=row, status="queued", created=_time(submitted), why=why[:300])
    machine = "" if nodes in ("", "(null)", "None assigned", "n/a") else nodes
    # While Slurm clears up after a row, it may wait again already: the start is then the one that comes next.
    began = machine and word != "COMPLETING"
    facts = {"created": _time(submitted), "started": _time(start) if began else "", "machine": machine[:200]}
    if word not in _CONCLUSIONS:  # RUNNING, COMPLETING, SUSPENDED and others of a job that has a node
        return JobStatus(row=row, status="running", **facts)
    return JobStatus(row=row, status="completed", conclusion=_CONCLUSIONS[word], ended=_time(end), **facts)


def never_starts(reason: str) -> bool:
    """Return whether a job that waits for this reason waits for ever."""
    return bool(_FOR_EVER.search(reason))


def _time(seconds: str) -> str:
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds.isdigit() else ""
