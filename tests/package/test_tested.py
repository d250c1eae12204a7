"""The process that compares judges the facts that come back with a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import conformance
import properties
from draws import OPS
from guards import Guarded
from mhc.ops.expand import ExpandInputs, ExpandOutputs
from tensors import from_numpy
from tested import MisbehavedError, UnderTest

SUITE = Path(__file__).resolve().parents[1] / "mhc"
INPUTS = ExpandInputs(torch.arange(6.0).reshape(3, 2), 2)
FACTS = {"changed": [], "overrun": [], "operators": [], "kept_on_device": 0}


class Case:
    """A case of ``expand`` whose kernel's process answers with what a test says."""

    backend, op, direction, device, target = "cheat", "expand", "forward", "cpu", ""
    action, interpreted = "run", False

    def __init__(self, *, facts=None, spoil=lambda arrays: None):
        self.axes = {"tokens": 3}
        self.facts, self.spoil = FACTS | (facts or {}), spoil

    def kernel_memory(self):
        return None

    def kernel_children(self):
        return []

    def call(self, function, arrays, secret, **options):
        x = from_numpy(arrays["x"])
        answer = {
            "out": Guarded.copy_of(x.unsqueeze(1).expand(-1, 2, -1).contiguous(), x.device, secret).bytes(),
            "input x": Guarded.copy_of(x, x.device, secret).bytes(),
        }
        self.spoil(answer)
        return self.facts, answer


def red(**case):
    with pytest.raises(MisbehavedError) as raised:
        UnderTest(Case(**case)).run(INPUTS, checked=True)
    return str(raised.value)


def test_a_run_gives_the_outputs():
    out = UnderTest(Case()).run(INPUTS, checked=True).out
    assert out.tolist() == [[[0, 1]] * 2, [[2, 3]] * 2, [[4, 5]] * 2]


def flip(name, place):
    def spoil(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][place] ^= 1

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (flip("out", 0), "the kernel wrote past the end of its output out"),
        (flip("out", -1), "the kernel wrote past the end of its output out"),
        (flip("input x", -1), "the kernel wrote past the end of its input x"),
        (flip("input x", 4096), "the kernel changed its input x"),
        (lambda arrays: arrays.pop("out"), "the output out did not come back"),
    ],
)
def test_bytes_that_are_not_as_they_were_are_red(spoil, words):
    assert red(spoil=spoil) == words


def test_an_output_of_another_size_is_refused():
    with pytest.raises(ValueError, match="8239 bytes came back, where 8240 were handed out"):
        UnderTest(Case(spoil=lambda arrays: arrays.update(out=arrays["out"][1:]))).run(INPUTS)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"changed": ["the grad mode", "autocast"]}, "the kernel changed the grad mode, autocast"),
        ({"overrun": ["empty (64,)"]}, "the kernel wrote past the end of its scratch: empty (64,)"),
        ({"operators": ["sum", "mm"]}, "the kernel computes with PyTorch: mm"),
    ],
)
def test_what_the_kernels_process_saw_is_red(facts, words):
    assert red(facts=facts) == words


def test_sums_of_partial_results_are_no_computation():
    UnderTest(Case(facts={"operators": ["sum", "add_"]})).run(INPUTS, checked=True)


@pytest.mark.parametrize(("runs", "is_red"), [(1, False), (2, False), (4, True)])
def test_memory_of_the_device_that_every_run_keeps_is_red(runs, is_red):
    kernel = UnderTest(Case(facts={"kept_on_device": 100 << 20}))
    for _ in range(runs):
        out = kernel.run(INPUTS)
    if is_red:
        with pytest.raises(MisbehavedError, match="holds 300 MiB more of the device's memory"):
            kernel.check_memory(INPUTS, out, None)
    else:
        kernel.check_memory(INPUTS, out, None)


@pytest.mark.parametrize(("before", "now", "is_red"), [(None, 1 << 40, False), (0, 1 << 27, False), (0, 1 << 28, True)])
def test_memory_of_the_process_is_held_to_a_bound(monkeypatch, before, now, is_red):
    case = Case()
    monkeypatch.setattr(case, "kernel_memory", lambda: now)
    if is_red:
        with pytest.raises(MisbehavedError, match="holds 256 MiB more after a few runs"):
            UnderTest(case).check_memory(INPUTS, INPUTS[:1], before)
    else:
        UnderTest(case).check_memory(INPUTS, INPUTS[:1], before)


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
    case.action, case.target, case.axes = action, target, {"tokens": tokens}
    anew = lambda *_: asked.append("anew")  # noqa: E731
    monkeypatch.setattr(properties, "_PROPERTIES", {("expand", "forward"): (lambda *_: asked.append("as is"), anew)})
    monkeypatch.setattr(properties, "_WITH_OTHER_CODE", (anew,))
    out = ExpandOutputs(torch.ones(1))
    properties.check("expand", "forward", None, None, out, out, conformance.may_compile_more(case))
    assert asked == ["as is"] + ["anew"] * more


def test_secrets_differ_between_runs():
    """A kernel that knows the guards of one run does not know the next run's guards."""
    seen = []
    case = Case(spoil=lambda arrays: seen.append(arrays["out"][:8].tobytes()))
    kernel = UnderTest(case)
    for _ in range(3):
        kernel.run(INPUTS)
    assert len(set(seen)) == 3


def test_a_job_that_only_compiles_imports_no_pytorch_where_it_compares():
    """The import takes 1.6 s of each such job."""
    source, suite = str(SUITE.parents[1] / "src"), str(SUITE)
    options = f"-p kernel_matrix.job.plugin -c {os.devnull} --rootdir {suite} --collect-only {suite}".split()
    names = "print('torch' in sys.modules, *sys.modules['test_golden'].operators())"
    program = f"import sys, pytest; sys.path.insert(0, {source!r}); pytest.main({options}); {names}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["False", *OPS], "and its cases are those of all operators"
