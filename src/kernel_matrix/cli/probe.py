"""Run the probes: what each toolchain can and cannot, as expected of its version or not."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.base.git import commit
from kernel_matrix.cli.options import add_matrix_options, build_folder
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.diagnosis import diagnose, in_words
from kernel_matrix.lab.probe import VERDICTS, Judged, Probe, judge_all, load_probes
from kernel_matrix.lab.probing import run_probes
from kernel_matrix.results import junit
from kernel_matrix.results.record import Record
from kernel_matrix.run import executors
from kernel_matrix.run.executors import InstallError, Request, UnavailableError
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which probes, and in which toolchains."""
    add_matrix_options(parser)
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--probe", action="append", help="only this probe, such as tilelang/is_cpu (repeatable)")
    parser.add_argument("--executor", choices=("venv", "current"), default="venv", help="where the probes run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many probes at a time")


def main(options: argparse.Namespace) -> int:
    """Run, write one result file per environment, and say what changed."""
    matrix = load(options.matrix)
    root, build = options.matrix.parent.resolve(), build_folder(options)
    probes = select_probes(matrix, root, options.probe or ())
    for name in options.toolchain or ():
        if name not in matrix.toolchains:
            raise UserError(
                f"--toolchain {name}: there is no such toolchain.{did_you_mean(name, list(matrix.toolchains))}"
            )
    chosen = [name for name in matrix.toolchains if not options.toolchain or name in options.toolchain]
    changed = 0
    for name, toolchain in environments(matrix, chosen).items():
        request = Request(root, build, matrix, Job("", toolchain, ()), None, print)  # of no platform: it runs no case
        try:
            with executors.load(options.executor) as prepare:
                interpreter = prepare(request)
        except UnavailableError as reason:
            print(f"{name}: not probed: {reason}")
            continue
        except InstallError as error:
            print(f"{name}: its environment cannot be made\n{error}", file=sys.stderr)
            print(in_words(diagnose(str(error), stage="install")), file=sys.stderr)
            changed += 1
            continue
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        records = run_probes(probes, name, interpreter, detect(), matrix.package.environment, options.jobs)
        write(
            build / "results", name, records, {"executor": options.executor, "commit": commit(root), "started": began}
        )
        judged = judge_all(probes, records, [name])
        changed += sum(one.verdict == "changed" for one in judged)
        say(name, judged)
    return int(changed > 0)


def select_probes(matrix: Matrix, root: Path, names: Sequence[str]) -> tuple[Probe, ...]:
    """The probes of the package, or those that are named.

    Raises:
        UserError: the package has none, or not that one.
    """
    if matrix.package.probes is None:
        raise UserError("matrix.yaml: package.probes names no folder, so there is no probe to run.")
    probes = load_probes(root / matrix.package.probes)
    known = {probe.id for probe in probes}
    for name in names:
        if name not in known:
            raise UserError(f"--probe {name}: there is no such probe.{did_you_mean(name, known)}")
    return tuple(probe for probe in probes if not names or probe.id in names)


def environments(matrix: Matrix, toolchains: Sequence[str] | None = None) -> dict[str, str]:
    """The environments by name, each with one of the toolchains that it serves: two may share a lock file."""
    by_lock: dict[str, str] = {}
    for name in toolchains if toolchains is not None else matrix.toolchains:
        by_lock.setdefault(Path(matrix.toolchains[name].lock).stem, name)
    return by_lock


def write(results: Path, name: str, records: Sequence[Record], facts: dict[str, str]) -> Path:
    """Write the records of one environment beside those of the jobs."""
    results.mkdir(parents=True, exist_ok=True)
    job = {"job": f"probes.{name}", "toolchain": name, **facts, **(dict(records[0].job) if records else {})}
    path = results / f"probes.{name}.xml"
    junit.write(path, f"probes.{name}", records, job)
    return path


def say(name: str, judged: Sequence[Judged]) -> None:
    """One line per probe, and the cause of what did not work."""
    for one in judged:
        print(f"{name}  {one.verdict:<11} {one.probe.id}{f': {one.reason[:200]}' if one.reason else ''}")
        if one.verdict == "changed" and one.record and one.record.outcome != "pass":
            found = diagnose(f"{one.record.message}\n{one.record.detail}", one.record.stage, one.record.job)
            print(f"  {in_words(found)}")
    counted = Counter(one.verdict for one in judged)
    print(f"{name}: {len(judged)} probes: {', '.join(f'{counted[v]} {v}' for v in VERDICTS if counted[v])}")
