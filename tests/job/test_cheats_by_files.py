"""Whatever lies in the place of the harness's own files, no other file is read or written, and no run hangs.

Kernels put it there while their job runs, and left it there before the job began. Each thing leads to a secret, which
must not come into a record, and must stay as it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

import pytest
from common import Doubles, copy_doubles
from records import states
from test_cheats import give_cheats

from kernel_matrix.job import landlock
from kernel_matrix.results.states import Verdict

SECRET = "a-secret-of-this-user"
# What is put at ``place``, as code: a kernel runs it too. Both names are paths.
THINGS = {
    "a link": "os.symlink(secret, place)",
    "a link to a link": "os.symlink(secret, f'{place}.2'), os.symlink(f'{place}.2', place)",
    "a second name": "os.link(secret, place)",
    "a link to nothing": "os.symlink(f'{secret}.new', place)",
    "a pipe": "os.mkfifo(place)",
    "a folder": "os.makedirs(f'{place}/in/it')",
    "a socket": "os.mknod(place, 0o140600)",
    "a link to a terminal": "os.symlink('/dev/tty', place)",
    "a link to no end": "os.symlink('/dev/zero', place)",
    "a link to itself": "os.symlink(place, place)",
}
FILES = ("log.txt", "journal.jsonl", "todo.json", "job.json", "pytest.ini", "may-go-on", "room", "key")


def put(thing: str, place: Path, secret: Path) -> None:
    """Put a thing in the place of a file."""
    exec(THINGS[thing], {"os": os, "place": str(place), "secret": str(secret)})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file that nobody may read or write."""
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


@pytest.fixture
def patient(doubles: Doubles) -> Doubles:
    doubles.edit("case: 15,", "case: 60,")
    return doubles


def untouched(secret: Path) -> bool:
    return secret.read_text() == SECRET and not secret.with_name(f"{secret.name}.new").exists()


# The things at the files: by day each thing at two or three files, by night at all.
SHIFTS = [pytest.param(n, False, marks=[] if n < 3 else pytest.mark.nightly) for n in range(len(THINGS))]


@pytest.mark.parametrize(("shift", "resume"), [*SHIFTS, (0, True)])
@pytest.mark.slow
def test_what_an_earlier_kernel_has_left_in_the_place_of_a_file_is_neither_read_nor_written(
    patient: Doubles, secret: Path, shift: int, resume: bool
):
    folder, things = patient.root / "build" / "jobs" / "here.good", [*THINGS]
    folder.mkdir(parents=True)
    for number, file in enumerate(FILES):
        put(things[(number + 3 * shift) % len(things)], folder / file, secret)
    comparison = patient.run("good", resume=resume)
    assert states(comparison) == ["pass"] * 3
    assert untouched(secret)


@pytest.mark.parametrize("replaced", ["jobs", "jobs/here.good"])
@pytest.mark.slow
def test_a_link_in_the_place_of_a_folder_leads_to_no_other_file(patient: Doubles, tmp_path: Path, replaced: str):
    """The other folder may get the job's files; what is there stays as it is."""
    other, build = tmp_path / "other", patient.root / "build"
    for folder in (other, other / "here.good"):
        folder.mkdir()
        (folder / "mine").write_text(SECRET)
        (folder / "log.txt").symlink_to(folder / "mine")
        (folder / "room").symlink_to(folder / "mine")
    (build / replaced).parent.mkdir(parents=True)
    (build / replaced).symlink_to(other)
    assert states(patient.run("good")) == ["pass"] * 3
    assert all((folder / "mine").read_text() == SECRET for folder in (other, other / "here.good"))


# The cheats of one job, by the tokens of their cases: something in the place of a file.
AT = {
    2 * number: (file, thing)
    for number, (file, thing) in enumerate(((file, thing) for file in ("log.txt", "room") for thing in THINGS), start=1)
}


@pytest.fixture(scope="module")
def put_by_kernels(tmp_path_factory, bytecode: Path) -> tuple[dict[int, Verdict], Path]:
    """Run a job in which every second kernel puts something in the place of a file and ends its process."""
    folder = tmp_path_factory.mktemp("files")
    doubles, secret = copy_doubles(folder / "doubles", bytecode), folder / "secret"
    secret.write_text(SECRET)
    cheats = {
        tokens: [
            "import shutil",
            f"place, secret = str(journal.with_name({file!r})), {str(secret)!r}",
            "shutil.rmtree(place) if os.path.isdir(place) else os.path.lexists(place) and os.unlink(place)",
            THINGS[thing],
            "os._exit(1)",
        ]
        for tokens, (file, thing) in AT.items()
    }
    give_cheats(doubles, cheats)
    found = doubles.run("wrong")
    return {verdict.case.axes["tokens"]: verdict for verdict in found.verdicts}, secret


