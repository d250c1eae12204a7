"""Try every published version of a package: what resolves, installs, imports, passes its probes, and runs."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.cli.options import add_matrix_options, build_folder
from kernel_matrix.cli.probe import select_probes
from kernel_matrix.config.load import load
from kernel_matrix.diagnosis import diagnose, in_words
from kernel_matrix.lab.probe import VERDICTS, Probe
from kernel_matrix.lab.sweep import STAGES, Row, Subject, added, chosen, document, published, sweep, toolchain_of
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which package, which versions, beside what, and what to ask of each."""
    add_subject_options(parser)
    parser.add_argument("--versions", required=True, help="0.1.8.., 0.1.8..0.1.15 or 0.1.8,0.1.12")
    parser.add_argument("--with", action="append", dest="pairs", metavar="NAME=V1,V2", default=[],
                        help="try each version with each of these, too (repeatable)")  # fmt: skip
    parser.add_argument(
        "--output", type=Path, help="the JSON result (build/sweeps/PACKAGE.json); one that is there is added to"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many versions at a time")


def add_subject_options(parser: argparse.ArgumentParser) -> None:
    """What a sweep and a bisection ask alike."""
    add_matrix_options(parser)
    parser.add_argument("package", help="the package whose versions are tried, such as tilelang")
    parser.add_argument("--probe", action="append", help="only this probe (repeatable); all that apply by default")
    parser.add_argument("--case", help="run this case or cell in each version, by its id")
    parser.add_argument("--discard", action="store_true", help="delete each environment when it was tried")


def subject_of(options: argparse.Namespace) -> Subject:
    """What the options name."""
    matrix = load(options.matrix)
    root = options.matrix.parent.resolve()
    toolchain = toolchain_of(matrix, root, options.package)
    if options.case and (toolchain is None or f"/{toolchain}/" not in options.case):
        raise UserError(
            f"--case {options.case}: it must be a case or cell of {toolchain or 'a toolchain'}, "
            f"whose lock is made for {options.package}."
        )
    probes: tuple[Probe, ...] = ()
    if matrix.package.probes is not None:
        every = select_probes(matrix, root, options.probe or ())
        probes = tuple(probe for probe in every if options.probe or _about(probe, options.package))
    return Subject(
        options.package, root, build_folder(options), matrix, detect(), toolchain, probes, options.case, options.discard
    )


def main(options: argparse.Namespace) -> int:
    """Sweep, show the table, and write the result."""
    subject = subject_of(options)
    pairs: dict[str, Sequence[str]] = {}
    for text in options.pairs:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--with {text}: write it as NAME=VERSION,VERSION.")
        pairs[name] = values.split(",")
    output = options.output or subject.build / "sweeps" / f"{options.package}.json"
    output.parent.mkdir(parents=True, exist_ok=True)

    def keep(row: Row) -> None:
        """Write what is known so far: a sweep that is stopped has lost the versions in flight only."""
        told = document(subject, [row])
        if output.exists():
            told = added(json.loads(output.read_text(encoding="utf-8")), told)
        write_atomically(output, json.dumps(told, indent=1) + "\n")

    versions = chosen(options.versions, published(options.package))
    rows = sweep(subject, versions, pairs, max(1, options.jobs), keep)
    Console(soft_wrap=True).print(table(subject, rows))
    for row in rows:
        if row.stopped in ("resolve", "install", "import", "op"):
            print(f"{row.version} {dict(row.pins) or ''} stopped at {row.stopped}: {row.message}")
            print(f"  {in_words(diagnose(f'{row.message} {row.detail}', _stage(row), _job(row)))}")
    print(f"written: {output}")
    return 0


def table(subject: Subject, rows: Sequence[Row]) -> Table:
    """One line a version: how far it gets."""
    made = Table(subject.package, *STAGES, "picked", box=None, pad_edge=False)
    order = {stage: index for index, stage in enumerate(STAGES)}
    for row in rows:
        reached = [
            "[red]✗[/]" if row.stopped == stage else "" if row.stopped and order[row.stopped] < index else "✓"
            for index, stage in enumerate(STAGES[:3])
        ]
        counted = Counter(one["verdict"] for one in row.probes.values())
        probes = ", ".join(f"{counted[verdict]} {verdict}" for verdict in VERDICTS if counted[verdict])
        op = f"{row.op['state']} ({row.op['cases']})" if row.op else "-"
        picked = ", ".join(
            f"{name} {row.versions[name]}" for name in ("apache-tvm-ffi", "numpy") if name in row.versions
        )
        pins = "".join(f" + {name} {value}" for name, value in row.pins.items())
        made.add_row(f"{row.version}{pins}", *reached, probes or "-", op, picked)
    return made


def _about(probe: Probe, package: str) -> bool:
    return any(text.startswith(package) for text in probe.requires)


def _stage(row: Row) -> str:
    return {"resolve": "install", "op": row.op.get("stage", "")}.get(row.stopped, row.stopped)


def _job(row: Row) -> dict[str, str]:
    return {f"version.{name}": version for name, version in row.versions.items()}
