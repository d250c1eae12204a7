"""A platform's image: built from its Dockerfile by an engine, and found again by the content of what went in."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import docker
import docker.errors

from kernel_matrix.base.git import commit
from kernel_matrix.base.locking import locked
from kernel_matrix.run.docker import bundle, network
from kernel_matrix.run.docker.engine import ERRORS, answering, explained
from kernel_matrix.run.executors import InstallError

PREFIX = "kernel-matrix"
PYTHON = "/usr/bin/python3.11"  # what the environments of every image are made with
_SHARES = "ARG TOOLCHAINS"  # is in a Dockerfile that is made from the shared image
SHARED = "toolchains"  # the folder, beside those of the platforms, of the image that theirs are made from
_PIN = re.compile(r"^ARG (\w+)=(\S+)@(sha256:[0-9a-f]{64})$", re.MULTILINE)
_TORCH = re.compile(r"^ARG TORCH=(\S+)$", re.MULTILINE)
_LAYER = re.compile(r" ---> ([0-9a-f]{12,})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SILENT_SECONDS = 3600  # an engine that says nothing for so long is not waited for
_TAIL = 40  # lines of a failed step that its error shows


@dataclass(frozen=True)
class Image:
    """An image that an engine has."""

    reference: str
    id: str


@dataclass(frozen=True)
class Recipe:
    """What an image is made from. ``transient`` is for the build alone: it leaves no trace and makes no other image."""

    name: str
    dockerfile: str
    files: Mapping[str, bytes]
    arguments: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    transient: Callable[[], Mapping[str, bytes | Path]] = dict

    @property
    def reference(self) -> str:
        """``kernel-matrix/cuda:5f0c...``: the name, and the hash of the content."""
        content = hashlib.sha256()
        for kind, entries in (("file", self.files), ("argument", {k: v.encode() for k, v in self.arguments.items()})):
            for name, data in sorted(entries.items()):
                content.update(f"{kind} {name} {hashlib.sha256(data).hexdigest()}\n".encode())
        return f"{PREFIX}/{self.name}:{content.hexdigest()[:12]}"


def python_of(lock: Path) -> str:
    """The interpreter, inside the image, of the environment that was made from ``lock``."""
    return f"/opt/kernel-matrix/{lock.stem}/bin/python"


def build(
    client: docker.DockerClient,
    root: Path,
    platform: str,
    dockerfile: Path,
    locks: Sequence[Path],
    *,
    gpu: bool,
    say: Callable[[str], None],
    before: Callable[[], None] = lambda: None,
) -> Image:
    """Make the platform's image with an environment for each of ``locks``, or take the one made from the same content.

    ``gpu``: with the build of PyTorch that the platform's GPUs need, instead of the one for CPUs. ``before`` is called
    before anything is built, and what it raises stops that.

    Raises:
        InstallError: the engine's own words: the last lines of the step that failed.
        MachineError: the engine itself failed.
    """
    with answering(f"to give the image of {platform}"):
        if carried := bundle.find(root, platform, content(dockerfile, locks, gpu=gpu)):
            if _found(client, carried.id) is None:
                bundle.load(client, root, say)
            return Image(carried.reference, carried.id)
        text = dockerfile.read_text(encoding="utf-8")
        arguments = _bases(client, text)
        if _SHARES in text:
            torch = _torch(text, gpu=gpu)
            shared = _shared(client, root, _beside(dockerfile), locks, torch)
            arguments["TOOLCHAINS"] = _made(client, shared, say, before).reference
        recipe = Recipe(platform, _name(dockerfile), _folder(dockerfile), arguments, _labels(root, platform, locks))
        return _made(client, recipe, say, before)


def content(dockerfile: Path, locks: Sequence[Path], *, gpu: bool) -> str:
    """The hash of what the repository puts into an image, wherever that is built and upon whichever base."""
    text = dockerfile.read_text(encoding="utf-8")
    files = _folder(dockerfile)
    if _SHARES in text:
        files |= {**_folder(_beside(dockerfile)), **_pins(locks), "torch": _torch(text, gpu=gpu).encode()}
    return Recipe("", "", files, {}).reference.partition(":")[2]


def _torch(text: str, *, gpu: bool) -> str:
    """The build of PyTorch: that which the Dockerfile names for machines with a GPU, or the one for CPUs."""
    return next(iter(_TORCH.findall(text)), "cpu") if gpu else "cpu"


def _beside(dockerfile: Path) -> Path:
    """The Dockerfile of what the platforms share."""
    return dockerfile.parents[1] / SHARED / "Dockerfile"


def _pins(locks: Sequence[Path]) -> dict[str, bytes]:
    """The lock files, under the names that they have in the context."""
    return {f"ci/locks/{lock.name}": lock.read_bytes() for lock in sorted(set(locks))}


def _shared(client: docker.DockerClient, root: Path, dockerfile: Path, locks: Sequence[Path], torch: str) -> Recipe:
    """The recipe of the image with the environments."""
    pins = _pins(locks)
    wheels = network.wheels(pins.values())
    if torch == "cpu" and any(wheel.name.startswith("torch-") for wheel in wheels):
        torch = ""
    return Recipe(
        SHARED,
        _name(dockerfile),
        {**_folder(dockerfile), **pins},
        {**_bases(client, dockerfile.read_text(encoding="utf-8")), "TORCH_BACKEND": torch},
        _labels(root, SHARED, ()),
        lambda: {f"build/site/{name}": data for name, data in network.site(wheels).items()},
    )


def _name(dockerfile: Path) -> str:
    return f"containers/{dockerfile.parent.name}/{dockerfile.name}"


def _folder(dockerfile: Path) -> dict[str, bytes]:
    """The Dockerfile and what lies beside it, under the names that they have in the context."""
    return {
        f"containers/{dockerfile.parent.name}/{path.relative_to(dockerfile.parent)}": path.read_bytes()
        for path in sorted(dockerfile.parent.rglob("*"))
        if path.is_file()
    }


def _bases(client: docker.DockerClient, text: str) -> dict[str, str]:
    """The base images of a Dockerfile by argument: what the user names, what ci/base-images made here, or the pin."""
    bases = {}
    for argument, tag, digest in _PIN.findall(text):
        bases[argument] = os.environ.get(f"KERNEL_MATRIX_{argument}") or f"{tag}@{digest}"
        if bases[argument] == f"{tag}@{digest}":
            try:
                local = client.images.get(tag)
            except docker.errors.ImageNotFound:
                continue
            if "kernel-matrix.base" in (local.labels or {}):
                bases[argument] = str(local.id)
    return bases


def _labels(root: Path, name: str, locks: Sequence[Path]) -> dict[str, str]:
    pins = {lock.stem: lock.read_text(encoding="utf-8") for lock in sorted(set(locks))}
    return {
        "org.opencontainers.image.title": f"{PREFIX}/{name}",
        "org.opencontainers.image.revision": commit(root),
        **({"kernel-matrix.locks": hashlib.sha256("".join(pins.values()).encode()).hexdigest()} if pins else {}),
        **{
            f"kernel-matrix.versions.{stem}": " ".join(re.findall(r"^[\w.-]+==[^\s;]+", text, re.MULTILINE))
            for stem, text in pins.items()
        },
    }


def _made(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None], before: Callable[[], None]) -> Image:
    """The image of the recipe, which is built if the engine does not have it."""
    if image := _found(client, recipe.reference):
        return image
    # Two runs that want the same image do not build it twice.
    name = recipe.reference.replace("/", "-").replace(":", "-")
    with locked(Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}.lock", wait=True):
        if image := _found(client, recipe.reference):
            return image
        before()
        say(f"building {recipe.reference}")
        _build(client, recipe, say)
    return Image(recipe.reference, str(client.images.get(recipe.reference).id))


def _found(client: docker.DockerClient, reference: str) -> Image | None:
    """The image if the engine has it."""
    try:
        return Image(reference, str(client.images.get(reference).id))
    except docker.errors.ImageNotFound:
        return None


def _build(client: docker.DockerClient, recipe: Recipe, say: Callable[[str], None]) -> None:
    stages: list[str] = []
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
            _follow(recipe, output, say, stages)
        except docker.errors.APIError as error:  # it did not even begin: the Dockerfile cannot be read
            raise InstallError(f"{recipe.dockerfile}: {explained(error)}") from error
        finally:  # what only a stage had, a network's certificates among it, is not kept as a cache either
            for stage in stages:
                with suppress(*ERRORS):  # another build may have removed it, or made it its own
                    if "kernel-matrix.stage" in client.images.get(stage).labels:
                        client.images.remove(stage)


def _follow(recipe: Recipe, output: Iterator[dict[str, Any]], say: Callable[[str], None], stages: list[str]) -> None:
    """Say each step of a build, and note the images of the stages that the last one copied from, or the unfinished one.

    Raises:
        InstallError: a step failed.
    """
    step, lines, layer, errors = "", list[str](), "", list[str]()
    for line in lines_of(output, errors):
        if made := _LAYER.fullmatch(line):
            layer = made[1]
        elif line.startswith("Step "):
            if " : FROM " in line and layer:
                stages.append(layer)
            step, lines = line, []
            say(f"{recipe.name}: {line[:100]}")
        elif line.strip() and not line.startswith((" ---> ", "Removing intermediate container")):
            lines = [*lines, line.rstrip()][-_TAIL:]
            if line.startswith("making "):
                say(f"{recipe.name}: {line}")
    if not errors:
        return
    stages += [layer] if layer else []
    said = "\n".join([step, *lines, errors[0]])
    what = lines[-1] if lines else errors[0]
    raise InstallError(f"{said}\n{recipe.dockerfile}: {step.split(' :')[0].lower() or 'build'}: {what}")


def lines_of(output: Iterator[dict[str, Any]], errors: list[str]) -> Iterator[str]:
    """What a build prints, by lines: an engine sends it in pieces that end anywhere. Its own words go to ``errors``."""
    rest, rest_coloured = "", False
    for message in output:  # to its end, also after an error: that closes the connection
        piece = str(message.get("stream", ""))
        coloured = bool(_COLOUR.search(piece))  # by the engine, and came from stderr
        if rest and coloured != rest_coloured:
            yield rest
            rest = ""
        *whole, rest = re.split(r"[\r\n]", rest + _COLOUR.sub("", piece))
        rest_coloured = coloured
        yield from whole
        if message.get("error"):
            errors.append(str(message["error"]))
    if rest:
        yield rest


@contextmanager
def _context(files: Mapping[str, bytes | Path]) -> Iterator[IO[bytes]]:
    """The files as an archive that an engine takes."""
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
