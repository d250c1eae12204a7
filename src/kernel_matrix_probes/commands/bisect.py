"""Find the published version of a package that changed the state of a probe or a cell."""

from __future__ import annotations

import argparse

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.options import load_project
from kernel_matrix.vendors.machine import detect
from kernel_matrix_probes.bisect import bisect, state_of_case, state_of_probe
from kernel_matrix_probes.commands import add_subject_options
from kernel_matrix_probes.subject import make_subject
from kernel_matrix_probes.try_version import try_version
from kernel_matrix_probes.versions import chosen, published


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: between which versions, and what changes."""
    add_subject_options(parser)
    parser.add_argument("--good", required=True, help="a version in the old state")
    parser.add_argument("--bad", required=True, help="a later version in the new state")
    parser.add_argument("--pin", action="append", default=[], metavar="NAME=VERSION", help="beside it (repeatable)")


def main(options: argparse.Namespace) -> int:
    """Bisect, and print what changed in which version."""
    if bool(options.case) == bool(options.probe) or len(options.probe or ()) > 1:
        raise UserError("bisect follows one thing: name either one --probe or one --case.")
    subject = make_subject(
        load_project(options),
        options.package,
        detect(),
        probes=options.probe or (),
        case=options.case,
        discard=options.discard,
    )
    versions = chosen(f"{options.good}..{options.bad}", published(options.package))
    if [str(versions[0]), str(versions[-1])] != [options.good, options.bad] or len(versions) < 2:
        raise UserError(f"--good {options.good} --bad {options.bad}: both must be published, the good one first.")
    pins = dict(text.split("=", 1) for text in options.pin if "=" in text)
    state = state_of_case if options.case else state_of_probe(options.probe[0])
    point = bisect(versions, lambda version: try_version(subject, str(version), pins), state, options.package)
    print(f"{options.package} {point.first_bad.version} changed {options.case or options.probe[0]}")
    print(f"  {point.last_good.version}: {point.old}")
    print(f"  {point.first_bad.version}: {point.new}")
    print(f"  tried {len(point.tried)} of {len(versions)} versions: {', '.join(point.tried)}")
    others = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in point.elsewhere.items())
    print(f"  what else changed between the two environments: {others or 'nothing'}")
    return 0
