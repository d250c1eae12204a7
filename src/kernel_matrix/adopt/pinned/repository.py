"""Find the files of a repository that pin versions, and decide which file's pin of a distribution counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.adopt.pinned import conda, lines, locks
from kernel_matrix.adopt.pinned.pin import OF_TESTS, Pin, Reader, is_aside, reason_of
from kernel_matrix.adopt.workspace import is_workspace

_Read = Callable[[Path, Reader], Iterator[Pin]]

_LIST = r"(.*[-_.])?(requirement|constraint)s?([-_.].*)?\.{}"
_NAMED = re.compile(r"(requirement|constraint|environment)s?", re.IGNORECASE)  # a folder with it: requirements/test.txt

# In one folder in this order: what a tool wrote for whole environments, what a person wrote, what is made from others.
_FILES: tuple[tuple[str, _Read], ...] = (
    (r"uv\.lock", locks.read),
    (r"pylock\.toml", locks.read),
    (r"pylock\.[^.]+\.toml", locks.read),
    (r"poetry\.lock", locks.read),
    (r"pdm\.lock", locks.read),
    (r"Pipfile\.lock", locks.read),
    (r"pixi\.lock|(.*[-.])?conda-lock\.ya?ml", conda.read_lock),
    (_LIST.format("lock"), lines.read),
    (_LIST.format("txt"), lines.read),
    (_LIST.format("in"), lines.read),
    (r"(conda|env|environments?)([-_.].*)?\.ya?ml", conda.read),
    (r"setup\.cfg", lines.of_setup_cfg),
    (r"pyproject\.toml", lines.of_pyproject),
)
_SKIPPED = {
    *("build", "dist", "node_modules", "site-packages", "__pycache__", "venv", "env", "third_party", "vendor"),
    *("docs", "doc", "examples", "example", "benchmarks", "benchmark"),
}
_DEPTH = 2
_LATE = re.compile(r"(?<![a-z])build", re.IGNORECASE)  # such files come after others, and those for the tests before


@dataclass(frozen=True)
class Pins:
    """The pins of a repository in the order of their files, and sentences about what could not be read.

    Of a distribution, the first pin of one version counts; where no file has one, all that it has count.
    """

    pins: tuple[Pin, ...] = ()
    notes: tuple[str, ...] = ()

    def deciding(self) -> dict[str, tuple[Pin, ...]]:
        """Return the pins that count, by the name of the distribution."""
        named: dict[str, list[Pin]] = {}
        for pin in self.pins:
            named.setdefault(pin.name, []).append(pin)
        return {name: tuple([pin for pin in found if pin.version][:1] or found) for name, found in named.items()}

    def preferred(self) -> list[str]:
        """Return a line for each distribution of which one version is wanted."""
        pins = [pin for found in self.deciding().values() for pin in found]
        return sorted(f"{pin.name}=={pin.version}" for pin in pins if pin.version)

    def constraints(self) -> dict[str, list[str]]:
        """Return by distribution the lines that want one version or some."""
        deciding = sorted(self.deciding().items())
        lines = {name: [f"{name}{pin.required}" for pin in pins if pin.required] for name, pins in deciding}
        return {name: found for name, found in lines.items() if found}

    def files(self) -> dict[str, int]:
        """Return the number of pins of each file, without what comes from a place."""
        return dict(Counter(pin.file for pin in self.pins if pin.required))

    def not_kept(self, locks: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return a sentence for each pin that locks do not keep, also where another file's pin came first.

        ``locks`` are the versions that each lock has, by its name.
        """
        sentences, deciding = [], self.deciding()
        for pin in self.pins:
            first, others = deciding[pin.name][0], dict[str, list[str]]()
            for lock, versions in locks.items():
                version = versions.get(pin.name, "")
                if version and not pin.admits(version):
                    after = pin != first and first.version and first.admits(version)
                    others.setdefault(version, []).append(f"{first.file}, which comes first," if after else lock)
            for version, names in others.items():
                unique = list(dict.fromkeys(names))
                sentences.append(
                    f"{pin.name}: {pin.text}, {', '.join(unique)} {'has' if len(unique) == 1 else 'have'} {version}"
                )
        return sentences


def pins_of(root: Path, python: str, *, near: Sequence[str] = (), without: Collection[Path] = ()) -> Pins:
    """Read all files of a repository that pin versions, without the network.

    The files of the root come first, then files of the folders that are ``near``, such as the package's, then files
    above, then the others. ``without`` are files that are left out: the locks that are made from these pins.
    """
    reader = Reader(root, python, seen={path.resolve() for path in without})
    pins: list[Pin] = []
    places = [root, *(root / name for name in near), *above(root)]
    for folder in dict.fromkeys((*places, *_below(root, _DEPTH))):
        for path, read in _files(folder):
            where = path.name if folder in places else path.relative_to(root).as_posix()
            if path.resolve() in reader.seen or is_aside(where):
                continue
            try:
                pins += read(path, reader)
            except (OSError, ValueError, RecursionError) as error:
                reader.notes.append(f"{reader.named(path)} cannot be read: {reason_of(error)}")
            reader.seen.add(path.resolve())
    return Pins(tuple(dict.fromkeys(pins)), tuple(dict.fromkeys(reader.notes)))


def lists_in(root: Path) -> Iterator[tuple[Path, _Read]]:
    """Yield the files of a repository that a person lists requirements in, and what reads each."""
    for folder in (root, *above(root), *_below(root, _DEPTH)):
        yield from ((path, read) for path, read in _files(folder) if read in (lines.read, conda.read))


def _files(folder: Path) -> Iterator[tuple[Path, _Read]]:
    """Yield the files of a folder that pin versions, in the order in which they count."""
    found = []
    for name in _names(folder):
        words = {name, f"{folder.name}-{name}" if _NAMED.fullmatch(folder.name) else name}
        for rank, (pattern, read) in enumerate(_FILES):
            if any(re.fullmatch(pattern, word, re.IGNORECASE) for word in words):
                found.append((rank, bool(_LATE.search(name)), not OF_TESTS.search(name), name, read))
                break
    for *_, name, read in sorted(found, key=lambda one: one[:-1]):
        if (folder / name).is_file() or (folder / name).is_symlink():
            yield folder / name, read


def above(root: Path) -> Iterator[Path]:
    """Yield the folders above, up to the one of the checkout, or to the last that is the root of a workspace."""
    folders = [*root.parents]
    inside = [number for number, folder in enumerate((root, *folders)) if (folder / ".git").exists()]
    workspaces = [number + 1 for number, folder in enumerate(folders) if is_workspace(folder)]
    yield from folders[: inside[0] if inside else max(workspaces, default=0)]


def _below(root: Path, depth: int) -> Iterator[Path]:
    """Yield the folders below; hidden ones, builds, examples and other checkouts are left out."""
    for name in _names(root):
        folder = root / name
        skipped = name.startswith(".") or name.lower() in _SKIPPED or "egg-info" in name
        if not skipped and folder.is_dir() and not folder.is_symlink() and not (folder / ".git").exists():
            yield folder
            if depth > 1:
                yield from _below(folder, depth - 1)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
