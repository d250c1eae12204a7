"""Give the same files of results to other tools that read JUnit XML, and measure how far each of them gets.

Every tool has an environment of its own with a pinned version. That it fails, or takes longer than it may, is a result.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernel_matrix.base.errors import UserError

SIZES = (10_000, 100_000, 1_000_000)  # results, about: so many of the files are taken
_RAN = 0.9  # of the cases of a plan have a result, at least: one in twenty is absent
LIMIT = 900.0  # seconds of a tool with the files of one size
_INSTALL_LIMIT = 600.0
_END = 400  # characters of what a tool that failed has printed


@dataclass(frozen=True)
class Tool:
    """A tool: what it is installed from, and the command for a folder of JUnit files and a folder to write into.

    ``installs`` makes its environment in a folder, and returns an empty text or why that failed. ``good`` are the
    statuses with which it ends when it has done its work.
    """

    name: str
    installs: Callable[[Path], str]
    command: Callable[[Path, Path, Path], Sequence[str]]
    good: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Run:
    """One run of a tool: how it ended (empty: well), its times in seconds, its memory, and what it wrote, in bytes."""

    ended: str
    wall: float
    cpu: float
    memory: int
    files: int = 0
    written: int = 0


def _of_pypi(requirement: str) -> Callable[[Path], str]:
    def install(folder: Path) -> str:
        python = folder / "bin" / "python"
        return _installed([sys.executable, "-m", "venv", str(folder)]) or _installed(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement]
        )

    return install


def _of_npm(package: str) -> Callable[[Path], str]:
    def install(folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        return _installed(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package])

    return install


def _installed(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_END]
    return "" if done.returncode == 0 else (done.stderr or done.stdout or "no reason").strip()[-_END:]


TOOLS = (
    Tool(
        "junitparser merge 5.0.3",
        _of_pypi("junitparser==5.0.3"),
        lambda env, results, into: [
            str(env / "bin" / "junitparser"), "merge", *map(str, sorted(results.iterdir())), str(into / "merged.xml")
        ],
    ),
    Tool(
        "xunit-viewer 10.6.1",
        _of_npm("xunit-viewer@10.6.1"),
        lambda env, results, into: [
            str(env / "node_modules" / ".bin" / "xunit-viewer"), "-r", str(results), "-o", str(into / "index.html")
        ],
    ),
    Tool(
        "allure generate 3.18.0",
        _of_npm("allure@3.18.0"),
        lambda env, results, into: [
            str(env / "node_modules" / ".bin" / "allure"), "generate", str(results), "-o", str(into / "report")
        ],
    ),
)  # fmt: skip


def own(folder: Path) -> Tool:
    """Return the report of this harness as such a tool; ``folder`` has the matrix.yaml of the results."""
    return Tool(
        "`kernel-matrix report`",
        lambda _: "",
        lambda _env, results, _into: [
            sys.executable, "-m", "kernel_matrix", "report", "--matrix", str(folder / "matrix.yaml"), str(results)
        ],
        good=(0, 1),  # 1: a case is red
    )  # fmt: skip


def others(folder: Path, tools: Sequence[Tool], sizes: Sequence[int] = SIZES, limit: float = LIMIT) -> Iterator[str]:
    """Yield one line for each tool and size. A tool that failed at a size is not given more.

    ``folder`` has the results that :func:`make.make` has made.

    Raises:
        UserError: there are no results.
    """
    files = sorted((folder / "results").glob("*.xml"))
    if not files:
        raise UserError(f"{folder / 'results'}: there are none. Make them: python benchmarks/scale --into {folder}")
    cases = [path.read_bytes().count(b"<testcase ") for path in files]
    by_file = dict(zip(files, cases, strict=True))
    steps = [_files_of(files, cases, size) for size in sizes if size * _RAN <= sum(cases) or size == min(sizes)]
    for tool in tools:
        yield from _all_sizes(tool, folder / "others" / tool.name.replace(" ", "-"), steps, by_file, limit)


def _all_sizes(
    tool: Tool, home: Path, steps: Sequence[Sequence[Path]], cases: Mapping[Path, int], limit: float
) -> Iterator[str]:
    """Yield a line for each size; ``cases`` has the number of results of each file."""
    environment = home / "environment"
    if reason := tool.installs(environment):
        yield f"{tool.name}: it cannot be installed: {reason}"
        return
    for part in steps:
        with _linked(part, home / "results") as results:
            run = measured(partial(tool.command, environment, results), home / "out", limit, tool.good)
        yield f"{tool.name}: {sum(cases[path] for path in part)} results in {len(part)} files: {_said(run)}"
        if run.ended:
            return


def _files_of(files: Sequence[Path], cases: Sequence[int], size: int) -> list[Path]:
    """Return the first files that have about so many results together."""
    part: list[Path] = []
    total = 0
    for path, count in zip(files, cases, strict=True):
        if part and total + count / 2 > size:
            break
        part.append(path)
        total += count
    return part


@contextlib.contextmanager
def _linked(files: Sequence[Path], folder: Path) -> Iterator[Path]:
    """Yield a folder with these files alone; each is a link, so that it takes no room."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for path in files:
            (folder / path.name).hardlink_to(path)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(command: Callable[[Path], Sequence[str]], out: Path, limit: float, good: Collection[int] = (0,)) -> Run:
    """Run a command that writes into the folder ``out``, and return its figures; ``out`` is removed afterwards."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    log = out.with_suffix(".log")
    begin = time.perf_counter()
    try:
        with log.open("wb") as file:
            process = subprocess.Popen(
                command(out), stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
    except OSError as error:
        return Run(str(error)[:_END], 0, 0, 0)
    status, usage, is_over = _waited(process.pid, begin + limit)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begin
    ended = ""
    if is_over:
        ended = f"it took longer than {limit:.0f} s"
    elif process.returncode not in good:
        ended = f"it ended with status {process.returncode}: {log.read_text(errors='replace').strip()[-_END:]}"
    written = [path.stat().st_size for path in out.rglob("*") if path.is_file()]
    shutil.rmtree(out, ignore_errors=True)
    return Run(ended, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, len(written), sum(written))


def _waited(pid: int, until: float) -> tuple[int, resource.struct_rusage, bool]:
    """Wait for a process; end it with all that it started when its time is over. Return its status and usage."""
    while time.perf_counter() < until:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return status, usage, False
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return status, usage, True


def _said(run: Run) -> str:
    figures = f"{run.wall:.1f} s, {run.cpu:.1f} CPU-seconds, {run.memory / 2**20:.0f} MiB at most"
    if run.ended:
        return f"{figures}; {run.ended}"
    return f"{figures}; it wrote {run.files} files with {run.written / 1e6:.0f} MB" if run.files else figures
