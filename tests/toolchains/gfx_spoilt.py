"""Spoil each handler of the emulator of AMD's GPUs, and print which spoilt ones its tests see, as JSON.

With a word it does so for the handlers whose opcode's name has it.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial

import gfx_by_hand
import gfx_numbers
import gfx_pseudocode
from spoilt import Test, spoil_all, told

from gpu_emulators.amd import library
from gpu_emulators.amd.names import NOTHING, common


def tests(some: str) -> Iterator[Test]:
    """Yield the tests of single instructions: what reaches a spoil, and what tells the same where nothing changed."""
    for family, (target, _) in gfx_pseudocode.FAMILIES.items():
        for form, code, constant in gfx_pseudocode.forms(family):
            name = form.split()[1]
            if name not in NOTHING and common(name) in library.handler_names() and re.search(some, name):
                yield (
                    f"{family} {form}",
                    partial(gfx_pseudocode.executed, code, target, family, form, 0),
                    partial(told, partial(gfx_pseudocode.told, family, form, code, constant)),
                )
    for program in (gfx_numbers, gfx_by_hand):
        test = partial(told, partial(printed, program.main))  # an error is told too: it is no silence
        yield program.__name__, test, test


def printed(main: Callable[[], object]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main()
    return output.getvalue()


def main() -> None:
    """Print each spoil."""
    spoil_all(library, partial(tests, "".join(sys.argv[1:])), whole=not sys.argv[1:])


if __name__ == "__main__":
    main()
