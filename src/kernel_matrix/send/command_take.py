"""Take the results that a person outside the project has signed and sent.

Their signature is checked with the keys of their account. The page shows the results as their word, and never as the
project's own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.commands import here
from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.send.account import signers_of
from kernel_matrix.store import signed_file, told_results
from kernel_matrix.store.signing import signed_by_one_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the file, and whose it is."""
    parser.add_argument("--from", dest="file", type=Path, metavar="FILE", required=True, help="the file that was sent")
    parser.add_argument("--by", dest="account", metavar="ACCOUNT", required=True, help="who sent it, at GitHub")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="public keys of the account (those GitHub gives)")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="the folder of results (build/results)")
    add_matrix_options(parser)


def main(options: argparse.Namespace) -> int:
    """Check the file and keep what is in it."""
    project = load_project(options)
    signed = signed_file.read(options.file)
    inventory, account = signed.inventory, options.account
    if inventory.by.casefold() != account.casefold():
        raise UserError(f"{options.file}: {inventory.by} has made it, and not {account}.")
    if inventory.package != project.matrix.package.name:
        raise UserError(f"{options.file}: it is of {inventory.package}, and not of {project.matrix.package.name}.")
    signers = signers_of(inventory.by, options.keys)
    key, why = signed_by_one_of(signed.content, signed.signature, inventory.by, signers)
    if not key or key != inventory.key:
        why = why or f"{key} has, and the file says {inventory.key}"
        raise UserError(f"{options.file}: no key of {account} has signed it, or it was changed since ({why}).")
    folder = told_results.write(signed, options.into or project.results)
    ended = ", ".join(f"{number} {outcome}" for outcome, number in sorted(inventory.outcomes.items()))
    print(f"{folder}: {ended}, of commit {inventory.commit or '(none)'}, signed by {inventory.by} with {key}")
    print(here(f"`kernel-matrix report {options.into or ''}".rstrip() + "` shows it as this person's word."))
    return 0
