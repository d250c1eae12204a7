#!/usr/bin/env python3
"""Try published packages as a stranger would, and write what became of each into the page of the gallery.

    ci/gallery.py [--into FOLDER] [NAME ...]

The source archive of each package is fetched by pip, unpacked and committed; `kernel-matrix init` and `kernel-matrix
matrix` run there, and the commands of the written workflow in a clone. Nothing of a package is changed. Without a name,
those are tried that the page has no row of, one after the other, and each row is written at once: who ends the script
goes on later where it stopped. 1: an archive could not be had.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorials" / "six-packages.md"
PACKAGES = {
    "lanczos-triton==0.1.0": "Triton",
    "bm3d-triton==0.1.1": "Triton",
    "simdpunk==0.1.0.dev1": "C++, scikit-build-core",
    "torchlpc==0.7.2": "C++ and CUDA C++, PyTorch's `setup.py`",
    "localcorr==0.1.1": "Triton, CUDA C++ and SYCL",
    "gdn2-pallas==0.1.1": "JAX and Pallas",
    "gswarp==1.1.0": "Warp",
    "numba-celltree==0.4.2": "Numba",
    "fasterkernels==0.2.0": "Triton, TileLang and CUDA C++",
    "conch-triton-kernels==1.3": "Triton, kernels of a serving engine",
}
HEAD = "| package | what it is | `init` | `matrix` | workflow | what the page says |\n" + "| --- " * 6 + "|"
NOT_RUN = "not run here"
_TABLE = re.compile(r"(?<=<!-- gallery -->\n).*?(?=<!-- end of the gallery -->)", re.DOTALL)
_SEEN = re.compile(r"comparisons see (\d+ of \d+) known faults")
_NO_MATRIX = re.compile(r"^(.*), so no matrix\.yaml is written", re.MULTILINE)
_CAUSE = re.compile(r"^ *cause: .*\[([a-z0-9-]+)\]$", re.MULTILINE)
_LIMIT, _LONGEST = 900, 160  # seconds of a command; characters of what it said


class Done(NamedTuple):
    """Keep how a command ended, what it printed, and its seconds on the clock and on the cores."""

    status: int
    printed: str
    seconds: float
    cpu: float

    def __str__(self) -> str:
        """Return it as a field of the table."""
        status = f", status {self.status}" if self.status else ""
        return f"{self.seconds:.0f} s ({self.cpu:.0f} of CPU){status}"


def commit(root: Path, words: str) -> None:
    """Commit all files of a folder as a user would."""
    for step in (["init", "-q"], ["add", "--all"], ["commit", "-qm", words]):
        subprocess.run(
            ["git", "-c", "user.name=gallery", "-c", "user.email=gallery@localhost", *step], cwd=root, check=True
        )


def fetched(name: str, folder: Path) -> Path:
    """Fetch the source archive of a package, unpack it, and return its folder.

    Raises:
        CalledProcessError: there is no such archive, or it cannot be read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = shutil.which("pip")  # an environment that uv has made has none
    pip = [*([found] if found else [sys.executable, "-m", "pip"]), "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-binary", name.partition("==")[0], "--dest", str(folder), name], check=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    root = folder / archive.name.removesuffix(".tar.gz")
    commit(root, "as published")
    return root


def timed(root: Path, words: str) -> Done:
    """Run a command of kernel-matrix in a folder, and end it after its time."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    [_, *arguments] = shlex.split(words)
    command = ["timeout", "-s", "INT", "-k", "30", str(_LIMIT), str(ROOT / "ci" / "kernel-matrix"), *arguments]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    printed = done.stdout + done.stderr
    (root.parent / f"{arguments[0]}.log").write_text(printed, encoding="utf-8")
    return Done(done.returncode, printed, time.monotonic() - began, cpu)


def workflow_of(root: Path) -> Done:
    """Commit what was written, and run the commands of the workflow in a clone of it."""
    commit(root, "kernel-matrix")
    clone = root.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(root), str(clone)], check=True)
    document = YAML(typ="safe").load(clone / ".github" / "workflows" / "kernel-matrix.yml")
    steps = [step.get("run", "") for job in document["jobs"].values() for step in job["steps"]]
    ends = [timed(clone, words) for words in steps if words.startswith("kernel-matrix ")]
    return Done(max(end.status for end in ends), "", sum(end.seconds for end in ends), sum(end.cpu for end in ends))


def row_of(name: str, kind: str, root: Path) -> str:
    """Return the row of a package: the times of each step, and what was found."""
    init = timed(root, "kernel-matrix init")
    if not (root / "matrix.yaml").is_file():
        reason = _NO_MATRIX.search(init.printed)
        said = reason[1] if reason else (init.printed.strip().splitlines() or [""])[-1]
        said = said.replace(f"{root}", "FOLDER")[:_LONGEST]
        return f"| {name} | {kind} | {init} | | | {said.replace('|', '/')} |"
    matrix = timed(root, "kernel-matrix matrix --platform cpu --sample 200")
    page, said = root / "build" / "site" / "compat.json", "no page"
    if page.is_file():
        states = json.loads(page.read_text(encoding="utf-8"))["run"]["cases_by_state"]
        said = ", ".join(f"{count} {state}" for state, count in states.items())
    if seen := _SEEN.search(matrix.printed):
        said += f". Its comparisons see {seen[1]} faults"
    if matrix.status and (causes := dict.fromkeys(_CAUSE.findall(matrix.printed))):
        said += f". Cause: {', '.join(causes)}"
    return f"| {name} | {kind} | {init} | {matrix} | {workflow_of(root)} | {said} |"


def rows_of(page: Path) -> dict[str, str]:
    """Return the rows that a page has, by their packages."""
    table = _TABLE.search(page.read_text(encoding="utf-8"))
    lines = table[0].splitlines() if table else []
    return {line.split("|")[1].strip(): line for line in lines if line.count("|") > 2 and f"| {NOT_RUN} |" not in line}


def write(page: Path, rows: Mapping[str, str]) -> None:
    """Write the table into a page; a package without a row was not run here."""
    lines = [rows.get(name, f"| {name} | {kind} | | | | {NOT_RUN} |") for name, kind in PACKAGES.items()]
    more = [row for name, row in rows.items() if name not in {*PACKAGES, "package", "---"}]
    table = "\n".join([HEAD, *lines, *more, ""])
    page.write_text(_TABLE.sub(lambda _: table, page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> int:
    """Try each package, write its row, and go on where one cannot be fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME==VERSION")
    parser.add_argument("--into", type=Path, default=Path("build/gallery"), help="where the packages are unpacked")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that gets the table")
    options = parser.parse_args()
    rows = rows_of(options.page)
    failed = False
    for name in options.names or [name for name in PACKAGES if name not in rows]:
        try:
            root = fetched(name, options.into.resolve() / name)
            row = row_of(name, PACKAGES.get(name, ""), root)
            write(options.page, rows_of(options.page) | {name: row})
            print(row, flush=True)
        except (subprocess.CalledProcessError, OSError, ValueError, tarfile.TarError) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
