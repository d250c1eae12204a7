"""Note out of the reach of kernels how far the journal of each job is proven: the harness has seen who wrote it.

Entries are signed with a key that only two processes have, and that is never on a disk. A later process needs to
believe them too: ``--resume``, or the page of a run that goes on. So where a kernel's process can be kept from it, a
file of the user says how many bytes of the journal the harness has checked, and their sum. What stands behind these
bytes, and a journal of another sum, are believed by nobody.

A run that goes on writes a new journal, and a new mark beside the one that is there. Each takes its place at once, the
journal first, so whenever the run is ended, one of the two marks is of the journal that is there.

That file stays on its machine. Where a job may go on on another one, which sees the same build folder, the mark also
lies there, signed with a key that the nodes of one run share. No job gets the key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.job import own_files
from kernel_matrix.job.journal import Entry, Journal, parsed
from kernel_matrix.job.landlock import can_be_kept_away, folder

_BUILD = ".build"  # the file next to the marks that has the path of their build folder
KEY = "KERNEL_MATRIX_KEY_OF_MARKS"  # the variable that the nodes of a run on a cluster share
_Noted = tuple[int, str, str, Path]  # a mark: bytes, their sum, the sum of what was asked for; and its file
_UNSAFE = 1.0  # seconds of marks that a machine may lose when it dies
_NEW = ".new"  # ends the name of a mark whose journal has not taken its place yet


def mark_file(build: Path, job: str) -> Path:
    """Return the file of a job's mark, which need not be there."""
    return folder() / hashlib.sha256(os.fsencode(build.resolve())).hexdigest()[:16] / job


def key_to_share() -> str:
    """Return the key by which other machines believe the marks of this user; it is made once."""
    folder().mkdir(mode=0o700, exist_ok=True)
    path = folder() / ".key"
    with contextlib.suppress(FileExistsError):
        file = own_files.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, secrets.token_hex(32).encode())
        os.close(file)
    return own_files.text_of(path)


def shared_key() -> str:
    """Return the key that this process has by its variable; empty if there is none."""
    return os.environ.get(KEY, "")


def _signed(job: str, line: str, key: str) -> str:
    """Return the signature of a job's mark; empty where no key is shared."""
    return hmac.new(key.encode(), f"{job} {line}".encode(), hashlib.sha256).hexdigest() if key else ""


def _signed_file(build: Path, job: str) -> Path:
    return build / "marks" / job


class Mark:
    """Note how far the journal of a job is proven, and for which cases and sources."""

    def __init__(self, build: Path, job: str, specification: str) -> None:
        """Make the file, where a kernel's process can be kept from it; nothing is noted elsewhere."""
        self._asked = _sum(specification.encode())
        self._file: int | None = None
        self._noted, self._synced = -1, 0.0
        self._job = job
        self._path, self._signed = mark_file(build, job), _signed_file(build, job)
        self._end = _NEW  # of the names of both files
        path = _new(self._path)
        with contextlib.suppress(OSError):
            folder().mkdir(mode=0o700, exist_ok=True)
            if _is_safe():
                path.parent.mkdir(exist_ok=True)
                (path.parent / _BUILD).write_text(str(build.resolve()))
                own_files.remove(path)
                own_files.remove(_new(self._signed))
                self._file = own_files.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def take_place(self) -> None:
        """Take the place of the former mark: the journal has taken that of the former one."""
        settle(self._path)
        settle(self._signed)
        self._end = ""

    def note(self, journal: Journal) -> None:
        """Note what is proven by now."""
        if self._file is None or self._noted == journal.proven:
            return
        with contextlib.suppress(OSError):  # no room: a run that is resumed repeats more cases
            # Of one length, and in one piece: whoever reads it meanwhile reads this one or the one before.
            line = f"{journal.proven:020d} {journal.sum.hexdigest()} {self._asked}"
            os.pwrite(self._file, f"{line}\n".encode(), 0)
            self._noted = journal.proven
            if signature := _signed(self._job, line, shared_key()):
                journal.sync()  # else another machine may see a mark of more than this one has brought to the disk
                path = self._signed.with_name(f"{self._signed.name}{self._end}")
                path.parent.mkdir(exist_ok=True)
                own_files.write(part := path.with_name(f"{path.name}.part"), f"{line} {signature}\n")
                part.replace(path)
            if time.monotonic() - self._synced >= _UNSAFE:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass
