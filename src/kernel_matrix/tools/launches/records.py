"""Compiled launches -> records, in the same tables that a job of the matrix writes."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base.git import commit
from kernel_matrix.base.paths import without_folders
from kernel_matrix.config.plan import Case, Job, Plan
from kernel_matrix.config.reads import Checkout
from kernel_matrix.pipeline import Project
from kernel_matrix.store import write
from kernel_matrix.store.record import Record
from kernel_matrix.tools.launches import card_words
from kernel_matrix.tools.launches.matrix_file import Names
from kernel_matrix.tools.launches.naming import DIRECTION
from kernel_matrix.tools.launches.recording import Compiled, Launch, Recording, outcome_of
from kernel_matrix.tools.launches.reproducer import reproducer
from kernel_matrix.tools.launches.targets import known

# What Triton's autotuner takes as a configuration that cannot be used here, and not as an error.


def write_records(
    project: Project, plan: Plan, recordings: Iterable[Recording], names: Names, started: str, program: Sequence[str]
) -> list[Path]:
    """Write the records of each platform as a job into the project's results; return the files."""
    by_platform = {recording.vendor.platform: recording for recording in recordings}
    checkout = Checkout(project.matrix, project.root)
    shutil.rmtree(project.results, ignore_errors=True)  # what another program has launched
    paths = []
    for job in plan.jobs:
        recording = by_platform[job.platform]
        facts = _job_facts(job, recording, checkout, started, program)
        records = [record for case in job.cases if (record := _record(case, recording, names)) is not None]
        if records:
            paths.append(write.write(project.results, facts, records))
    return paths


def _job_facts(
    job: Job, recording: Recording, checkout: Checkout, started: str, program: Sequence[str]
) -> dict[str, str]:
    folder, executor, ops = checkout.root, "current", {case.cell.op for case in job.cases}
    compiler, simulator = recording.compilers.get(job.cases[0].cell.backend), recording.simulator
    return {
        "job": job.id,
        "platform": job.platform,
        "toolchain": job.toolchain,
        "executor": executor,
        **checkout.facts_unwatched(job.platform, job.toolchain, executor, ops),
        **_device(recording),
        "driver": recording.card.driver if recording.card else "",
        "commit": commit(folder),
        "lock.sha256": sha256((folder / "lock.txt").read_bytes()).hexdigest(),
        "started": started,
        "seconds": f"{recording.seconds + sum(one.seconds for one in recording.compiled if not one.kept):.1f}",
        "python": recording.python,
        **({f"version.{simulator.name}": simulator.version} if simulator else {}),
        "program": shlex.join(program),
        "told": recording.told.name,
        **{f"version.{name}": version for name, version in recording.versions.items()},
        **{f"version.{name}": version for name, version in recording.compilers.values()},
        **({"compiler": " ".join(compiler)} if compiler else {}),
    }


def _device(recording: Recording) -> dict[str, str]:
    """Return what ran the launches: a GPU, the emulator for the targets that it emulated, or nothing."""
    targets = dict.fromkeys(one.target for one in recording.compiled if one.without is not None)
    by = f" by {recording.simulator.text}" if recording.simulator else ""
    name = f"{recording.vendor.title} GPU, emulated{by}" if targets else "none"
    if recording.card:
        name, targets = recording.card.name, {recording.card.target: None}
    vendor = recording.vendor.name if targets else ""
    return {"device": name, "device.vendor": vendor, "device.targets": " ".join(targets)}


def _record(case: Case, recording: Recording, names: Names) -> Record | None:
    """Return the record of a case; None if nothing came of it, so that it is missing."""
    short = case.axes[DIRECTION]
    launch = next((launch for launch in recording.taken if names.axes[launch.identity][DIRECTION] == short), None)
    if launch is None:
        return None
    compiled = next(
        (one for one in recording.compiled if one.identity == launch.identity and one.target == case.cell.target), None
    )
    return None if compiled is None else _as_record(case, launch, compiled, recording)


def _as_record(case: Case, launch: Launch, compiled: Compiled, recording: Recording) -> Record:
    outcome, stage, message = outcome_of(compiled, launch)
    if outcome == "unavailable":
        return Record(case.id, outcome, action="compile", message=message, facts=_facts(launch))
    numbers = compiled.numbers if not stage else None
    clean = {str(Path.cwd()): "."}
    return Record(
        case.id,
        outcome,
        action="compile" if numbers is None else "emulate" if compiled.card is None else "run",
        stage=stage,
        message=without_folders(message, clean, packages=True),
        detail=without_folders(compiled.detail, clean, packages=True) if compiled.stage else message,
        seconds=compiled.seconds,
        metrics={
            **{f"artifact.{name}": value for name, value in compiled.figures.items()},
            **(numbers.metrics if numbers else {}),
        },
        facts={
            **(numbers.facts if numbers else {}),
            **({"not compared": compiled.without} if compiled.without else {}),
            **({"on the GPU": card_words.said(compiled)} if compiled.card is not None else {}),
            **({"artifact.kind": compiled.artifact or recording.vendor.artifact} if compiled.figures else {}),
            **(_reproducer(launch, case, clean) if compiled.stage else {}),
            **_facts(launch),
        },
    )


def _reproducer(launch: Launch, case: Case, clean: Mapping[str, str]) -> dict[str, str]:
    """Return the program that repeats a compilation, and its language, as facts; none where there is no program."""
    text, language = reproducer(launch, known()[case.cell.target])
    if not text:
        return {}
    text = without_folders(text, clean, packages=True) if language == "sh" else text
    return {"reproducer": json.dumps(text), "reproducer.language": language}


def _facts(launch: Launch) -> dict[str, str]:
    return {
        "kernel": f"{launch.module}.{launch.kernel}",
        "kernel.source": launch.source,
        "types": json.dumps(launch.types),
        "constants": json.dumps(launch.constants),
        "options": json.dumps(launch.options),
        "grid": launch.grid,
        "launches": str(launch.times),
        "interpreted": "yes" if launch.emulated else "",
    }
