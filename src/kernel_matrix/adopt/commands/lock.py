"""Resolve the locks of the toolchains anew from their files of requirements (*.in), or those that are named.

There is one lock for each kind of build that a platform installs. If one cannot be resolved, none of them is written.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.specifiers import SpecifierSet

from kernel_matrix.adopt import lock, verify
from kernel_matrix.adopt.pinned import option
from kernel_matrix.base.errors import UserError
from kernel_matrix.config import locks
from kernel_matrix.config.load import load_unchecked
from kernel_matrix.config.model import Matrix


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which locks, and which versions."""
    parser.add_argument("--matrix", type=Path, default=Path("matrix.yaml"), help="the configuration")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a lock, by its name without .txt; all by default")
    option.add(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="write nothing: ask the index, for each Python, whether every lock can be installed and pins all of it",
    )
    parser.add_argument(
        "--machine",
        default="x86_64-manylinux_2_36",
        help="with --verify: the machines with Linux, in uv's words (%(default)s)",
    )


def main(options: argparse.Namespace) -> int:
    """Write the locks, and say which; one that is not there yet is made. With --verify, 1: one cannot be installed."""
    matrix, root = load_unchecked(options.matrix), options.matrix.resolve().parent
    by_name = {Path(name).stem: name for name in matrix.locks}
    for name in options.names:
        if name not in by_name:
            raise UserError(f"{name}: no toolchain has this lock. There are: {', '.join(by_name)}.")
    wanted = [by_name[name] for name in options.names] or [*by_name.values()]
    return (
        _verify(matrix, root, wanted, options.machine) if options.verify else _write(matrix, root, wanted, options.pins)
    )


def _write(matrix: Matrix, root: Path, wanted: list[str], choice: str) -> int:
    kinds = locks.kinds_of(matrix)
    own = [root / name for one in matrix.locks for name in locks.names_of(one)]
    made, said = {}, set[str]()
    for name in wanted:
        source = (root / name).with_suffix(".in")
        if (kind := locks.kind_in(name)) and (others := ", ".join(sorted(set(kinds[name]) - {kind}))):
            plain = f"{Path(source.stem).stem}.txt"
            raise UserError(
                f"{name} is a lock for {kind}, and {others} is asked for too. Write {plain} in matrix.yaml."
            )
        if kinds[name] and not any(path.is_file() for path in lock.sources(source)):
            raise UserError(f"{source}: there is no such file. Write into it what {Path(name).name} is made from.")
        if kinds[name]:
            pythons = _pythons(matrix, name)
            pins, about, _ = option.chosen(choice, root, pythons[0], near=[matrix.package.source], without=own)
            for line in about:
                if line not in said:
                    print(line, flush=True)
            said |= {*about}
            try:
                made[name] = lock.resolve(source, kinds[name], pythons=pythons, pins=pins)
            except UserError as error:
                raise lock.with_remedy(error) from None
    for name, of_kinds in made.items():
        print("\n".join([*of_kinds.write(root, name), *of_kinds.notes]), flush=True)
    return 0


def _pythons(matrix: Matrix, name: str) -> tuple[str, ...]:
    """Return the Pythons that the toolchains of a lock are for."""
    of_entries = (toolchain for (_, toolchain), own in matrix.own_locks.items() if own == name)
    users = {*of_entries, *(key for key, toolchain in matrix.toolchains.items() if toolchain.lock == name)}
    ranges = [SpecifierSet(matrix.toolchains[user].python) for user in users if user in matrix.toolchains]
    return tuple(one for one in lock.PYTHONS if any(one in allowed for allowed in ranges)) or lock.PYTHONS[:1]


def _verify(matrix: Matrix, root: Path, wanted: list[str], machine: str) -> int:
    """Print what the index says of each lock. 1: one cannot be installed, or nothing answers."""
    kinds = locks.kinds_of(matrix)
    asked = [
        (path, kind, _pythons(matrix, name))
        for name in wanted
        for path, kind in {locks.lock_file(root, name, kind): kind for kind in kinds[name]}.items()
    ]
    if absent := [path.name for path, *_ in asked if not path.is_file()]:
        raise UserError(f"{', '.join(absent)}: there is no such file. Make it: `kernel-matrix lock`")
    status, silent = 0, set[str]()
    with ThreadPoolExecutor(2) as pool:
        found = [[pool.submit(verify.ask, path, kind, one, machine) for one in each] for path, kind, each in asked]
        for answers in ([future.result() for future in group] for group in found):
            print(verify.in_words(answers), flush=True)
            status |= any(answer.fault for answer in answers)
            silent |= {answer.stands_in for answer in answers if answer.stands_in}
    for backend in sorted(silent):
        print(f"the index of the builds {backend} does not answer: what builds.toml says of them was taken")
    return int(status)
