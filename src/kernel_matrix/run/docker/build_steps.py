"""The steps of a build, read from the output of the engine: every version of the engine prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_matrix.run.docker.recipe import Recipe
from kernel_matrix.run.executors import InstallError

_LAYER = re.compile(r" ---> ([0-9a-f]{12,})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TAIL = 40  # lines of a failed step that its error shows


@dataclass
class Printed:
    """The last lines that a process printed. Those that say what it is making are said as they come."""

    name: str
    say: Callable[[str], None]
    lines: list[str] = field(default_factory=list)

    def take_in(self, line: str) -> None:
        """Take in one line."""
        if line.strip():
            self.lines = [*self.lines, line.rstrip()][-_TAIL:]
            if line.startswith("making "):
                self.say(f"{self.name}: {line}")


def follow_steps(recipe: Recipe, output: Iterator[Mapping[str, Any]], say: Callable[[str], None]) -> str:
    """Say each step of a build, and return the id of the image after the last one.

    Raises:
        InstallError: a step failed.
    """
    step = layer = ""
    printed, faults = Printed(recipe.name, say), list[str]()
    for line in lines_of(output, faults):
        if found := _LAYER.fullmatch(line):
            layer = found[1]
        elif line.startswith("Step "):
            step, printed = line, Printed(recipe.name, say)
            say(f"{recipe.name}: {line[:100]}")
        elif not line.startswith((" ---> ", "Removing intermediate container")):
            printed.take_in(line)
    if faults:
        text = "\n".join([step, *printed.lines, faults[0]])
        reason = printed.lines[-1] if printed.lines else faults[0]
        raise InstallError(f"{text}\n{recipe.dockerfile}: {step.split(' :')[0].lower() or 'build'}: {reason}")
    return layer


def lines_of(output: Iterator[Mapping[str, Any]], faults: list[str]) -> Iterator[str]:
    """Yield the output of a build by lines, and append its faults to ``faults``.

    An engine sends pieces that end anywhere. It colours what a step writes to stderr, which begins a line of its own.
    """
    rest, rest_is_coloured = "", False
    for message in output:  # to its end, also after a fault: that closes the connection
        piece = str(message.get("stream", ""))
        is_coloured = bool(_COLOUR.search(piece))
        if rest and is_coloured != rest_is_coloured:
            yield rest
            rest = ""
        *whole, rest = re.split(r"[\r\n]", rest + _COLOUR.sub("", piece))
        rest_is_coloured = is_coloured
        yield from whole
        if message.get("error"):
            faults.append(str(message["error"]))
    if rest:
        yield rest
