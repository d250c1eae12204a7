"""The kernel's process: calls, errors, deaths, messages that are none, and what it leaves behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernel_matrix.job import kernel_process, processes
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcess, KernelProcessError

SIDE = """
import json, os, signal, struct, subprocess, sys, time
import numpy as np
from kernel_matrix.job.worker import Unavailable, enter_stage

count = 0


def echo(arrays, **options):
    return options, arrays


def counts(arrays):
    global count
    count += 1
    return count, {}


def stages(arrays):
    enter_stage("compile")
    enter_stage("launch")
    return None, {}


def spoils(arrays):
    arrays["a"][:] = 0
    return None, arrays


def fails(arrays):
    enter_stage("compile")
    print("on its way")
    raise ValueError("no such tile")


def has_stage(arrays):
    error = RuntimeError("refused")
    error.stage = "lower"
    raise error


def missing(arrays):
    raise Unavailable("nothing answers")


def exits(arrays):
    raise SystemExit(0)


def interrupts(arrays):
    raise KeyboardInterrupt


def dies(arrays, how):
    print("last words", flush=True)
    enter_stage("launch")
    os._exit(0) if how == "exit" else os.kill(os.getpid(), getattr(signal, how))


def dies_later(arrays):
    signal.signal(signal.SIGALRM, lambda *_: os._exit(7))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    return None, {}


def dies_with_a_child(arrays):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSEGV)


def sends(arrays, data):
    os.write(int(sys.argv[2]), data.encode())
    return None, {}


def sends_message(arrays, header):
    data = json.dumps(header).encode()
    os.write(int(sys.argv[2]), struct.pack("<Q", len(data)) + data)
    return None, {}


def wrong_value(arrays):
    return object(), {}


def wrong_array(arrays):
    return None, {"out": np.array([1j])}


def orphan(arrays):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "4246"])
        os._exit(0)
    os.waitpid(child, 0)
    return None, {}


def family(arrays):
    # A child that has a child, in sessions of their own.
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.write(writing, str(os.getpid()).encode())
        time.sleep(60)
        os._exit(0)
    return int(os.read(reading, 20)), {}


def holds(arrays):
    global held
    held = np.ones(32 << 20, np.uint8)
    return None, {}
"""


@pytest.fixture(scope="module", autouse=True)
def other_children_are_spared() -> Iterator[None]:
    """Hide the children that this process had before: all that it has end with a kernel's process.

    One of them is the browser's, which other tests of this process use.
    """
    children = processes._children
    before = {pid for pid, _ in children(os.getpid())}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            processes, "_children", lambda parent: [pair for pair in children(parent) if pair[0] not in before]
        )
        yield


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelProcess]:
    """Yield a process for the calls of ``SIDE``; it starts again by itself after a death."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "side.py").write_text(SIDE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_process, "_PATIENCE", 0.3)
        process = KernelProcess(folder, folder / "log.txt")
        yield process
        process.close()


def call(process: KernelProcess, function: str, arrays=None, **options):
    stages: list[str] = []
    result = process.call(f"side:{function}", arrays or {}, options, stages.append)
    return (*result, stages)


def error_of(process: KernelProcess, function: str, **options) -> KernelProcessError:
    with pytest.raises(KernelProcessError) as raised:
        call(process, function, **options)
    return raised.value


@pytest.mark.slow
def test_a_call_returns_a_value_and_arrays(process: KernelProcess):
    sent = {"a": np.arange(4.0).reshape(2, 2).T, "none": np.zeros((0, 3), np.float32), "one": np.array(2.5)}
    value, arrays, _ = call(process, "echo", sent, options=[], text="ä", nothing=None)
    assert value == {"options": [], "text": "ä", "nothing": None}
    assert {name: (array.shape, array.tolist()) for name, array in arrays.items()} == {
        name: (array.shape, array.tolist()) for name, array in sent.items()
    }


def test_a_call_without_arrays_and_options(process: KernelProcess):
    assert call(process, "echo") == ({}, {}, [])


def test_calls_share_one_process(process: KernelProcess):
    first, _, _ = call(process, "counts")
    pid = process.pid
    assert call(process, "counts")[0] == first + 1
    assert process.pid == pid


def test_stages_are_told_while_the_call_runs(process: KernelProcess):
    assert call(process, "stages")[2] == ["compile", "launch"]


def test_what_a_function_does_to_its_arrays_stays_there(process: KernelProcess):
    mine = np.ones(3)
    _, back, _ = call(process, "spoils", {"a": mine})
    assert back["a"].tolist() == [0, 0, 0]
    assert mine.tolist() == [1, 1, 1]


def test_an_error_comes_with_its_traceback_and_stage_and_the_process_lives(process: KernelProcess):
    call(process, "echo")
    pid = process.pid
    error = error_of(process, "fails")
    assert (error.text, error.stage) == ("ValueError: no such tile", "compile")
    assert "side.py" in error.detail
    assert error_of(process, "has_stage").stage == "lower"
    assert error_of(process, "exits").text == "SystemExit: 0"
    assert error_of(process, "interrupts").text == "KeyboardInterrupt"
    assert "no_such_function" in error_of(process, "no_such_function").text
    assert process.pid == pid


