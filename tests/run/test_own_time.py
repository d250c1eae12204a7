"""A limit counts the time that a process would take alone: others' work ends no case, and what hangs ends all the same.

No test here knows how fast this machine is: what a process was given is compared with the CPU time that it got.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from common import Doubles
from records import states
from together import by_day

from kernel_matrix.job.processes import cpu_seconds
from kernel_matrix.probes import fork_probes
from kernel_matrix.run.own_time import OwnTime, lost_of, wait_for_end
from kernel_matrix.tools.launches.inside.recorder import compiling

BUSY = "import time\nwhile time.process_time() < 60: pass"  # it ends by itself, also where the test was killed
ONE_CORE = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
OTHERS = 5


def test_what_a_process_lost_is_what_it_would_have_had_alone():
    # passed, ran, waited, cores -> lost
    seconds = {
        "alone": ((1, 1, 0, 2), 0),
        "asleep": ((1, 0, 0, 2), 0),
        "one thread that gets a quarter of a core": ((1, 0.25, 0.75, 2), 0.75),
        "a short piece of work that came late": ((1, 0.01, 0.1, 2), 0.1),
        "two threads on two cores, each with half of one": ((1, 1, 1, 2), 0.5),
        "more threads than cores, and nobody else": ((1, 2, 6, 2), 0),
        "more threads than cores, with a fifth of the machine": ((1, 0.4, 7.6, 2), 0.8),
        "no core at all: a tenth counts, so that it ends": ((1, 0, 1, 2), 0.9),
        "threads of which one ended: it ran for longer than was seen": ((1, 1.2, 0, 2), 0),
        "no time at all": ((0, 0, 0, 2), 0),
        "a machine with one core": ((2, 1, 3, 1), 1),
    }
    assert {name: pytest.approx(lost_of(*given), abs=1e-9) for name, (given, _) in seconds.items()} == {
        name: lost for name, (_, lost) in seconds.items()
    }


@pytest.fixture
def started() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Return a function that starts a Python program, and waits until it runs; all ends with the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", f"print('it runs', flush=True)\n{program}"]
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout.readline() == b"it runs\n"
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.fixture
def busy(started) -> int:
    """Keep one core busy with several processes, and return how many they are."""
    for _ in range(OTHERS):
        started(ONE_CORE + BUSY)
    return OTHERS


@dataclass
class Running:
    """A process as an executor hands it out."""

    process: subprocess.Popen[bytes]
    why: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        self.process.kill()


def followed(child: Running, enough: Callable[[], bool]) -> tuple[float, float]:
    """Follow a process until it is enough; return the seconds that went by, and those that it lost."""
    own, began, lost = OwnTime(child), time.monotonic(), 0.0
    while not enough():
        time.sleep(0.05)
        lost += own.lost()
    return time.monotonic() - began, lost


CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ONE_CORE + BUSY!r}])"


@pytest.mark.parametrize("program", by_day(1, [ONE_CORE + BUSY, CHILD]), ids=["itself", "a child that it waits for"])
@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_a_process_that_others_keep_from_the_core_is_given_about_its_cpu_time(started, program: str):
    child = Running(started(program))
    cpu = [0.0]

    def enough() -> bool:
        cpu[0] = cpu_seconds(child.pid)
        return cpu[0] > 1.5

    passed, lost = followed(child, enough)
    assert passed > 2 * cpu[0], "the others do keep it from the core"
    assert passed - lost < 2 * cpu[0]
    assert passed - lost > 0.5 * cpu[0]


@pytest.mark.parametrize("how", by_day(1, ["wakes now and then", "sleeps", "stopped", "waits for an answer"]))
@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_a_process_that_does_nothing_loses_nothing_to_others(started, how: str):
    programs = {
        "sleeps": "import time; time.sleep(600)",
        "stopped": BUSY,
        "waits for an answer": "import os; r, w = os.pipe(); os.read(r, 1)",
        "wakes now and then": f"{ONE_CORE}import time\nwhile True: time.sleep(0.5)",
    }
    child = Running(started(programs[how]))
    if how == "stopped":
        os.kill(child.pid, signal.SIGSTOP)
    ends = time.monotonic() + 4
    passed, lost = followed(child, lambda: time.monotonic() > ends)
    assert lost < passed / 2


@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_what_never_ends_is_ended_on_a_busy_machine_too(started):
    child = Running(started(ONE_CORE + BUSY))
    began = time.monotonic()
    assert wait_for_end(child, 1.0) is None
    assert time.monotonic() - began > 1.0
    assert cpu_seconds(child.pid) < 4.0


@pytest.mark.slow
@pytest.mark.usefixtures("busy")
def test_a_probe_and_a_compilation_of_a_launch_are_given_about_their_cpu_time_too(started):
    """Both are forked where the harness is not: they see what their first threads waited."""
    child = Running(started(ONE_CORE + BUSY))
    compilation = compiling.Running(None, child.pid, None)
    began = time.monotonic()
    while (cpu := cpu_seconds(child.pid)) < 1.5:
        time.sleep(0.05)
        given = compilation.seconds()
    passed = time.monotonic() - began
    assert passed > 2 * cpu, "the others do keep it from the core"
    assert given < 2 * cpu
    assert passed - fork_probes.delay(child.pid) < 2 * cpu
    os.kill(child.pid, signal.SIGKILL)
    child.process.wait()
    assert fork_probes.delay(child.pid) == 0.0
    assert compilation.seconds() >= (time.monotonic() - began) / 10


@pytest.mark.slow
def test_a_process_that_ends_is_told_as_it_ended(started):
    assert wait_for_end(Running(started("raise SystemExit(3)")), 600) == 3


BURNING = """

def wrong(x, out):
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
    began = time.process_time()
    while time.process_time() - began < {seconds}:
        pass
    out[:] = 2 * x


BACKENDS["wrong"] = wrong
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("busy")
def test_a_case_that_takes_too_long_because_others_work_passes(doubles: Doubles):
    """Alone it takes less than half of its limit; with five others on its core, several times its limit."""
    doubles.edit("{ case: 15, job: 120 }", "{ case: 12, job: 60 }")
    path = doubles.root / "src" / "doubles" / "__init__.py"
    path.write_text(path.read_text() + BURNING.format(seconds=5))
    found = doubles.run("wrong")
    assert states(found) == ["pass"] * 3, [verdict.reason for verdict in found.verdicts]


@pytest.mark.nightly
@pytest.mark.usefixtures("busy")
def test_a_case_that_computes_for_ever_is_red_and_says_how_busy_the_machine_was(doubles: Doubles):
    doubles.edit("{ case: 15, job: 120 }", "{ case: 5, job: 120 }")
    path = doubles.root / "src" / "doubles" / "__init__.py"
    path.write_text(path.read_text() + BURNING.format(seconds=1e9))
    _, verdict, _ = doubles.run("wrong").verdicts
    assert (verdict.state, verdict.record.stage) == ("error", "timeout")
    assert "no end after 5 s, in stage launch; it waited " in verdict.reason
    assert "s more, which do not count (load " in verdict.reason
