"""Checks that the files and folders that matrix.yaml names exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from kernel_matrix.base import git
from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.config.document import Fault, Place
from kernel_matrix.config.locks import files_of, names_of
from kernel_matrix.config.model import Matrix


def package(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the folders and files of the package that do not exist."""
    for key, kind in (
        ("source", "folder"),
        ("suite", "folder"),
        ("backends", "folder"),
        ("preflight", "script"),
        ("rules", "file"),
    ):
        value = getattr(matrix.package, key)
        for name in value if isinstance(value, list) else filter(None, [value]):
            if key in ("source", "suite") and matrix.package.build_commands:
                continue  # the build may make it
            exists = (root / name).is_dir() if kind == "folder" else (root / name).is_file()
            if not exists:
                yield (
                    ("package", key),
                    f"the {kind} '{name}' does not exist. {_remedy(root, name, 'Correct the path.')}",
                )


def locks(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the lock files that do not exist."""
    named = _locks(matrix)
    absent = {lock for lock in {lock for _, lock in named} if not files_of(root, lock)}
    yield from (_absent(root, place, lock) for place, lock in named if lock in absent)


def _locks(matrix: Matrix) -> list[tuple[Place, str]]:
    """Return each lock that is named, and where."""
    named: list[tuple[Place, str]] = [
        (("toolchains", name, "lock"), toolchain.lock) for name, toolchain in matrix.toolchains.items()
    ]
    for name, platform in matrix.platforms.items():
        places = (
            (("platforms", name, "toolchains", index, "lock"), one.lock) for index, one in enumerate(platform.entries)
        )
        named += [(place, lock) for place, lock in places if lock]
    return named


def _absent(root: Path, place: Place, lock: str) -> Fault:
    known = sorted(str(path.relative_to(root)) for path in (root / lock).parent.glob("*.txt"))
    can_be_made = any((root / name).is_file() for name in names_of(lock) if name.endswith(".in"))
    remedy = f"Make it: `kernel-matrix lock {Path(lock).stem}`" if can_be_made else did_you_mean(lock, known).strip()
    return place, f"the lock file '{lock}' does not exist. {_remedy(root, lock, remedy)}".strip()


def _remedy(root: Path, name: str, usual: str) -> str:
    """Return what to do about a file that is not there: it may be there where somebody made it, and ignored."""
    rule = git.ignored(root, [name]).get(name)
    return f"{ignored_words(name, rule)} {usual}".strip() if rule else usual


def ignored_words(name: str, rule: str) -> str:
    """Return the sentence about a file that git ignores by a rule."""
    return f"Git ignores it ({rule}), so other checkouts do not get it. Where it is: `git add --force {quote(name)}`."


def ignored(matrix: Matrix, root: Path, file: Path | None) -> Iterator[str]:
    """Yield a sentence for each file that ``matrix.yaml`` names, and for itself, that is there and that git ignores."""
    locks = [path for _, lock in _locks(matrix) for path in files_of(root, lock)]
    rules = matrix.package.rules
    named = [
        root / name for name in (matrix.package.preflight, *(rules if isinstance(rules, list) else [rules])) if name
    ]
    named += [root / platform.container for platform in matrix.platforms.values() if platform.container]
    there = [path.relative_to(root).as_posix() for path in (*([file] if file else []), *locks, *named)]
    for name, rule in git.ignored(root, dict.fromkeys(there)).items():
        yield f"{name}: {ignored_words(name, rule)}"


def containers(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the Dockerfiles that do not exist."""
    for name, platform in matrix.platforms.items():
        if platform.container and not (root / platform.container).is_file():
            remedy = _remedy(root, platform.container, "Correct the path.")
            text = f"the Dockerfile '{platform.container}' does not exist. {remedy}"
            yield ("platforms", name, "container"), text


def links(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the links of expectations and exclusions to files that do not exist. An address is not asked for."""
    for section, index, rule in matrix.rules:
        file = rule.link.partition("#")[0]
        if not rule.link.startswith("https://") and not (root / file).is_file():
            remedy = _remedy(root, file, "Correct it, or write https://.")
            yield (section, index, "link"), f"the file '{file}' does not exist. {remedy}"


def last_results(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the folders of last results, of resource limits, that have no tables."""
    for index, entry in enumerate(matrix.resources):
        tables = ("cases/*.parquet", "cases.parquet")  # of runs, and of packed sets
        if entry.last and not any(path for name in tables for path in (root / entry.last).rglob(name)):
            text = f"the folder '{entry.last}' has no tables of results. Correct the path."
            yield ("resources", index, "last"), text
