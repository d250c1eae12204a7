"""The process that compares judges the facts that come back with a run."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conforming import described

import properties
from kernel_matrix.kit import MisbehavedError
from kernel_matrix.kit.checks import memory
from kernel_matrix.kit.laying import INTO
from kernel_matrix.kit.layouts import laid, place_of
from kernel_matrix.kit.running import Running
from test_operators import FORWARD

SUITE = Path(__file__).resolve().parents[1] / "mhc"
X = np.arange(6, dtype=np.float32).reshape(3, 2)
OUT = np.repeat(X[:, None], 2, axis=1)
FACTS = {
    "changed": [],
    "scratch": [],
    "operators": [],
    "marked": [],
    "overlaps": [],
    "odd": [],
    "aliases": [],
    "kept": 0,
}


class Case:
    """A case of ``expand`` whose kernel's process answers with what a test says."""

    backend, op, direction, device, target, kernel = "cheat", "expand", "forward", "cpu", "", ""
    action, interpreted, canary = "run", False, False

    def __init__(self, *, facts=None, spoil=lambda arrays: None):
        self.axes = {"tokens": 3, "streams": 2, "hidden": 2, "dtype": "fp32", "scale": 1}
        self.facts, self.spoil = FACTS | (facts or {}), spoil

    def draw(self, name, shape, **_):
        return np.zeros(shape)

    def kernel_memory(self):
        return None

    def kernel_children(self):
        return []

    def call(self, function, arrays=None, secret=0, **options):
        if arrays is None:
            return None, {}
        answer = {
            f"memory {name}": laid(place_of(one.shape, one.dtype), one, secret)
            for name, one in (("x", arrays["x"]), (f"{INTO}out", OUT))
        }
        self.spoil(answer)
        return self.facts, answer


def running(case):
    return Running(case, described("expand", "forward"), {"x": X})


def red(**case):
    one = running(Case(**case))
    with pytest.raises(MisbehavedError) as raised:
        one.run(one.given)
    return str(raised.value).partition(" [")[0]


def test_a_run_gives_the_outputs():
    one = running(Case())
    assert one.run(one.given)["out"].tolist() == OUT.tolist()


def flip(name, place):
    def spoil(arrays):
        arrays[f"memory {name}"][place] ^= 1

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (flip("into out", 0), "the kernel wrote past an end of its output out"),
        (flip("into out", -1), "the kernel wrote past an end of its output out"),
        (flip("x", -1), "the kernel wrote past an end of its input x"),
        (flip("x", 4096), "the kernel changed its input x"),
        (lambda arrays: arrays.pop("memory x"), "the kernel has given its input x away"),
    ],
)
def test_bytes_that_are_not_as_they_were_are_red(spoil, words):
    assert red(spoil=spoil) == words


def test_an_output_of_another_size_is_refused():
    one = running(Case(spoil=lambda arrays: arrays.update({"memory into out": arrays["memory into out"][1:]})))
    with pytest.raises(ValueError, match="8239 bytes came back, where 8240 were handed out"):
        one.run(one.given)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"changed": ["the grad mode", "autocast"]}, "the kernel changed the grad mode, autocast"),
        (
            {"scratch": ["empty (64,)"]},
            "the kernel wrote past an end of memory that it allocated: empty (64,)",
        ),
        ({"operators": ["sum", "mm"]}, "the kernel computes with PyTorch: mm"),
    ],
)
def test_what_the_kernels_process_saw_is_red(facts, words):
    assert red(facts=facts) == words


def test_sums_of_partial_results_are_no_computation():
    one = running(Case(facts={"operators": ["sum", "add_"]}))
    one.run(one.given)


@pytest.mark.parametrize(
    ("before", "now", "more", "is_red"),
    [
        (None, 1 << 40, 1 << 30, False),
        (0, 1 << 27, 1 << 27, False),
        (0, 1 << 28, 0, False),
        (0, 1 << 28, 1 << 23, True),
    ],
)
def test_memory_that_the_process_keeps_in_further_runs_is_held_to_a_bound(monkeypatch, before, now, more, is_red):
    case = Case()
    one = running(case)
    one.run(one.given)
    monkeypatch.setattr(case, "kernel_memory", itertools.count(now, more).__next__)
    one.memory_before = before
    if is_red:
        with pytest.raises(MisbehavedError, match="holds 256 MiB more after a few runs"):
            memory.memory(one)
    else:
        memory.memory(one)


@pytest.mark.parametrize(
    ("action", "target", "tokens", "more"),
    [
        ("emulate", "gfx942", 7, False),
        ("emulate", "gfx942", 8, True),
        ("run", "gfx942", 7, True),
        ("emulate", "rv64gcv", 7, True),
    ],
)
def test_few_tokens_on_an_emulated_gpu_have_no_property_that_compiles_more(action, target, tokens, more, monkeypatch):
    case, asked = Case(), []
    case.action, case.target, case.axes = action, target, {"tokens": tokens, "streams": 2}
    anew = lambda *_: asked.append("anew")  # noqa: E731
    monkeypatch.setattr(properties, "_PROPERTIES", {("expand", "forward"): (lambda *_: asked.append("as is"), anew)})
    monkeypatch.setattr(properties, "_WITH_OTHER_CODE", (anew,))
    properties.check(type("Run", (), {"case": case}), None, None)
    assert asked == ["as is"] + ["anew"] * more
    assert ("gradients" in described("expand", "forward").without(case)) is not more


def test_secrets_differ_between_runs():
    """A kernel that knows the guards of one run does not know the next run's guards."""
    seen = []
    one = running(Case(spoil=lambda arrays: seen.append(arrays["memory into out"][:8].tobytes())))
    for _ in range(3):
        one.run(one.given)
    assert len(set(seen)) == 3


def test_a_job_that_only_compiles_imports_no_pytorch_where_it_compares():
    """The import takes 1.6 s of each such job."""
    source, suite = str(SUITE.parents[1] / "src"), str(SUITE)
    options = f"-p kernel_matrix.job.plugin -c {os.devnull} --rootdir {suite} --collect-only {suite}".split()
    names = "print('torch' in sys.modules, *sys.modules['test_operators'].FORWARD)"
    program = f"import sys, pytest; sys.path.insert(0, {source!r}); pytest.main({options}); {names}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["False", *FORWARD], "and its cases are those of all operators"
