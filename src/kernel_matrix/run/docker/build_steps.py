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


@dataclass
class Steps:
    """The steps of a build, as the engine prints them."""

    recipe: Recipe
    say: Callable[[str], None]
    step: str = ""
    layer: str = ""  # the image after the step before

    def __post_init__(self) -> None:
        self._printed = Printed(self.recipe.name, self.say)  # by this step

    def follow(self, output: Iterator[Mapping[str, Any]]) -> None:
        """Say each step of a build.

        Raises:
            InstallError: a step failed.
        """
        faults: list[str] = []
        for line in lines_of(output, faults):
            self._take_in(line)
        if faults:
            lines = self._printed.lines
            text = "\n".join([self.step, *lines, faults[0]])
            step = self.step.split(" :")[0].lower() or "build"
            reason = lines[-1] if lines else faults[0]
            raise InstallError(f"{text}\n{self.recipe.dockerfile}: {step}: {reason}")

    def _take_in(self, line: str) -> None:
        """Take in one line of the output."""
        if layer := _LAYER.fullmatch(line):
            self.layer = layer[1]
        elif line.startswith("Step "):
            self.step, self._printed = line, Printed(self.recipe.name, self.say)
            self.say(f"{self.recipe.name}: {line[:100]}")
        elif not line.startswith((" ---> ", "Removing intermediate container")):
            self._printed.take_in(line)


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