@pytest.mark.slow
def test_what_a_kernel_puts_in_the_place_of_a_file_comes_into_no_record(put_by_kernels):
    verdicts, secret = put_by_kernels
    for tokens, verdict in verdicts.items():
        expected = "error" if tokens in AT else "pass"
        assert (verdict.state, AT.get(tokens)) == (expected, AT.get(tokens)), verdict
        assert SECRET not in f"{verdict.record.message}{verdict.record.detail}", AT.get(tokens)
    assert untouched(secret)


# By day each thing and each file once, by night all pairs.
PAIRS = [
    pytest.param(thing, file, marks=[] if row == column else pytest.mark.nightly)
    for row, thing in enumerate(("a link", "a pipe", "a folder"))
    for column, file in enumerate(("todo.json", "journal.jsonl", "log.txt"))
]


@pytest.mark.parametrize(("thing", "file"), PAIRS)
@pytest.mark.slow
def test_what_a_kernel_puts_there_before_the_next_process_begins_ends_in_states(
    patient: Doubles, secret: Path, thing: str, file: str
):
    """The case in which it does so takes too long, so that the harness starts another process."""
    patient.edit("case: 60,", "case: 8,")
    backend = patient.root / "src" / "doubles" / "__init__.py"
    lines = [
        f"place = os.path.join(os.path.dirname(os.readlink('/proc/self/fd/1')), {file!r})",
        f"secret = {str(secret)!r}",
        "os.unlink(place)",
        THINGS[thing],
        "time.sleep(600)",
    ]
    cheat = "def cheat(x, out):\n" + "".join(f"    {line}\n" for line in lines)
    backend.write_text(f"{backend.read_text()}\n\n{cheat}\nBACKENDS['wrong'] = cheat\n")
    found = patient.run("wrong")
    [first, second, third] = found.verdicts
    assert (first.state, second.state) == ("pass", "error")
    assert third.state == "pass" or (third.state, third.record.stage) == ("error", "machine"), third
    assert all(SECRET not in f"{one.record.message}{one.record.detail}" for one in found.verdicts)
    assert untouched(secret)


@pytest.mark.slow
def test_another_job_in_the_place_of_the_one_that_was_asked_for_is_not_run(patient: Doubles):
    """A process that a kernel leaves behind writes another file before the next process has read it."""
    suite = patient.root / "suite" / "conftest.py"
    suite.write_text(
        "import pathlib, sys\nfrom kernel_matrix.job import plugin\n"
        "job = pathlib.Path(sys.argv[sys.argv.index('--job') + 1])\n"
    )
    start = patient.root / "sitecustomize.py"
    start.write_text(
        "import pathlib, sys\nif '--job' in sys.argv:\n"
        "    job = pathlib.Path(sys.argv[sys.argv.index('--job') + 1])\n"
        "    job.write_text(job.read_text().replace('wrong', 'good'))\n"
    )
    shutil.move(start, patient.root / "src" / "sitecustomize.py")
    found = patient.run("wrong")
    assert states(found) == ["error"] * 3
    assert "something else was put in the place of a file of the harness" in found.verdicts[0].reason


@pytest.mark.slow
def test_no_file_and_no_process_has_the_key(doubles: Doubles, tmp_path: Path, monkeypatch):
    keys: list[str] = []
    new = secrets.token_hex
    monkeypatch.setattr(secrets, "token_hex", lambda *length: keys.append(new(*length)) or keys[-1])
    seen = tmp_path / "seen"
    lines = [
        "harness = Path(f'/proc/{os.getppid()}/stat').read_text().rpartition(')')[2].split()[1]",
        "texts = [Path(f'/proc/{pid}/{file}') for pid in (os.getppid(), harness) for file in ('environ', 'cmdline')]",
        "texts += [path for path in journal.parents[1].rglob('*') if path.is_file()]",
        f"with open({str(seen)!r}, 'ab') as file:",
        "    for path in texts:",
        "        with contextlib.suppress(OSError):",
        "            file.write(path.read_bytes())",
        "double(x, out)",
    ]
    give_cheats(doubles, {2: lines})
    assert states(doubles.run("wrong")) == ["pass"] * 3
    assert keys
    content = seen.read_bytes()
    for folder in (landlock.folder(), doubles.root / "build"):
        content += b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert not [key for key in keys if key.encode() in content]
