"""Record -> the one command that repeats it, the facts that it depends on, and the hardware that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kernel_matrix.base.commands import command
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.pairs import pairs
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import TIMED, Case, Plan, expand
from kernel_matrix.config.selection import ids
from kernel_matrix.results.noise import in_words
from kernel_matrix.results.states import STATES, Verdict
from kernel_matrix.store.names import printable
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named

# The facts of a job that a repeated run must have as well; the second where the environment is made from no lock.
_LOCK, _ENVIRONMENT, _IMAGE = "lock.sha256", "environment.sha256", "image"
ANOTHER_TOOL = "another tool"  # the executor of results that were taken from JUnit XML
NOT_AGAIN = "are not those that were listed before the run"  # says a job of tests whose names change
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def is_plain(text: str) -> bool:
    """Return whether a shell reads a text as it stands, so that a command has it without quotes."""
    return _PLAIN.fullmatch(text) is not None


def of_fuzzer(name: str) -> list[str]:
    """Return the words of the command that runs a case of the fuzzer again; none for another name."""
    return ["fuzz", "--case", name] if name.startswith("fuzz:") or "/fuzz:" in name else []


class Commands:
    """The commands that repeat results of one matrix. Each operator's quick tier is listed once."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._quick: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[object, ...], tuple[str, str]] = {}

    def command(self, identity: str, record: Record | None) -> str:
        """Return the command that repeats a case or cell as in ``record``. It is safe to paste: all of it is quoted.

        It names what the record knows of its run: commit, executor, lock and image. Without a record these are free.
        """
        if record and NOT_AGAIN in record.message:  # no later run has a test of this name
            identity = identity.rpartition("/")[0] if identity == record.case else identity
        job, facts = (record.job, record.facts) if record else ({}, {})
        tier = "full" if record and not self.is_quick(*record.case.split("/")[-2:]) else ""
        values = {name: job.get(name) or facts.get(name, "") for name in (_LOCK, _ENVIRONMENT, _IMAGE)}
        names = _LOCK if values[_LOCK] else _ENVIRONMENT, _IMAGE
        known = [f"{name}={values[name]}" for name in names if values[name]]
        key = identity.partition("/")[0], job.get("executor", ""), tuple(known), tier, job.get("commit", "")
        if key in self._known and is_plain(identity):
            return identity.join(self._known[key])
        made = self._made(identity, *key)
        if made.count(identity) == 1 and is_plain(identity):
            before, _, after = made.partition(identity)
            self._known[key] = before, after
        return made

    def _made(
        self, identity: str, platform: str, executor: str, expected: Sequence[str], tier: str, commit: str
    ) -> str:
        if executor == ANOTHER_TOOL:  # nothing here can run it again
            return command(["ci", "take-junit", "--platform", platform, "--toolchain", identity.split("/")[2], "FILE"])
        words = ["run", "--platform", platform]
        if executor:
            words += ["--executor", executor]
        for one in expected:
            words += ["--expect", one]
        words += ["--case", identity]
        if tier:
            words += ["--tier", tier]
        # What was changed and not committed is in no commit, so the files stay as they are.
        first = f"git switch --detach {commit} && " if re.fullmatch(r"[0-9a-f]{7,40}", commit) else ""
        return f"{first}{command(words)}"

    def is_quick(self, operator: str, name: str) -> bool:
        """Return whether the quick tier has a case of an operator; a timed case is in every tier."""
        if operator not in self._quick:
            op, _, direction = operator.rpartition(".")
            self._quick[operator] = frozenset(name for name, _ in expand(self._matrix.ops[op], "quick", direction))
        return name.endswith(TIMED) or name in self._quick[operator]


def needs(matrix: Matrix, identity: str, record: Record | None, machine: Machine) -> str:
    """Return which hardware this machine lacks to repeat a case or cell; empty if it lacks none."""
    platform_name, target = identity.split("/")[:2]
    platform = matrix.platforms[platform_name]
    action = record.action if record else "run"
    if action not in ("run", "emulate") or platform.device_on(machine, target):
        return ""
    devices = "; ".join(f"{device.name} ({', '.join(device.targets) or 'no target'})" for device in machine.devices)
    where = f" It was {record.job['device']}." if record and record.job.get("device", "none") != "none" else ""
    labels = ", ".join(platform.labels(target))
    return printable(
        f"needs {platform.title} hardware for {target} (the machines with the labels {labels}).{where} "
        f"This machine has: {devices}."
    )


def facts(matrix: Matrix, identity: str, record: Record) -> list[str]:
    """Return the facts that a result depends on, each as ``name: value`` in one line, whatever a stranger wrote."""
    name, _, toolchain = identity.split("/")[:3]
    platform = matrix.platforms[name]
    seed = re.search(r"seed(\d+)", record.case.rpartition("/")[2])
    known = {
        "result": f"{record.outcome}{f' in {record.stage}' if record.stage else ''} ({record.action or 'nothing ran'})",
        "commit": record.job.get("commit", ""),
        "image": record.job.get("image") or record.facts.get("image", ""),
        "lock": _lock(matrix.lock_of(name, toolchain), record),
        "seed": f"{seed[1]}, and the inputs are made from the case's name" if seed else "",
        "noise ratio": in_words(record),
        "inputs": record.facts.get("inputs.sha256", ""),
        "device": record.job.get("device", ""),
        "driver": record.job.get("driver", ""),
        "GPU flags": vendor_named(platform.device).flags_in_words,
    }
    return [printable(f"{name}: {value}") for name, value in known.items() if value]


def _lock(named: str, record: Record) -> str:
    """Return the lock that the environment of a record's job was made from; empty where there was no environment."""
    if digest := record.job.get("lock.sha256"):
        return f"{record.job.get('lock', named)} sha256:{digest}"
    return "none: its environment was there before" if record.action else ""


def cases_named(planned: Plan, identity: str) -> list[Case]:
    """Return the case of that id, or the cases of the cell of that id.

    Raises:
        UserError: the plan has no such case or cell.
    """
    cases = [case for case in planned.cases if identity in (case.id, case.cell.id)]
    if not cases:
        raise unknown("", "cell or case in the plan", identity, ids(planned))
    return cases


def result_to_repeat(verdicts: Sequence[Verdict], tried: Iterable[Record], identity: str) -> Record:
    """Return the record that decides the state of the cases, which ``identity`` names; else the first of all ``tried``.

    Raises:
        UserError: no record is of one of the cases.
    """
    # The worst case that a machine had a result of; the worst of all if there is none.
    worst = min(verdicts, key=lambda v: (v.record is None or not v.record.job, STATES.index(v.state)))
    found = worst.record or next(iter(tried), None)
    if found is None:
        raise UserError(
            f"{identity}: no result of it is here. Name the folder of the run that is to be repeated, such as an "
            "unpacked artifact."
        )
    return found


def check(records: Iterable[Record], expected: Sequence[str]) -> None:
    """Check that the records have the facts that are expected, each as ``FACT=VALUE``.

    Raises:
        UserError: a fact has another value, is not known, or is not written so.
    """
    for name, value in pairs("--expect", expected, "FACT=VALUE, such as lock.sha256=1f3a...").items():
        for record in records:
            actual = record.job.get(name) or record.facts.get(name)
            if record.action and actual != value:
                raise UserError(
                    f"--expect {name}={value}: here it is {actual or 'not known'}, so this does not repeat that run. "
                    "Take the commit and the executor of that run."
                )
