"""Rows on nodes that do not see the checkout: each gets a copy on its node's own disk, and its results come back.

sbcast brings the copy while the row runs, asked for where the rows were submitted, and a step of the row's job prints
what it has left. So whoever follows the run has to stay until the rows have ended.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

from kernel_matrix.base import git
from kernel_matrix.base.files import written_whole
from kernel_matrix.ci.engines.state import ClusterRun
from kernel_matrix.machines.job_status import JobStatus

_ARCHIVE, _COPY, _BACK = "checkout.tar.gz", "checkout", "back.tar.gz"  # in the folder of a row on its node
HERE = f'"$copy/{_COPY}"'  # the copy, for the shell of a row
_CAME, _ENDED, _TAKEN = "came", "ended", "taken"  # files there that say how far it is
_BACK_FOLDERS = ("results", "jobs", "cluster/logs")  # of the build folder
_ARRIVES, _TAKES = 600, 300  # seconds that a row waits for its copy, and for somebody to take its results
_LAST, _TRIES = 60.0, 30  # seconds for which what was cancelled is waited for, and tries to reach a node
_LEFT = re.compile(rb"left (\d+)\n")  # what stands before that, with its length in bytes
_PIECE = 1 << 20  # bytes of what comes back that are in memory at once
_JOURNEYS = 3  # a row that begins empties its folder, and with it what may have come before


def pack(run: ClusterRun) -> None:
    """Write the archive of the checkout as it is, with the plan."""
    root, folder = Path(run.root), Path(run.folder)
    tracked = git.tracked_files(root)
    names = {*tracked, *git.other_files(root)} if tracked is not None else set(_all_files(root, folder.parent))
    names |= {str(path.relative_to(root)) for path in folder.glob("*.json")}
    with written_whole(folder / _ARCHIVE) as part, tarfile.open(part, mode="w:gz", compresslevel=1) as archive:
        for name in sorted(names):
            if (path := root / name).is_symlink() or path.is_file():
                archive.add(path, name, recursive=False)


def _all_files(root: Path, build: Path) -> Iterator[str]:
    """Yield the files of a folder that git does not know, without those of the build folder."""
    for path in root.rglob("*"):
        if not path.is_dir() and not path.is_relative_to(build):
            yield str(path.relative_to(root))


def arrive(run: ClusterRun) -> Iterator[str]:
    """Yield the lines of shell that wait for the copy and go there. However a row ends, what it leaves is packed."""
    yield f'copy={run.disk}/km-{run.id}/$row; rm -rf "$copy"; mkdir -p "$copy"'
    yield f'for _ in $(seq {_ARRIVES}); do [ -e "$copy/{_CAME}" ] && break; sleep 1; done'
    late = f"no copy of the checkout came within {_ARRIVES} s"
    yield f'[ -e "$copy/{_CAME}" ] || {{ echo "{late}"; rm -rf "$copy"; exit 2; }}'
    yield "leave() {"
    yield from _leave(run)
    yield "}"
    yield "trap leave EXIT"
    yield f'mkdir {HERE} && tar -xzf "$copy/{_ARCHIVE}" -C {HERE} && cd {HERE} || exit 2'
    yield f"mkdir -p {logs(run)}; export KERNEL_MATRIX_COMMIT={shlex.quote(git.commit(Path(run.root)))}"


def _leave(run: ClusterRun) -> Iterator[str]:
    """Yield the lines of shell that pack what the row has left, and wait until somebody has taken it."""
    build = _build(run)
    log = f"{run.disk}/${{SLURM_JOB_NAME}}_$SLURM_ARRAY_TASK_ID.log"
    yield f"cd {HERE}; mkdir -p {logs(run)}; cp {log} {logs(run)}/"
    parts = " ".join(f"{build}/{name}" for name in _BACK_FOLDERS)
    yield f"(for part in {parts}; do [ ! -e $part ] || echo $part; done) |"
    yield f'    tar -czf "$copy/{_BACK}" --files-from=-; touch "$copy/{_ENDED}"'
    yield f'for _ in $(seq {_TAKES}); do [ -e "$copy/{_TAKEN}" ] && break; sleep 1; done'
    yield f'cd /; rm -rf "$copy" {log}; rmdir "${{copy%/*}}" 2>/dev/null'


def _build(run: ClusterRun) -> str:
    return shlex.quote(str(Path(run.folder).parent.relative_to(run.root)))


def logs(run: ClusterRun) -> str:
    """Return the folder of logs in a copy, for the shell of a row."""
    return f"{HERE}/{_build(run)}/cluster/logs"


def on_node(run: ClusterRun, row: str) -> PurePosixPath:
    """Return the folder of a row on its node."""
    return PurePosixPath(run.disk) / f"km-{run.id}" / row


def there(run: ClusterRun, row: str, command: str) -> str:
    """Return the command of a row, with its copy of the checkout in place of the checkout."""
    return re.sub(rf"{re.escape(run.root)}(?=[:,/\s'\"]|$)", str(on_node(run, row) / _COPY), command)


class Couriers:
    """Bring each row that runs its copy, and take what it has left."""

    def __init__(self) -> None:
        """Begin with nobody on the way."""
        self._sent: dict[tuple[str, str], Thread] = {}  # by row, and when it began
        self._faults: dict[tuple[str, str], str] = {}  # why nothing came or left

    @property
    def are_on_the_way(self) -> bool:
        """Return whether something of a row may still come."""
        return any(courier.is_alive() for courier in self._sent.values())

    def attend(
        self, run: ClusterRun, statuses: Iterable[JobStatus], jobs: Callable[[], Mapping[str, str]]
    ) -> dict[tuple[str, str], str]:
        """Send a courier to each row that has begun, and return why some have failed, by row and when it began.

        ``jobs`` asks for the ids of the jobs that run.
        """
        begun = {(one.row, one.started) for one in statuses if one.status == "running" and one.started}
        if new := begun - self._sent.keys():
            ids = jobs()
            for key in (key for key in new if key[0] in ids):
                self._sent[key] = Thread(target=self._serve, args=(run, key, ids[key[0]]), daemon=True)
                self._sent[key].start()
        return {key: self._faults.pop(key) for key in [*self._faults]}

    def _serve(self, run: ClusterRun, key: tuple[str, str], job: str) -> None:
        try:
            fault = _serve(run, key[0], job)
        except OSError as error:
            fault = f"{error.filename}: {error.strerror}"
        if fault:
            self._faults[key] = fault

    def wait(self) -> None:
        """Wait for what comes from rows that were cancelled."""
        until = time.monotonic() + _LAST
        for courier in self._sent.values():
            courier.join(max(0.0, until - time.monotonic()))


def _serve(run: ClusterRun, row: str, job: str) -> str:
    """Bring a row its copy, and take what it leaves; return why not."""
    there, folder = on_node(run, row), Path(run.folder)
    for _ in range(_JOURNEYS):
        fault = _send(job, folder / _ARCHIVE, there / _ARCHIVE) or _send(job, folder / "run.json", there / _CAME)
        answer = fault or _take(run, _step(run, job, there))
        if answer is not None:
            return answer
    return "srun reached nothing that it left"


def _step(run: ClusterRun, job: str, there: PurePosixPath) -> list[str]:
    """Return the step of a row's job that prints what it has left, and is told when that was taken.

    It fails where the row has not seen its copy. A job that was cancelled takes no other step and no file any more.
    srun keeps a line until it has ended.
    """
    copy, back = there / _COPY, there / _BACK
    seen = f"for _ in $(seq {_TRIES}); do [ ! -d {copy} ] || break; sleep 1; done; [ -d {copy} ] || exit 1"
    left = f"until [ -e {there / _ENDED} ]; do sleep 0.5; done; stat -c 'left %s' {back}; cat {back}; echo"
    words = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--chdir={run.disk}"]
    return [*words, "bash", "-c", f"trap : TERM; {seen}; {left}; read -r && touch {there / _TAKEN}"]


def _take(run: ClusterRun, step: Sequence[str]) -> str | None:
    """Take what a step prints, its length first, and tell it so; return why it was not whole, None where none came.

    A site's own words may stand before it.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(step, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.stdin
        assert process.stdout
        found = next(filter(None, map(_LEFT.fullmatch, process.stdout)), None)
        fault = _unpacked(run, process.stdout, int(found[1])) if found else None
        with suppress(BrokenPipeError):  # it has ended
            process.stdin.write(b"taken\n")  # also of what was broken: a second try would be
            process.stdin.close()
        while process.stdout.read(_PIECE):
            pass
    return fault


