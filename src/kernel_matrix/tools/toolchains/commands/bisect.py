"""Find the version of a package, or the commit, that changed the state of a probe or a cell."""

from __future__ import annotations

import argparse

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.pairs import pairs
from kernel_matrix.cli.options import load_project
from kernel_matrix.matrix import commits
from kernel_matrix.probes.attempts import state_of_case
from kernel_matrix.run.settings import AUTO, EXECUTORS
from kernel_matrix.tools.toolchains.bisect import bisect, state_of_probe
from kernel_matrix.tools.toolchains.commands import add_subject_options
from kernel_matrix.tools.toolchains.subject import make_subject
from kernel_matrix.tools.toolchains.try_version import try_version
from kernel_matrix.tools.toolchains.versions import chosen, published
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: between which versions, and what changes."""
    add_subject_options(parser, needs_package=False)
    parser.add_argument("--good", help="a version in the old state")
    parser.add_argument("--bad", help="a later version in the new state")
    parser.add_argument("--commits", metavar="GOOD..BAD", help="find the commit instead, by --case in work trees")
    parser.add_argument("--executor", choices=(AUTO, *EXECUTORS), default=AUTO, help="where the commits are run")
    parser.add_argument(
        "--pin", action="append", default=[], metavar="NAME=VERSION", help="other packages (repeatable)"
    )


def main(options: argparse.Namespace) -> int:
    """Bisect, and print what changed in which version or commit."""
    pins = pairs("--pin", options.pin, "NAME=VERSION, such as numpy=2.4.6")
    if options.commits:
        return _bisect_commits(options)
    if not (options.package and options.good and options.bad):
        raise UserError("name a package with --good and --bad versions of it, or --commits GOOD..BAD with --case.")
    if len([*(options.case or ()), *(options.probe or ())]) != 1:
        raise UserError("bisect follows one thing: name either one --probe or one --case.")
    subject = make_subject(
        load_project(options),
        options.package,
        detect(),
        probes=options.probe or (),
        cases=options.case or (),
        discard=options.discard,
    )
    versions = chosen(f"{options.good}..{options.bad}", published(options.package))
    if [str(versions[0]), str(versions[-1])] != [options.good, options.bad] or len(versions) < 2:
        raise UserError(f"--good {options.good} --bad {options.bad}: both must be published, the good one first.")
    state = state_of_case if options.case else state_of_probe(options.probe[0])
    point = bisect(versions, lambda version: try_version(subject, str(version), pins), state, options.package)
    print(f"{options.package} {point.first_bad.version} changed {(options.case or options.probe)[0]}")
    print(f"  {point.last_good.version}: {point.old}")
    print(f"  {point.first_bad.version}: {point.new}")
    print(f"  tried {len(point.tried)} of {len(versions)} versions: {', '.join(point.tried)}")
    others = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in point.elsewhere.items())
    print(f"  what else changed between the two environments: {others or 'nothing'}")
    return 0


def _bisect_commits(options: argparse.Namespace) -> int:
    good, dots, bad = options.commits.partition("..")
    if not (good and dots and bad and len(options.case or ()) == 1) or options.package or options.probe:
        raise UserError("--commits GOOD..BAD follows one --case, and no package and no probe.")
    if options.pin:
        raise UserError("--pin is for the versions of a package: each commit has its own locks.")
    project, [case] = load_project(options), options.case
    build = project.apart("bisect").build
    state = commits.state_of_case(project, case, detect(), options.executor, build)
    found = commits.bisect_commits(project.root, build / "tree", good, bad, state)
    several = len(found.commits) > 1
    print(f"{case}: {found.old} -> {found.new} in {'one of these commits' if several else 'this commit'}")
    for commit in found.commits:
        print(f"  {commits.subject_of(project.root, commit)}")
    print(f"  tried {found.tried} commits")
    return 0
