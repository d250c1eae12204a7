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
class Steps:
    """The steps of a build, as the engine prints them."""

    recipe: Recipe
    say: Callable[[str], None]
    stages: list[str] = field(default_factory=list)  # images that the last stage copied from, or the unfinished one
    step: str = ""
    lines: list[str] = field(default_factory=list)  # the last ones that this step printed
    layer: str = ""  # the image after the step before

    def follow(self, output: Iterator[Mapping[str, Any]]) -> None:
        """Say each step of a build.

        Raises:
            InstallError: a step failed.
        """
        faults: list[str] = []
        for line in lines_of(output, faults):
            self._take_in(line)
        if faults:
            self.stages += [self.layer] if self.layer else []
            text = "\n".join([self.step, *self.lines, faults[0]])
            step = self.step.split(" :")[0].lower() or "build"
            reason = self.lines[-1] if self.lines else faults[0]
            raise InstallError(f"{text}\n{self.recipe.dockerfile}: {step}: {reason}")

    def _take_in(self, line: str) -> None:
        """Take in one line of the output."""
        if layer := _LAYER.fullmatch(line):
            self.layer = layer[1]
        elif line.startswith("Step "):
            if " : FROM " in line and self.layer:
                self.stages.append(self.layer)
            self.step, self.lines = line, []
            self.say(f"{self.recipe.name}: {line[:100]}")
        elif line.strip() and not line.startswith((" ---> ", "Removing intermediate container")):
            self.lines = [*self.lines, line.rstrip()][-_TAIL:]
            if line.startswith("making "):
                self.say(f"{self.recipe.name}: {line}")


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
