"""The kernels of a layer are compiled side by side when its first one runs."""

from __future__ import annotations

import threading

import pytest
import torch

from mhc.functional import read_with_x
from mhc.library import ahead
from mhc.ops.mhc_post import MhcPostInputs
from mhc.ops.mhc_pre import MhcPreInputs
from mhc.ops.sinkhorn import SinkhornInputs
from spy import HIDDEN, TOKENS, N, mapping, tensor

GPU = torch.device("cuda", 0)
OPTIONS, SINKHORN = (1e-3, 1e-2, 1.5, "tf32"), (3, 1e-6, "deepseek")
KINDS = {(op, direction) for op in ("mhc_pre", "sinkhorn", "mhc_post") for direction in ("forward", "backward")}


class Compiled:
    """A table of kernels that note what they compile; each waits for all others, or raises."""

    def __init__(self, fails=()):
        self.specs = {}
        self._all = threading.Barrier(len(KINDS) - 1)
        self._fails = fails

    def table(self, _):
        more = {("expand", "forward"), ("mhc_head", "backward")}
        return {kind: type("Kernel", (), {"compile": self._of(kind)})() for kind in KINDS | more}

    def _of(self, kind):
        def compile_(_, spec, target):
            self._all.wait(300)
            self.specs[kind] = spec, target
            if kind in self._fails:
                raise RuntimeError("the compiler failed")

        return compile_


@pytest.fixture
def compiled(monkeypatch):
    made = Compiled(fails=[("sinkhorn", "backward")])
    monkeypatch.setattr(ahead, "operators_of", made.table)
    monkeypatch.setattr(ahead, "_target", lambda device: "sm_90")
    ahead.compile_layer.cache_clear()
    yield made
    ahead.compile_layer.cache_clear()


def end_of_threads():
    for thread in threading.enumerate():
        if thread.name.startswith("mhc-compile"):
            thread.join()


def test_all_kernels_but_the_first_are_compiled_at_the_same_time_and_once(compiled):
    """As the inputs of a call ask for them; one that fails stops no other one."""
    x, parameters = torch.zeros(TOKENS, N, HIDDEN), [value.detach() for value in mapping(N * (N + 2), 3)]
    for _ in range(2):
        ahead.compile_layer("any", GPU, (N, HIDDEN, x.dtype, True), OPTIONS, SINKHORN)
    end_of_threads()
    pre = MhcPreInputs(x, *parameters, *OPTIONS).spec
    logits = torch.zeros(TOKENS, N, N)
    sinkhorn = SinkhornInputs(logits, *SINKHORN).spec
    post = MhcPostInputs(x, x[:, 0], logits[:, 0], logits).spec
    specs = {"mhc_pre": pre, "sinkhorn": sinkhorn, "mhc_post": post}
    assert compiled.specs == {kind: (specs[kind[0]], "sm_90") for kind in KINDS - {("mhc_pre", "forward")}}


def test_a_read_begins_it_where_gradients_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(ahead, "compile_layer", lambda *arguments: asked.append(arguments))
    x, parameters = tensor(TOKENS, N, HIDDEN), mapping(N * (N + 2), 3)
    with torch.no_grad():
        read_with_x(x, *parameters)
    assert asked == []
    read_with_x(x, *parameters, pre_eps=1e-2, iterations=3)
    sizes = (N, HIDDEN, torch.float32, True)
    assert asked == [("reference", x.device, sizes, (1e-6, 1e-2, 2.0, "fp32"), (3, 0.0, "paper"))]


def test_nothing_is_compiled_for_a_cpu(compiled):
    ahead.compile_layer("any", torch.device("cpu"), (N, HIDDEN, torch.float32, True), OPTIONS, SINKHORN)
    end_of_threads()
    assert compiled.specs == {}
