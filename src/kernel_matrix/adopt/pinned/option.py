"""Offer the option of which versions a lock has: those that the repository pins, or the newest."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kernel_matrix.adopt.pinned.repository import Pins, pins_of
from kernel_matrix.base.words import some

REPOSITORY, NEWEST = "repository", "newest"
_SHOWN = 5


def add(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--pins",
        choices=(REPOSITORY, NEWEST),
        default=REPOSITORY,
        help="which versions: what the repository's own locks, requirements and constraints pin, and the newest of "
        "what they do not (%(default)s); or the newest of all",
    )


class Choice(NamedTuple):
    """The pins that are to be kept, lines about the files, and whether the pins of some files are passed over."""

    pins: Pins
    lines: list[str]
    passed_over: bool


def chosen(choice: str, root: Path, python: str, *, near: Sequence[str] = (), without: Collection[Path] = ()) -> Choice:
    """Return what is chosen for a repository; with the newest versions no pins."""
    pins = pins_of(root, python, near=near, without=without)
    kept = pins if choice == REPOSITORY else Pins()
    return Choice(kept, list(_lines(choice, pins)), bool(pins.files()) and not kept.files())


def _lines(choice: str, pins: Pins) -> Iterator[str]:
    """Yield which files pin versions, and what could not be read."""
    files = [f"{file} ({count})" for file, count in pins.files().items()]
    listed = some(files, _SHOWN)
    if choice == NEWEST:
        yield f"the newest versions{f', and not those of {listed}' if files else ''}"
        return
    none = "no lock, constraints or requirements here pin a version: the newest that the package allows are taken"
    yield f"versions from {listed}" if files else none
    yield from pins.notes
