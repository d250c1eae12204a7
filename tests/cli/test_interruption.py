"""Signals that end a command, however many come at once."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

# Each round waits as a run waits for its jobs.
_ROUNDS = """
import threading, time
from kernel_matrix.cli.interruption import interrupt_on_signals

while True:
    interrupt_on_signals()
    try:
        print("waits", flush=True)
        threading.Event().wait(60)
    except KeyboardInterrupt:
        time.sleep(0.05)
        print("interrupted", flush=True)
"""
# A lock whose release, and a second one that waits, get a signal just when it is free.
_AT_A_LOCK = """
import os, signal, threading
from kernel_matrix.cli.interruption import interrupt_on_signals


class Signalled:
    def __init__(self):
        self.lock = threading.Lock()
        self.acquire, self.__enter__ = self.lock.acquire, self.lock.__enter__

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()

    def release(self):
        self.lock.release()
        os.kill(os.getpid(), signal.SIGTERM)


interrupt_on_signals()
condition = threading.Condition(Signalled())
try:
    with condition:
        condition.wait(60)
except KeyboardInterrupt:
    print("interrupted", condition.acquire(timeout=1))
"""
_ALL = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def test_a_signal_between_a_condition_and_its_lock_is_an_interrupt_a_little_later():
    done = subprocess.run([sys.executable, "-c", _AT_A_LOCK], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted True\n", done.stderr


def test_many_signals_at_once_are_one_interrupt():
    process = subprocess.Popen([sys.executable, "-c", _ROUNDS], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        for _ in range(100):
            assert process.stdout.readline() == b"waits\n"
            for number in _ALL * 5:  # a second signal comes while the handler of the first one runs
                os.kill(process.pid, number)
            assert select.select([process.stdout], [], [], 20)[0], "it waits on"
            assert process.stdout.readline() == b"interrupted\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
