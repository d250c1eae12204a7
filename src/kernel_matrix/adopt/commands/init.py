"""Write matrix.yaml and all that it needs for a repository that has none, and run the first cell."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kernel_matrix.adopt import describe, first_cell, terminal
from kernel_matrix.adopt.pinned import option
from kernel_matrix.adopt.proposal import LOCKS, demand_no_status, propose
from kernel_matrix.adopt.recognize import recognize
from kernel_matrix.adopt.repository import look
from kernel_matrix.adopt.writing import admit, refuse_where_nothing_can_be_written, write
from kernel_matrix.base.commands import here
from kernel_matrix.base.words import counted
from kernel_matrix.config.load import MATRIX_FILE, load_unchecked
from kernel_matrix.config.locks import lock_file
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.run.progress import Console, Lines
from kernel_matrix.vendors.machine import Machine, detect

_NO_TEST = "no test of the suite could be collected, so none has run. This is why:"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: where, and whether anything is run."""
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's root (this folder)")
    parser.add_argument("--suite", metavar="FOLDER", help="the folder of the tests, if it is not found")
    option.add(parser)
    parser.add_argument("--no-run", action="store_true", help="write the files only")


def main(options: argparse.Namespace) -> int:
    """Look, write, and run the first cell. 1: it is red, or there is no test to run."""
    root = options.root.resolve()
    refuse_where_nothing_can_be_written(root)
    repository = look(root, options.suite)
    near = [name for name in (repository.source, repository.suite) if name]
    choice = option.chosen(options.pins, root, repository.python, near=near)
    print(here("\n".join([*terminal.seen_lines(repository), *choice.lines])), flush=True)
    operators = describe.chosen(recognize(repository))
    print("\n".join(describe.lines(operators)), end="\n" if operators else "", flush=True)
    proposed = propose(repository, detect(), choice.pins, operators)
    print("\n".join([*write(root, proposed.files), *admit(root, proposed.files), *proposed.notes]), flush=True)
    status, idle, has_run = 0, None, True
    if repository.suite is not None and not options.no_run:
        status, idle, has_run = _run(root)
    elif repository.suite is not None:
        print("nothing was run, so whether a test runs without a GPU, and how long all take, is not known")
    if idle:
        demand_no_status(root, proposed.files)
    lock = lock_file(root, f"{LOCKS}/{proposed.toolchain}.txt").relative_to(root)
    too_new = bool(status) and choice.passed_over
    sample = None if repository.suite is None else load_unchecked(root / MATRIX_FILE).package.sample
    steps = terminal.next_lines(repository, lock, options.root, may_be_too_new=too_new, sample=sample, idle=idle)
    if not (has_run or idle):
        print("next: mend what is red above: no test can run before")
    print("\n".join(f"next: {here(line)}" for line in steps))
    return status


def _run(root: Path) -> tuple[int, first_cell.Idle | None, bool]:
    """Run the first cell, and print what became of it.

    The values: 1 if it is red or no test has run; why no test runs here; and whether one has run, or had no time.
    """
    machine = detect()
    began = time.monotonic()
    project, attempts, is_test = first_cell.choose(root / "matrix.yaml", machine, Lines())
    is_late = not is_test and time.monotonic() - began >= first_cell.SECONDS
    ended = first_cell.Ended([])
    all_ended: list[tuple[first_cell.Ended, int]] = []
    for selected in attempts:
        cases = selected.jobs[0].cases
        first = f"the first cell: {cases[0].cell.id}: its first {counted(len(cases), 'test')}"
        print(first if is_test else _NO_TEST, flush=True)
        with Console(selected.jobs) as console:
            ended = first_cell.run(project, selected, machine, console, first_cell.SECONDS / len(attempts))
        print("\n".join(ended.lines))
        all_ended.append((ended, len(cases)))
        is_late |= ended.is_cut
        if ended.ran:
            break
    if is_late:
        print(here(first_cell.on_time(project)))
    if not ended.ran:
        print("No test has run on this machine, so nothing is known of the package yet.")
    page = first_cell.page(project, attempts[0])
    is_red = ended.red or not ended.ran or not is_test
    spread = first_cell.spread(project, sum(tried for _, tried in all_ended)) if ended.ran else None
    if spread:
        is_red |= _try_spread(project, spread, machine)
    print(f"page: {page}")
    return int(is_red), first_cell.idle(all_ended), ended.ran or is_late


def _try_spread(project: Project, selected: Selected, machine: Machine) -> bool:
    """Run tests spread over the suite, print what became of them, and return whether one is red."""
    print(f"{counted(len(selected.jobs[0].cases), 'test')} spread over the suite:", flush=True)
    with Console(selected.jobs) as console:
        ended, sample = first_cell.try_spread(project, selected, machine, console)
    is_slow = ended.is_cut and not ended.red
    print("not all of them ended in their time, and none that did is red" if is_slow else "\n".join(ended.lines))
    if not ended.is_cut:
        first_cell.page(project, selected)
    if sample:
        print(first_cell.write_sample(project.root / MATRIX_FILE, sample))
    return ended.red
