"""Run what your device can, and write one signed file for the project to take.

The file is text: the versions and facts of the jobs, the figures and messages of every case, and a signature with your
SSH key. Folders of your machine and of your home stand in it as "." and "~".
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.options import (
    add_matrix_options,
    add_run_options,
    add_selection_options,
    project_to_run,
    settings_of,
)
from kernel_matrix.run.progress import Console
from kernel_matrix.send import sending
from kernel_matrix.store.signed_file import ACCOUNT
from kernel_matrix.store.signing import fingerprint_of, key_to_use
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: who sends it, with which key, and which part of the plan is run."""
    parser.add_argument("--as", dest="account", metavar="ACCOUNT", required=True, help="your account at GitHub")
    parser.add_argument("--key", type=Path, help="your SSH key; a public one if an agent has the other half (~/.ssh)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="the file to write (build/ACCOUNT-HASH.txt)")
    add_matrix_options(parser)
    add_selection_options(parser)
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run, and write the file, also of results that did not pass."""
    if not ACCOUNT.fullmatch(options.account):
        raise UserError(f"--as {options.account}: no account at GitHub has such a name.")
    project, selected = project_to_run(options)
    key = key_to_use(options.key)
    fingerprint_of(key)  # whoever cannot sign need not wait for the run
    machine = detect()
    selected = sending.selected_here(project, selected, machine, all_vendors=bool(options.platform))
    settings = settings_of(options, project, selected)
    with Console(selected.jobs) as console:
        records = sending.run(project, selected, machine, settings, console)
    if not records:
        raise UserError("no job has left a result, so there is nothing to send.")
    hide = {str(project.root): ".", str(Path.home()): "~"}
    made = sending.signed(
        project, records, options.account, key, {name: word for name, word in hide.items() if name != os.sep}
    )
    path = options.to or project.build / f"{made.name}.txt"
    sending.write(made, path)
    ended = ", ".join(f"{number} {outcome}" for outcome, number in sorted(made.inventory.outcomes.items()))
    print(f"{path}: {len(made.bytes)} bytes, {ended}, signed with {made.inventory.key}")
    print("It is plain text: read it, then send it to the project, for example in an issue.")
    return 0