class Proven:
    """Read the proven entries of a journal on and on, in another process than the one that proves them."""

    path: Path
    build: Path
    job: str
    key: str = field(default_factory=shared_key)  # by which the marks of other machines are believed

    def __post_init__(self) -> None:
        self._sum, self._read = hashlib.sha256(), 0
        self._of: Path | None = None  # the mark that the journal agrees with

    def new_entries(self, specification: str | None = None) -> Iterator[Entry]:
        """Yield the proven entries since the last call; only of a run that was asked for the same, if that is given.

        Raises:
            OSError: nothing is proven, or the journal was changed since it was.
        """
        marks = self._marks()
        file = own_files.opened(self.path, os.O_RDONLY)
        try:
            size, asked, content, seen = self._read_as(file, marks)
        finally:
            os.close(file)
        if specification is not None and asked != _sum(specification.encode()):
            raise PermissionError(f"{self.path} is of other cases or sources")
        self._sum, self._read = seen, size
        for line in content.decode(errors="replace").splitlines():
            if (entry := parsed(line)) is not None:
                yield entry

    def _read_as(self, file: int, marks: Sequence[_Noted]) -> tuple[int, str, bytes, hashlib._Hash]:
        """Return the size, what was asked for, the new content and the sum by the mark that the journal agrees with."""
        for size, total, asked, path in marks:
            content = os.pread(file, size - self._read, self._read) if size > self._read else b""
            seen = self._sum.copy()
            seen.update(content)
            if seen.hexdigest() == total:
                self._of = path
                return size, asked, content, seen
        raise own_files.replaced(self.path)

    def settle(self) -> None:
        """Let the mark that was believed stay where a new one is made: the run that made it was ended too soon."""
        if self._of is not None and self._of.name.endswith(_NEW):
            settle(self._of.with_name(self._of.name.removesuffix(_NEW)))

    def _marks(self) -> list[_Noted]:
        """Return all marks that are believed: how many bytes are proven, their sum, the sum of what was asked for."""
        signed = _signed_file(self.build, self.job)
        found = [(path, self._of_another_machine(path)) for path in (signed, _new(signed))]
        if _is_safe():
            own = mark_file(self.build, self.job)
            found += [(path, _text_of(path).split()) for path in (own, _new(own))]
        marks = [(int(fields[0]), fields[1], fields[2], path) for path, fields in found if len(fields) == 3]
        if not marks:
            raise PermissionError(f"nobody knows who wrote {self.path}")
        return marks

    def _of_another_machine(self, path: Path) -> list[str]:
        """Return the mark that a machine with the same key has signed; nothing if there is none."""
        line, _, signature = _text_of(path).strip().rpartition(" ")
        expected = _signed(self.job, line, self.key)
        return line.split() if expected and hmac.compare_digest(signature, expected) else []


def settle(path: Path) -> None:
    """Put a new mark, if there is one, in the place of the former one."""
    with contextlib.suppress(OSError):
        _new(path).replace(path)


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}{_NEW}")


def _text_of(path: Path) -> str:
    """Return the text of a file; nothing if it is not there, or if something else is."""
    try:
        return own_files.text_of(path)
    except OSError:
        return ""


def remove_old() -> None:
    """Remove the marks of build folders that are gone."""
    for own in folder().glob("*"):
        with contextlib.suppress(OSError):  # another process has removed them, or makes them now
            if not Path((own / _BUILD).read_text()).exists():
                shutil.rmtree(own, ignore_errors=True)


def _is_safe() -> bool:
    """Return whether the folder is this user's alone, and a kernel's process can be kept from it."""
    facts = folder().lstat()
    return facts.st_uid == os.getuid() and facts.st_mode & 0o170777 == 0o040700 and can_be_kept_away()


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
