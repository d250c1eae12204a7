"""Checks that the files and folders that matrix.yaml names exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
                yield ("package", key), f"the {kind} '{name}' does not exist. Correct the path."


def locks(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the lock files that do not exist."""
    named: list[tuple[Place, str]] = [
        (("toolchains", name, "lock"), toolchain.lock) for name, toolchain in matrix.toolchains.items()
    ]
    for name, platform in matrix.platforms.items():
        places = (
            (("platforms", name, "toolchains", index, "lock"), one.lock) for index, one in enumerate(platform.entries)
        )
        named += [(place, lock) for place, lock in places if lock]
    absent = {lock for lock in {lock for _, lock in named} if not files_of(root, lock)}
    yield from (_absent(root, place, lock) for place, lock in named if lock in absent)


def _absent(root: Path, place: Place, lock: str) -> Fault:
    known = sorted(str(path.relative_to(root)) for path in (root / lock).parent.glob("*.txt"))
    can_be_made = any((root / name).is_file() for name in names_of(lock) if name.endswith(".in"))
    remedy = f" Make it: `kernel-matrix lock {Path(lock).stem}`" if can_be_made else did_you_mean(lock, known)
    return place, f"the lock file '{lock}' does not exist.{remedy}"


def containers(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the Dockerfiles that do not exist."""
    for name, platform in matrix.platforms.items():
        if platform.container and not (root / platform.container).is_file():
            text = f"the Dockerfile '{platform.container}' does not exist. Correct the path."
            yield ("platforms", name, "container"), text


def links(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the links of expectations and exclusions to files that do not exist. An address is not asked for."""
    for section, index, rule in matrix.rules:
        file = rule.link.partition("#")[0]
        if not rule.link.startswith("https://") and not (root / file).is_file():
            yield (section, index, "link"), f"the file '{file}' does not exist. Correct it, or write https://."


def last_results(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the folders of last results, of resource limits, that have no tables."""
    for index, entry in enumerate(matrix.resources):
        tables = ("cases/*.parquet", "cases.parquet")  # of runs, and of packed sets
        if entry.last and not any(path for name in tables for path in (root / entry.last).rglob(name)):
            text = f"the folder '{entry.last}' has no tables of results. Correct the path."
            yield ("resources", index, "last"), text
