"""Try every published version of a package: what resolves, installs, imports, passes its probes, and runs.

Without --versions it tries the versions that matrix.yaml names of its toolchains, and finds from which one on a state,
the numbers or what the code needs differ. With --newest it tries the newest releases, and says what these will break.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from kernel_matrix.base.console import ColouredConsole
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.numbers import whole
from kernel_matrix.base.pairs import pairs
from kernel_matrix.cli.options import load_project
from kernel_matrix.config.model.platforms import Versions
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.attempts import Attempt, keep, read
from kernel_matrix.probes.changes import changes, described, warnings
from kernel_matrix.tools.toolchains.axis import axes, named, newest, turning_points
from kernel_matrix.tools.toolchains.commands import add_subject_options
from kernel_matrix.tools.toolchains.subject import Subject, make_subject
from kernel_matrix.tools.toolchains.sweep import as_sweep, stops, sweep, table
from kernel_matrix.tools.toolchains.try_version import of_results, try_version
from kernel_matrix.tools.toolchains.versions import chosen, published
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which package, which versions, with which other packages, and what to ask of each."""
    add_subject_options(parser, needs_package=False)
    parser.add_argument("--versions", help="0.1.8.., 0.1.8..0.1.15 or 0.1.8,0.1.12; by default matrix.yaml has them")
    parser.add_argument("--toolchain", action="append", default=[], help="of these toolchains of matrix.yaml alone")
    parser.add_argument("--results", action="append", type=Path, metavar="FOLDER", default=[],
                        help="take in results of a machine as a version that was tried (repeatable)")  # fmt: skip
    parser.add_argument("--newest", action="store_true", help="the newest releases: what will break; never red")
    parser.add_argument("--with", action="append", dest="pairs", metavar="NAME=V1,V2", default=[],
                        help="try each version with each of these, too (repeatable)")  # fmt: skip
    parser.add_argument(
        "--output", type=Path, help="the JSON result (build/sweeps/PACKAGE.json); one that is there is added to"
    )
    parser.add_argument("--jobs", type=whole(1), default=os.cpu_count() or 1, help="how many versions at a time")


def main(options: argparse.Namespace) -> int:
    """Sweep, show the table, and write the result."""
    project, cases, pairs = load_project(options), options.case or (), _pairs(options.pairs)
    if not options.versions:
        if options.probe or pairs:
            raise UserError("--probe and --with need --versions: versions of matrix.yaml are tried with cases alone.")
        found = axes(project, detect(), toolchains=options.toolchain, package=options.package, cases=cases,
                     discard=options.discard)  # fmt: skip
        if options.output and len(found) > 1:
            raise UserError("--output: there is one file for each toolchain and distribution. Name one of each.")
        for subject, axis in found:
            _try_axis(project, subject, axis, options)
        return 0
    if not options.package or options.newest or options.toolchain or options.results:
        raise UserError("--versions goes with a package, and with none of --newest, --toolchain and --results.")
    subject = make_subject(
        project, options.package, detect(), probes=options.probe or (), cases=cases, discard=options.discard
    )
    _sweep(project, subject, chosen(options.versions, published(options.package)), pairs, options)
    return 0


def _sweep(
    project: Project,
    subject: Subject,
    versions: Sequence[Version],
    pairs: Mapping[str, Sequence[str]],
    options: argparse.Namespace,
) -> tuple[Path, list[Attempt]]:
    output = options.output or project.build / "sweeps" / f"{subject.name}.json"

    def keep_attempt(attempt: Attempt) -> None:
        """Write each attempt as it ends: a sweep that is stopped loses the versions in flight only."""
        keep(output, as_sweep(subject, [attempt]))

    attempts = sweep(subject, versions, pairs, max(1, options.jobs), keep_attempt)
    ColouredConsole().print(table(subject, attempts))
    for line in stops(attempts, project.rules):
        print(line)
    print(f"written: {output}")
    return output, attempts


def _try_axis(project: Project, subject: Subject, axis: Versions, options: argparse.Namespace) -> None:
    """Try the versions of an axis, find by bisection which one changed a state, and say what differs."""
    if options.results:
        _take_in(project, subject, options)
        return
    try:
        known = published(subject.package)
    except UserError as error:
        if not options.newest:
            raise
        print(f"{subject.name}: the newest release is not known. {error}")
        return
    versions = newest(subject, axis, known) if options.newest else named(axis, known)
    if not versions:
        print(f"{subject.name}: the toolchain has the newest release, {known[-1]}.")
        return
    output, attempts = _sweep(project, subject, versions, {}, options)

    def attempt(version: Version) -> Attempt:
        tried = try_version(subject, str(version), {})
        keep(output, as_sweep(subject, [tried]))
        return tried

    by_version = {Version(one.version): one for one in attempts}
    for case, point in turning_points(by_version, known, attempt, subject.package):
        print(f"{subject.package} {point.first_bad.version} changed {case or subject.name}: {point.old} -> {point.new}")
    for change in changes([*by_version.values()]):
        print(described(change, max(len(one.cases) for one in by_version.values())))
    for line in warnings(project.matrix, project.root, [read(output)]) if options.newest else ():
        print(line)


def _take_in(project: Project, subject: Subject, options: argparse.Namespace) -> None:
    """Take in the versions that other machines have tried, and say what differs."""
    output = options.output or project.build / "sweeps" / f"{subject.name}.json"
    for folder in options.results:
        attempt, devices = of_results(subject, folder)
        keep(output, as_sweep(subject, [attempt], devices))
    tried = read(output).attempts
    ColouredConsole().print(table(subject, tried))
    for change in changes(tried):
        print(described(change, max(len(one.cases) for one in tried)))
    print(f"written: {output}")


def _pairs(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    form = "NAME=VERSION,VERSION, such as numpy=2.3.5,2.4.6"
    given = {name: values.split(",") for name, values in pairs("--with", texts, form).items()}
    if lacking := [name for name, versions in given.items() if not all(map(str.strip, versions))]:
        raise UserError(f"--with {lacking[0]}: a version is missing between two commas. Write {form}.")
    return {name: [version.strip() for version in versions] for name, versions in given.items()}