def test_a_device_that_is_missing_has_an_error_of_its_own(process: KernelProcess):
    error = error_of(process, "missing")
    assert isinstance(error, DeviceMissingError)
    assert error.text == "nothing answers"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("wrong_value", "TypeError: Object of type object is not JSON serializable"),
        ("wrong_array", "ValueError: the array out has the dtype complex128, which no message has"),
    ],
)
def test_a_result_that_cannot_be_sent_is_an_error_of_its_call_alone(process: KernelProcess, function: str, words: str):
    call(process, "echo")
    pid = process.pid
    assert error_of(process, function).text == words
    assert call(process, "echo")[0] == {}
    assert process.pid == pid


def test_a_death_is_told_with_the_last_words_and_the_next_call_starts_another(process: KernelProcess):
    call(process, "echo")
    pid = process.pid
    error = error_of(process, "dies", how="SIGSEGV")
    assert (error.text, error.stage) == ("the process died of SIGSEGV in stage launch", "crash")
    assert error.detail == "on its way\nlast words" or error.detail.endswith("last words")
    assert call(process, "echo")[0] == {}
    assert process.pid != pid
    assert error_of(process, "dies", how="exit").text == "the process ended with exit status 0 in stage launch"


def test_the_words_of_an_earlier_error_are_not_those_of_a_death(process: KernelProcess):
    error_of(process, "fails")
    assert "on its way" not in error_of(process, "dies", how="SIGKILL").detail


@pytest.mark.slow
def test_a_process_that_dies_between_two_calls_is_started_again(process: KernelProcess):
    call(process, "dies_later")
    give_up = time.monotonic() + 120
    while process._process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.01)
    assert call(process, "counts")[0] == 1


def test_a_death_is_seen_although_a_child_holds_the_pipe(process: KernelProcess):
    began = time.monotonic()
    assert error_of(process, "dies_with_a_child").text == "the process died of SIGSEGV in stage import"
    assert time.monotonic() - began < 300


@pytest.mark.parametrize(
    "header",
    [
        {"kind": "result", "value": None, "arrays": [["out", "float32", [10**12]]]},
        {"kind": "result", "value": None, "arrays": [["out", "uint8", [0] * 100]]},
        {"kind": "result", "value": 1, "arrays": []},
        {"kind": "result", "value": 1, "call": True, "arrays": []},
        {"kind": "stage", "arrays": []},
        {"arrays": []},
    ],
    ids=["a huge array", "many dimensions", "no call", "another call", "no stage", "no kind"],
)
@pytest.mark.slow
def test_a_message_that_the_kernel_makes_up_is_red_and_spoils_no_later_call(process: KernelProcess, header: dict):
    call(process, "echo")
    assert "sent what is no message" in error_of(process, "sends_message", header=header).text
    assert call(process, "echo", mine=1)[0] == {"mine": 1}


def test_bytes_that_are_no_message_are_red_and_spoil_no_later_call(process: KernelProcess):
    assert "sent what is no message" in error_of(process, "sends", data="garbage " * 10).text
    assert call(process, "echo", mine=1)[0] == {"mine": 1}


def test_an_answer_that_was_sent_in_advance_is_not_taken_for_the_next_call(process: KernelProcess):
    """The made-up answer names the right call, so it is taken; the one that follows it belongs to no call then."""
    call(process, "echo")
    header = {"kind": "result", "value": "made up", "call": process._count + 1, "arrays": []}
    assert call(process, "sends_message", header=header)[0] == "made up"
    assert "is no answer to this call" in error_of(process, "echo").text


@pytest.mark.slow
def test_a_process_that_was_left_behind_is_named_and_ended(process: KernelProcess):
    call(process, "orphan")
    assert len(process.orphans()) == 1
    assert process.orphans() == []


def test_children_and_theirs_end_with_the_process_at_the_latest(process: KernelProcess):
    """Compilers keep children: as long as the process runs, that is no fault."""
    grandchild = call(process, "family")[0]
    assert process.orphans() == []
    os.kill(grandchild, 0)
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


def test_memory_that_the_process_takes_is_seen(process: KernelProcess):
    call(process, "echo")
    before = process.memory()
    call(process, "holds")
    if before is not None:
        assert 28 << 20 < process.memory() - before < 60 << 20


def test_a_closed_process_is_gone_and_may_be_closed_again(process: KernelProcess):
    call(process, "echo")
    pid = process.pid
    process.close()
    process.close()
    assert process.pid is None
    assert process.memory() is None
    assert process.delay() == 0.0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_delay_of_a_process_is_the_sum_over_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for thread, text in {"7": "100 2000000000 3\n", "8": "1 500000000 3\n", "9": ""}.items():
        folder = tmp_path / "7" / "task" / thread
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert processes.run_delay(7) == 2.5
    assert processes.run_delay(8) == 0.0


