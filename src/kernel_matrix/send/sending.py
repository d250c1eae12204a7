"""Run what this machine's devices can, and write one signed file of all that came back."""

from __future__ import annotations

import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.git import commit
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.run.decide import decide
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.store import journal, names
from kernel_matrix.store.record import TOLD_AT, TOLD_BY, TOLD_KEY, Record, identity
from kernel_matrix.store.signed_file import Inventory, Signed, inventory_bytes, listed
from kernel_matrix.store.signing import fingerprint_of, sign
from kernel_matrix.store.validation import Bounds
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.registry import vendor_named

_AT = "%Y-%m-%dT%H:%M:%SZ"


def selected_here(project: Project, selected: Selected, machine: Machine, *, all_vendors: bool) -> Selected:
    """Return the cases that run on a device of this machine; not the CPU's cases, unless ``all_vendors`` asks for them.

    Raises:
        UserError: there is no such case.
    """
    matrix = project.matrix

    def runs(platform_name: str) -> bool:
        return all_vendors or not vendor_named(matrix.platforms[platform_name].device).hosted

    jobs = [
        replace(job, cases=tuple(case for case in job.cases if decide(matrix, case, machine).action == "run"))
        for job in selected.jobs
        if runs(job.platform)
    ]
    if not (jobs := [job for job in jobs if job.cases]):
        raise UserError(
            "this machine has no device, apart from its CPU, that a platform of matrix.yaml runs on: "
            "`kernel-matrix doctor` says what is missing. Results of a CPU are sent with --platform."
        )
    return replace(selected, jobs=tuple(jobs))


def run(project: Project, selected: Selected, machine: Machine, settings: Settings, progress: Progress) -> list[Record]:
    """Run the jobs and return their records."""
    return read(pipeline.run_selected(project, selected, machine, settings, progress))


def read(files: Sequence[Path]) -> list[Record]:
    """Return the records of the files that jobs have left: tables, or journals where this Python has no pyarrow."""
    if all(map(names.is_journal, files)):
        return [record for path in files for record in journal.read(path, Bounds())]
    from kernel_matrix.store.load import collect  # it needs DuckDB and pyarrow

    return list(collect(files).records)


def signed(project: Project, records: Iterable[Record], account: str, key: Path, hide: Mapping[str, str]) -> Signed:
    """Return the file to send: records of jobs that name the account, and the inventory, which the key signs.

    ``hide`` has folders of this machine, and what stands for each in the texts.
    """
    said = {TOLD_BY: account, TOLD_KEY: fingerprint_of(key), TOLD_AT: time.strftime(_AT, time.gmtime())}
    by_run: dict[str, list[Record]] = {}
    for record in records:
        by_run.setdefault(record.run, []).append(record)
    hidden = _hider(hide)
    jobs: list[dict[str, str]] = []
    journals: dict[str, bytes] = {}
    for of_run in by_run.values():
        jobs.append({name: hidden(value) for name, value in of_run[0].job.items()} | said)
        shown = [_without(record, hidden) for record in of_run]
        journals |= [_journal(jobs[-1], shown)]
    inventory = Inventory(
        version=1,
        by=account,
        key=said[TOLD_KEY],
        at=said[TOLD_AT],
        package=project.matrix.package.name,
        commit=commit(project.root),
        machine=_machine(),
        outcomes=dict(Counter(record.outcome for of_run in by_run.values() for record in of_run)),
        jobs=jobs,
        files=listed(journals),
    )
    content = inventory_bytes(inventory)
    return Signed(sign(content, key), content, inventory, journals)


def write(made: Signed, path: Path) -> None:
    """Write the file to send."""
    write_atomically(path, made.bytes)


def _journal(job: Mapping[str, str], records: Sequence[Record]) -> tuple[str, bytes]:
    name = names.name_of(job["job"], identity(job, records))
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-send-") as folder:
        path = journal.write(Path(folder), name, job, records)
        return path.name, path.read_bytes()


def _hider(hide: Mapping[str, str]) -> Callable[[str], str]:
    def hidden(text: str) -> str:
        for folder, word in hide.items():
            text = text.replace(folder, word)
        return text

    return hidden


def _without(record: Record, hidden: Callable[[str], str]) -> Record:
    facts = {name: hidden(value) for name, value in record.facts.items()}
    return replace(record, message=hidden(record.message), detail=hidden(record.detail), facts=facts)


def _machine() -> dict[str, str]:
    """Return what the inventory says of the machine in addition to the facts of its jobs: nothing that names it."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }
