"""Search for shapes and values at which a kernel is wrong, for some minutes; or run a case of the fuzzer again."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence

from kernel_matrix.base.numbers import above_zero
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.run.settings import EXECUTORS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: how long, what, and with which seed."""
    add_matrix_options(parser)
    parser.add_argument("--minutes", type=above_zero, default=5.0, help="how long to search (5)")
    parser.add_argument("--seed", type=int, help="of the search; by default another one each time")
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--target", action="append", help="only this target (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument(
        "--case",
        action="append",
        metavar="OP.DIRECTION|NAME",
        help="only this operator; or run the case of this name, also behind its cell as the page has it",
    )
    parser.add_argument(
        "--executor", choices=[name for name in EXECUTORS if name != "container"], default="venv", help="where it runs"
    )


def main(options: argparse.Namespace) -> int:
    """Search, or run named cases again. 1: a case fails."""
    from kernel_matrix.tools.fuzz.run import Wish, repeat, search  # hypothesis takes long to import

    project = load_project(options)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    lanes, cases = _lanes_of(options.case or ())
    platforms, targets, toolchains = ({*lane} for lane in (zip(*lanes, strict=True) if lanes else ((), (), ())))
    wish = Wish(
        (*(options.platform or ()), *sorted(platforms)),
        (*(options.target or ()), *sorted(targets)),
        (*(options.toolchain or ()), *sorted(toolchains)),
        cases,
        60 * options.minutes,
        seed,
        options.executor,
    )
    return int((repeat if wish.names else search)(project, wish, print))


def _lanes_of(cases: Sequence[str]) -> tuple[list[tuple[str, str, str]], tuple[str, ...]]:
    """Return the lanes that stand before names, as the page has them, and the names without these."""
    lanes, names = [], []
    for case in cases:
        cell, found, name = case.rpartition("/fuzz:")
        if found and cell.count("/") == 3:
            platform, target, toolchain, _ = cell.split("/")
            lanes.append((platform, target, toolchain))
            case = f"fuzz:{name}"
        names.append(case)
    return lanes, tuple(names)
