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
_ALL = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


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
