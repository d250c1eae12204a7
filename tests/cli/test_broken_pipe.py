"""A reader that ends before the harness does, such as head, ends it without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from common import Doubles

COMMANDS = (["--help"], ["check"], ["check", "--schema"], ["ci", "plan"], ["no-such-command"])


@pytest.mark.parametrize(
    ("words", "closed"),
    [*((words, closed) for words in COMMANDS for closed in ("stdout", "stderr", "both")), (["doctor"], "stdout")],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_pipe_that_nobody_reads_is_no_traceback(doubles: Doubles, words, closed):
    def end(name: str) -> int:
        if closed not in (name, "both"):
            return subprocess.PIPE
        reading, writing = os.pipe()
        os.close(reading)
        return writing

    output, errors = end("stdout"), end("stderr")
    matrix = ["--matrix", str(doubles.root / "matrix.yaml")] if "--help" not in words and len(words[0]) < 10 else []
    command = [sys.executable, "-m", "kernel_matrix", *words, *matrix]
    done = subprocess.run(command, stdout=output, stderr=errors, text=True, check=False)
    for descriptor in (output, errors):
        if descriptor >= 0:
            os.close(descriptor)
    assert "Traceback" not in f"{done.stdout}{done.stderr}"
    assert "BrokenPipeError" not in f"{done.stdout}{done.stderr}"
    assert done.returncode in (0, 1, 2, 141)
