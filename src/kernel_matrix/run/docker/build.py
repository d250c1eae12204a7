"""Build an image with the engine's own builder, and say how far it is."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import docker
import docker.errors

from kernel_matrix.base.locking import locked
from kernel_matrix.run.docker import network
from kernel_matrix.run.docker.engine import ERRORS, explained
from kernel_matrix.run.docker.recipe import Recipe
from kernel_matrix.run.executors import InstallError

STAGE = "kernel-matrix.stage"  # the label of a stage that is removed when the build ends
_LAYER = re.compile(r" ---> ([0-9a-f]{12,})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SILENT_SECONDS = 3600  # an engine that says nothing for so long is not waited for
_TAIL = 40  # lines of a failed step that its error shows


@dataclass(frozen=True)
class Image:
    """An image that an engine has."""

    reference: str
    id: str


def find(client: docker.DockerClient, reference: str) -> Image | None:
    """Return the image if the engine has it."""
    try:
        return Image(reference, str(client.images.get(reference).id))
    except docker.errors.ImageNotFound:
        return None


def make(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None], before: Callable[[], None]) -> Image:
    """Return the image of the recipe, which is built if the engine does not have it.

    Raises:
        InstallError: it cannot be built; the engine's own words.
    """
    if image := find(client, recipe.reference):
        return image
    # Two runs that want the same image do not build it twice.
    name = recipe.reference.replace("/", "-").replace(":", "-")
    with locked(Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}.lock", wait=True):
        if image := find(client, recipe.reference):
            return image
        before()
        say(f"building {recipe.reference}")
        _build(client, recipe, say)
    return Image(recipe.reference, str(client.images.get(recipe.reference).id))


def _build(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None]) -> None:
    """Build the image, and remove the stages that may not be kept."""
    steps = Steps(recipe, say)
    with _context({**recipe.files, **recipe.transient()}) as context:
        try:
            output = client.api.build(
                fileobj=context,
                custom_context=True,
                dockerfile=recipe.dockerfile,
                tag=recipe.reference,
                buildargs={**network.proxies(), **recipe.arguments},
                labels=dict(recipe.labels),
                rm=True,
                forcerm=True,
                decode=True,
                timeout=_SILENT_SECONDS,
            )
            steps.follow(output)
        except docker.errors.APIError as error:  # it did not even begin: the Dockerfile cannot be read
            raise InstallError(f"{recipe.dockerfile}: {explained(error)}") from error
        finally:  # what only a stage had, a network's certificates among it, is not kept as a cache either
            for stage in steps.stages:
                with suppress(*ERRORS):  # another build may have removed it, or made it its own
                    if STAGE in client.images.get(stage).labels:
                        client.images.remove(stage)


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
            where = self.step.split(" :")[0].lower() or "build"
            reason = self.lines[-1] if self.lines else faults[0]
            raise InstallError(f"{text}\n{self.recipe.dockerfile}: {where}: {reason}")

    def _take_in(self, line: str) -> None:
        """Take in one line of the output."""
        if made := _LAYER.fullmatch(line):
            self.layer = made[1]
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
    """Yield what a build prints, by lines: an engine sends pieces that end anywhere. Its faults go to ``faults``.

    What a step writes to stderr is coloured by the engine. It begins a line of its own.
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


@contextmanager
def _context(files: Mapping[str, bytes | Path]) -> Iterator[IO[bytes]]:
    """Yield the files as an archive that an engine takes."""
    with tempfile.TemporaryFile() as into:
        with tarfile.open(fileobj=into, mode="w") as archive:
            for name, content in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                if isinstance(content, Path):
                    entry.size = content.stat().st_size
                    with content.open("rb") as stream:
                        archive.addfile(entry, stream)
                else:
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
        into.seek(0)
        yield into
