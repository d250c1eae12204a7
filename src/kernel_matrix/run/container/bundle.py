"""The bundle, an archive for a machine without a network: the source, wheels of the harness, images, checksums.

It has no goldens: every job computes its own, in float64, from inputs that the names of the cases determine.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import docker

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically, written_whole
from kernel_matrix.run.container.engine import SILENT_SECONDS, patience
from kernel_matrix.run.executors import InstallError

FOLDER = "bundle"  # in the unpacked source, next to matrix.yaml
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Carried:
    """An image in the archive: its platform, the content that it was made from, and its names in the engine."""

    platform: str
    content: str
    reference: str
    id: str


def write(
    client: docker.DockerClient,
    root: Path,
    commit: str,
    images: Sequence[Carried],
    wheels: Path,
    into: Path,
    say: Callable[[str], None],
) -> None:
    """Write the archive: one folder with the source tree, and in that a folder ``bundle`` with the rest.

    Raises:
        UserError: the source is not a git checkout, which says what belongs to it.
    """
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listing.returncode:
        raise UserError(f"{root}: a bundle is made from a git checkout: {listing.stderr.strip()}")
    into.parent.mkdir(parents=True, exist_ok=True)
    with (
        written_whole(into) as part,
        tarfile.open(part, "w") as archive,
        tempfile.TemporaryFile(dir=into.parent) as saved,
    ):
        writer = _Writer(archive, into.name.removesuffix(".tar"))
        for name in sorted(filter(None, listing.stdout.split("\0"))):
            writer.add_path(name, root / name)
        for wheel in sorted(wheels.iterdir()):
            writer.add_path(f"{FOLDER}/wheels/{wheel.name}", wheel)
        say(f"saving {len(images)} images")
        _save(client, [image.reference for image in images], saved)
        writer.add(f"{FOLDER}/images.tar", saved)
        writer.add(f"{FOLDER}/bundle.json", io.BytesIO(_description(commit, images)))
        writer.add(f"{FOLDER}/commit", io.BytesIO(commit.encode()))
        writer.add(f"{FOLDER}/SHA256SUMS", io.BytesIO(_lines_of(writer.sums)))


def write_images(
    client: docker.DockerClient, commit: str, images: Sequence[Carried], into: Path, say: Callable[[str], None]
) -> None:
    """Write the folder ``bundle`` with images alone, for a checkout of the same commit on another machine."""
    into.mkdir(parents=True, exist_ok=True)
    description = _description(commit, images)
    with written_whole(into / "images.tar") as part, part.open("w+b") as saved:
        say(f"saving {len(images)} images")
        _save(client, [image.reference for image in images], saved)
        sums = {f"{FOLDER}/images.tar": _digest(saved)}
    sums[f"{FOLDER}/bundle.json"] = _digest(io.BytesIO(description))
    write_atomically(into / "bundle.json", description)
    write_atomically(into / "SHA256SUMS", _lines_of(sums))


def _description(commit: str, images: Sequence[Carried]) -> bytes:
    """Return the file that says which images there are, and what each was made from."""
    return json.dumps({"commit": commit, "images": [asdict(image) for image in images]}, indent=1).encode()


def _lines_of(sums: Mapping[str, str]) -> bytes:
    """Return checksums by name as sha256sum reads them."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()


def find(root: Path, platform: str, content: str) -> Carried | None:
    """Return the bundle's image for that platform and content, if this source tree came with one."""
    description = root / FOLDER / "bundle.json"
    if not description.exists():
        return None
    entries = [Carried(**entry) for entry in json.loads(description.read_text(encoding="utf-8"))["images"]]
    return next((entry for entry in entries if (entry.platform, entry.content) == (platform, content)), None)


def load(client: docker.DockerClient, root: Path, say: Callable[[str], None]) -> None:
    """Load the images of the bundle into the engine.

    Raises:
        InstallError: their checksum is not the one that the bundle was written with.
    """
    name = f"{FOLDER}/images.tar"
    say(f"loading {name}")
    sums = (root / FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    digests = {path: digest for digest, path in (line.split("  ", 1) for line in sums)}
    with (root / name).open("rb") as file:
        if _digest(file) != digests.get(name):
            raise InstallError(f"{root / name}: damaged: {FOLDER}/SHA256SUMS has another SHA-256. Copy it again")
        file.seek(0)
        with patience(client):
            client.images.load(file)


class _Writer:
    """Add files to an archive, and keep their checksums."""

    def __init__(self, archive: tarfile.TarFile, folder: str) -> None:
        self.archive, self.folder, self.sums = archive, folder, dict[str, str]()

    def add_path(self, name: str, path: Path) -> None:
        """Add a file of this machine, executable if it is so here."""
        with path.open("rb") as file:
            self.add(name, file, 0o755 if path.stat().st_mode & 0o100 else 0o644)

    def add(self, name: str, file: IO[bytes], mode: int = 0o644) -> None:
        """Add a file from its beginning to its end."""
        self.sums[name] = _digest(file)
        entry = tarfile.TarInfo(f"{self.folder}/{name}")
        entry.size, entry.mode = file.seek(0, io.SEEK_END), mode
        file.seek(0)
        self.archive.addfile(entry, file)


def _digest(file: IO[bytes]) -> str:
    """Return the SHA-256 of a whole file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _save(client: docker.DockerClient, references: Sequence[str], into: IO[bytes]) -> None:
    """Save images as one archive, which holds the layers that they share once."""
    url = f"{client.api.base_url}/v{client.api.api_version}/images/get"
    answer = client.api.get(url, params={"names": list(references)}, stream=True, timeout=SILENT_SECONDS)
    answer.raise_for_status()
    for chunk in answer.iter_content(_CHUNK):
        into.write(chunk)
