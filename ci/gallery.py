#!/usr/bin/env python3
"""Try published packages as a stranger would, and write a table of what became of each.

    ci/gallery.py [--into FOLDER] [--sample N] NAME==VERSION ...

Each source archive is fetched by pip and unpacked, `kernel-matrix init` and `kernel-matrix matrix` run in it, and one
row says how long they took and what was found. Nothing of a package is changed. 1: a command could not be run at all.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HEAD = "| package | imports | `init` | `matrix` | what the page says |\n| --- | --- | --- | --- | --- |"


def fetched(name: str, folder: Path) -> Path:
    """Fetch the source archive of a package, unpack it, commit it as a user would, and return its folder.

    Raises:
        CalledProcessError: there is no such archive, or it cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = name.partition("==")[0]
    found = shutil.which("pip")  # an environment that uv has made has none
    pip = [
        *([found] if found else [sys.executable, "-m", "pip"]),
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        plain,
        "--dest",
        str(folder),
    ]
    subprocess.run([*pip, "--no-binary", plain, "--dest", str(folder), name], check=True)
    archive = max(folder.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    root = folder / archive.name.removesuffix(".tar.gz")
    for words in (["init", "-q"], ["add", "--all"], ["commit", "-qm", "as published"]):
        subprocess.run(
            ["git", "-c", "user.name=gallery", "-c", "user.email=gallery@localhost", *words], cwd=root, check=True
        )
    return root


def timed(root: Path, *words: str) -> tuple[int, str, float]:
    """Run a command of kernel-matrix in a folder; return its status, what it printed, and how long it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "kernel_matrix", *words], cwd=root, check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - began


def row_of(name: str, root: Path, sample: int) -> str:
    """Return the row of a package: what `init` saw, the times, and the states on the page."""
    status, printed, seconds = timed(root, "init", "--no-run")
    imports = next((line.removeprefix("imports ") for line in printed.splitlines() if line.startswith("imports ")), "")
    if status:
        return f"| {name} | {imports} | {seconds:.0f} s, {status} | | {printed.strip().splitlines()[-1]} |"
    status, _, took = timed(root, "matrix", "--platform", "cpu", "--sample", str(sample))
    page = root / "build" / "site" / "compat.json"
    said = "no page"
    if page.is_file():
        states = json.loads(page.read_text(encoding="utf-8"))["run"]["cases_by_state"]
        said = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"| {name} | {imports} | {seconds:.0f} s | {took:.0f} s, {status} | {said} |"


def main() -> int:
    """Try each package, print its row, and go on where one cannot be fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME==VERSION")
    parser.add_argument("--into", type=Path, default=Path("build/gallery"), help="where the packages are unpacked")
    parser.add_argument("--sample", type=int, default=200, help="how many tests of each are run")
    options = parser.parse_args()
    print(HEAD, flush=True)
    failed = False
    for name in options.names:
        try:
            print(row_of(name, fetched(name, options.into / name), options.sample), flush=True)
        except (subprocess.CalledProcessError, OSError, ValueError, tarfile.TarError) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