def _send(job: str, file: Path, to: PurePosixPath) -> str:
    """Copy a file to the node of a job; return why that is not possible."""
    words, quiet = ["sbcast", f"--jobid={job}", "--force", str(file), str(to)], subprocess.DEVNULL
    for _ in range(_TRIES):  # the row makes its folder first
        done = subprocess.run(words, stdin=quiet, capture_output=True, check=False, start_new_session=True)
        if not done.returncode:
            return ""
        time.sleep(1)
    return f"no copy came: {done.stderr.decode(errors='replace').strip()[-300:]}"


def _unpacked(run: ClusterRun, stream: IO[bytes], length: int) -> str:
    """Unpack what a row has left, nothing of it outside of the build folder's; return why it was not whole.

    A file keeps it meanwhile: it may be larger than the memory.
    """
    root, build = Path(run.root), Path(run.folder).parent
    wanted = tuple(build / name for name in _BACK_FOLDERS)
    try:
        with TemporaryFile(dir=run.folder) as left:
            for size in range(length, 0, -_PIECE):
                left.write(stream.read(min(size, _PIECE)))
            left.seek(0)
            with tarfile.open(fileobj=left) as archive:
                for member in archive:
                    if ".." not in member.name and any((root / member.name).is_relative_to(one) for one in wanted):
                        archive.extract(member, root, filter="data")
    except (tarfile.TarError, EOFError):
        return f"what it left did not come back; is {run.disk} of its node full?"
    except OSError as error:
        return f"what it left did not come back: {error.strerror}: {error.filename or run.folder}"
    return ""