def test_the_memory_of_a_process_counts_what_no_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("VmRSS: 999 kB\nRssAnon:\t 3 kB\nRssFile:\t 50 kB\nRssShmem:\t 4 kB\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "status").write_text("Name: x\n")
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert [processes.anonymous_memory(pid) for pid in (7, 8, 9)] == [7 * 1024, None, None]


def test_the_memory_limit_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_CGROUP", tmp_path)
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (None, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.events").write_text("low 0\noom_kill 2\n")
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (None, 2)
    (tmp_path / "memory.max").write_text("1073741824\n")
    (tmp_path / "memory.events").write_text("nonsense\n")
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (1 << 30, 0)


def test_the_memory_limit_of_a_container_with_version_1_of_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A hybrid has version 2 too, without the controller of memory."""
    monkeypatch.setattr(processes, "_CGROUP", tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "unified").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (None, 0)
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("1073741824\n")
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (1 << 30, 3)


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """Make a cgroup that may use 128 MiB, in the version that this machine has."""
    version_1 = Path("/sys/fs/cgroup/memory")
    parent = version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")
    group = parent / f"kernel-matrix-tests-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs to make a cgroup: {error}")
    try:
        limit = group / ("memory.limit_in_bytes" if version_1.is_dir() else "memory.max")
        if not limit.exists():
            pytest.skip("needs the controller of memory in the cgroups of this machine")
        limit.write_text(str(128 << 20))
        yield group
    finally:
        group.rmdir()


@pytest.mark.slow
def test_a_kernel_that_reaches_the_memory_limit_of_its_cgroup_is_said_to_have_done_so(
    limited_group: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The system itself counts the kill, in either version of cgroups."""
    if limited_group.parent.name == "memory":
        (tmp_path / "cgroup").mkdir()
        (tmp_path / "cgroup" / "memory").symlink_to(limited_group)
    else:
        (tmp_path / "cgroup").symlink_to(limited_group)
    monkeypatch.setattr(processes, "_CGROUP", tmp_path / "cgroup")
    assert (processes.memory_limit(), processes.memory_limit_kills()) == (128 << 20, 0)
    (tmp_path / "hog.py").write_text("def fill(_, *, mib):\n    return len(bytearray(b'x') * (mib << 20)), {}\n")
    process = KernelProcess(tmp_path, tmp_path / "log")
    try:
        process.call("hog:fill", {}, {"mib": 0}, lambda _: None)
        (limited_group / "cgroup.procs").write_text(str(process.pid))
        with pytest.raises(KernelProcessError, match=r"it reached the container's memory limit of 0\.125 GiB") as error:
            process.call("hog:fill", {}, {"mib": 512}, lambda _: None)
        assert "died of SIGKILL" in error.value.text
        assert processes.memory_limit_kills() == 1
    finally:
        process.close()


def test_the_process_does_not_get_the_variables_that_are_for_the_comparing_one(tmp_path, monkeypatch):
    monkeypatch.setenv("FOR_COMPARING", "1")
    monkeypatch.setenv("FOR_BOTH", "1")
    (tmp_path / "told.py").write_text(
        "import os\ndef told(_):\n    return sorted(n for n in os.environ if 'FOR_' in n), {}\n"
    )
    process = KernelProcess(tmp_path, tmp_path / "log", ["FOR_COMPARING"])
    try:
        assert process.call("told:told", {}, {}, lambda _: None)[0] == ["FOR_BOTH"]
    finally:
        process.close()


CHILDREN = """
import subprocess
kept = []
def start(_):
    kept.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    return ask(_)
def ask(_):
    kept[0].stdin.write(b"2\\n")
    kept[0].stdin.flush()
    return kept[0].stdout.readline().decode(), {}
def run(_):
    subprocess.run(["true"])
    return None, {}
def nothing(_):
    return None, {}
"""


def test_what_a_process_below_the_kernels_process_does_is_known(tmp_path: Path):
    (tmp_path / "below.py").write_text(CHILDREN)
    process = KernelProcess(tmp_path, tmp_path / "log")
    assert process.work_below() == []
    try:
        process.call("below:nothing", {}, {}, lambda _: None)
        seen = [process.work_below()]
        for function in ("run", "start", "ask", "nothing"):
            process.call(f"below:{function}", {}, {}, lambda _: None)
            time.sleep(0.05)  # until cat waits again
            seen.append(process.work_below())
        assert [a != b for a, b in itertools.pairwise(seen)] == [True, True, True, False]
    finally:
        process.close()


def test_the_cpu_time_of_a_process_is_that_of_all_processes_below_it():
    code = "import os\nos.fork()\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        end = time.monotonic() + 300
        while processes.cpu_seconds(process.pid) < 0.5 and time.monotonic() < end:
            time.sleep(0.05)
        alone = float(Path(f"/proc/{process.pid}/stat").read_text().split()[13]) / os.sysconf("SC_CLK_TCK")
        assert processes.cpu_seconds(process.pid) > 1.2 * alone
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert processes.cpu_seconds(process.pid) == 0.0
