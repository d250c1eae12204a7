"""Find the published version of a package that changed the state of a probe or a cell."""

from __future__ import annotations

import argparse

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.sweep import add_subject_options, subject_of
from kernel_matrix.lab.bisect import bisect, state_of_case, state_of_probe
from kernel_matrix.lab.sweep import chosen, published, try_version


def arguments(parser: argparse.ArgumentParser) -> None:
    """Between which versions, and what changes."""
    add_subject_options(parser)
    parser.add_argument("--good", required=True, help="a version in the old state")
    parser.add_argument("--bad", required=True, help="a later version in the new state")
    parser.add_argument("--pin", action="append", default=[], metavar="NAME=VERSION", help="beside it (repeatable)")


def main(options: argparse.Namespace) -> int:
    """Bisect, and say what changed where."""
    if bool(options.case) == bool(options.probe) or len(options.probe or ()) > 1:
        raise UserError("bisect follows one thing: name either one --probe or one --case.")
    subject = subject_of(options)
    versions = chosen(f"{options.good}..{options.bad}", published(options.package))
    if [str(versions[0]), str(versions[-1])] != [options.good, options.bad] or len(versions) < 2:
        raise UserError(f"--good {options.good} --bad {options.bad}: both must be published, the good one first.")
    pins = dict(text.split("=", 1) for text in options.pin if "=" in text)
    state = state_of_case if options.case else state_of_probe(options.probe[0])
    change = bisect(versions, lambda version: try_version(subject, str(version), pins), state, options.package)
    print(f"{options.package} {change.first_bad.version} changed {options.case or options.probe[0]}")
    print(f"  {change.last_good.version}: {change.old}")
    print(f"  {change.first_bad.version}: {change.new}")
    print(f"  tried {len(change.tried)} of {len(versions)} versions: {', '.join(change.tried)}")
    others = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in change.elsewhere.items())
    print(f"  what else changed between the two environments: {others or 'nothing'}")
    return 0
