"""The help comes at once. It measures time, so no other test may run at the same time."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest
from common import ROOT
from loops import at_least

from kernel_matrix.cli import GROUPS, commands


@pytest.mark.alone
def test_help_takes_less_than_a_third_of_a_second_of_cpu():
    command = [sys.executable, "-m", "kernel_matrix", "--help"]
    seconds = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True)
        after = os.times()
        assert done.returncode == 0
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds) < 0.3


def test_help_names_every_command_with_its_first_line():
    command = [sys.executable, "-m", "kernel_matrix", "--help"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True)
    words = " ".join(done.stdout.split())
    for name, path in at_least(30, commands().items()):
        first = " ".join(importlib.import_module(path).__doc__.splitlines()[0].split())
        group = name.partition(" ")[0]
        assert (f" {group} {GROUPS[group]}: " if group in GROUPS else f" {name} {first}") in words
