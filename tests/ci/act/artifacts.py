"""Keep and fetch artifacts, as folders of ACT_STORE: what the stand-ins of the artifact actions run.

Like the actions, it leaves out hidden files, names what it keeps from the folder on that all patterns agree, refuses a
name that is taken, and makes no folder of its own for an artifact that was named.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

STORE = Path(os.environ["ACT_STORE"])


def upload(name: str, patterns: str, none: str, overwrite: str) -> str:
    """Keep the files of the patterns, and return a line about it, or an error's."""
    roots, files = [], []
    for pattern in filter(None, map(str.strip, patterns.splitlines())):
        found = sorted(Path().glob(pattern)) if "*" in pattern else [Path(pattern)]
        files += [file for path in found for file in plain_files(path)]
        roots.append(Path(pattern.partition("*")[0]) if "*" in pattern else root_of(Path(pattern)))
    if not files:
        return f"no files were found: {patterns!r}" if none != "error" else sys.exit(f"no files: {patterns!r}")
    into = STORE / name
    if into.exists() and overwrite != "true":
        sys.exit(f"an artifact named {name} already exists in this run")
    shutil.rmtree(into, ignore_errors=True)
    top = Path(os.path.commonpath(roots))
    for file in files:
        (into / file.relative_to(top)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, into / file.relative_to(top))
    return f"kept {len(files)} files as {name}"


def root_of(path: Path) -> Path:
    """Return the folder that the files of a path without a pattern are named from."""
    return path if path.is_dir() else path.parent


def plain_files(path: Path) -> Iterator[Path]:
    """Yield the files of a path that are not hidden."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file() and not any(part.startswith(".") for part in file.parts):
            yield file


def download(name: str, pattern: str, into: str, merge: str) -> str:
    """Fetch one artifact, or all of a pattern, and return a line about it. A pattern may name none."""
    if name:
        if not (STORE / name).is_dir():
            sys.exit(f"there is no artifact named {name}")
        shutil.copytree(STORE / name, into, dirs_exist_ok=True)
        return f"fetched {name}"
    kept = sorted(path for path in STORE.iterdir() if path.is_dir() and fnmatch.fnmatchcase(path.name, pattern))
    for artifact in kept:
        # The action makes no folder if there is only one artifact.
        own = len(kept) > 1 and merge != "true"
        shutil.copytree(artifact, Path(into, artifact.name) if own else into, dirs_exist_ok=True)
    return f"fetched {[artifact.name for artifact in kept]}"


if __name__ == "__main__":
    print({"upload": upload, "download": download}[sys.argv[1]](*sys.argv[2:]))
