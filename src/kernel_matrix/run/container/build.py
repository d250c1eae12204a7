"""Build an image with the engine's own builder, and report its steps."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import docker
import docker.errors

from kernel_matrix.base.locking import locked
from kernel_matrix.run.container import network
from kernel_matrix.run.container.engine import SILENT_SECONDS, explained
from kernel_matrix.run.container.recipe import Recipe
from kernel_matrix.run.executors import InstallError

_LAYER = re.compile(r" ?--?-> ([0-9a-f]{11,})")  # Docker's words, and podman's
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
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


def make(
    client: docker.DockerClient,
    recipe: Recipe,
    say: Callable[[str], None],
    before: Callable[[], None],
    build: Callable[[docker.DockerClient, Recipe, Callable[[str], None]], object] | None = None,
) -> Image:
    """Return the image of the recipe, which is built if the engine does not have it.

    ``build`` makes it under its name; by default the engine's builder does.

    Raises:
        InstallError: it cannot be built; the engine's own words.
    """
    if image := find(client, recipe.reference):
        return image
    # Two runs that want the same image do not build it twice.
    with locked(Path(tempfile.gettempdir()) / f"{name_of(recipe)}.lock", wait=True):
        if image := find(client, recipe.reference):
            return image
        before()
        say(f"building {recipe.reference}")
        (build or _build)(client, recipe, say)
    return Image(recipe.reference, str(client.images.get(recipe.reference).id))


def name_of(recipe: Recipe) -> str:
    """Return the name of what only one process of this user may have while the image of the recipe is made."""
    return f"{recipe.reference.replace('/', '-').replace(':', '-')}-{os.getuid()}"


def _build(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None]) -> None:
    follow(client, recipe, say, tag=recipe.reference, labels=dict(recipe.labels))


def follow(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None], **options: Any) -> str:
    """Let the engine build the recipe with options of its own, say each step, and return the id of the last layer.

    Raises:
        InstallError: it cannot be built; the engine's own words.
    """
    with context(recipe.files) as archive:
        try:
            output = client.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=recipe.dockerfile,
                buildargs={**network.proxies(), **recipe.arguments},
                rm=True,
                forcerm=True,
                decode=True,
                timeout=SILENT_SECONDS,
                **options,
            )
            return follow_steps(recipe, output, say)
        except docker.errors.APIError as error:  # the build did not begin: the Dockerfile cannot be read
            raise InstallError(f"{recipe.dockerfile}: {explained(error)}") from error


@contextmanager
def context(files: Mapping[str, bytes | Path]) -> Iterator[IO[bytes]]:
    """Yield the files as an archive that an engine takes."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name, content in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                if isinstance(content, Path):
                    entry.size = content.stat().st_size
                    with content.open("rb") as stream:
                        archive.addfile(entry, stream)
                else:
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
        file.seek(0)
        yield file


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
        elif line.startswith(("Step ", "STEP ")):
            step, printed = line, Printed(recipe.name, say)
            say(f"{recipe.name}: {line[:100]}")
        elif not line.startswith((" ---> ", "--> ", "Removing intermediate container")):
            printed.take_in(line)
    if faults:
        text = "\n".join([step, *printed.lines, faults[0]])
        reason = printed.lines[-1] if printed.lines else faults[0]
        raise InstallError(f"{text}\n{recipe.dockerfile}: {re.split(' ?:', step)[0].lower() or 'build'}: {reason}")
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
