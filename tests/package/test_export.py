"""A layer in the formats that models are deployed in: PyTorch exports it, and others are refused with a sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import mhc

N, HIDDEN = 4, 8


def models():
    torch.manual_seed(0)
    single = [mhc.SinglePassConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN) for _ in range(2)]
    return {
        "layer": (mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN), (N, HIDDEN)),
        "kronecker": (mhc.HyperConnection(nn.Linear(HIDDEN, HIDDEN), N, HIDDEN, mixer="kronecker"), (N, HIDDEN)),
        "head": (mhc.HyperHead(N, HIDDEN), (N, HIDDEN)),
        "single pass": (mhc.SinglePassStack(single), (HIDDEN,)),
    }


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", list(models()))
def test_an_exported_model_gives_the_same_bits_for_other_numbers_of_tokens(name, strict, tmp_path):
    model, shape = models()[name]

    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)

    x = torch.randn(5, *shape)
    tokens = {"x": {0: torch.export.Dim("tokens", min=2, max=1024)}}
    exported = torch.export.export(Alone(), (x,), dynamic_shapes=tokens, strict=strict)
    torch.export.save(exported, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for count in (5, 2, 33):
        x = torch.randn(count, *shape)
        assert torch.equal(loaded(x), model(x))


@pytest.mark.filterwarnings(
    "ignore:.torch.jit.trace.* is deprecated:DeprecationWarning", "ignore::torch.jit.TracerWarning"
)
@pytest.mark.parametrize("name", list(models()))
def test_torchscript_is_refused_with_a_sentence(name):
    model, shape = models()[name]
    with pytest.raises(NotImplementedError, match=r"TorchScript and ONNX do not have it; export .* torch.export"):
        torch.jit.trace(model, torch.randn(5, *shape))


@pytest.mark.filterwarnings("ignore:.torch.jit.script.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", list(models()))
def test_torch_jit_script_is_refused_with_a_sentence(name):
    with pytest.raises(NotImplementedError, match=r"TorchScript does not have its operators; export .* torch.export"):
        torch.jit.script(models()[name][0])


@pytest.mark.parametrize("way", ["called", "traced", "strict", "decomposed"])
def test_onnx_is_refused_with_a_sentence_in_each_way_that_its_exporter_goes(way, monkeypatch):
    model, arguments = models()["layer"][0], (torch.randn(5, N, HIDDEN),)
    exported = torch.export.export(model, arguments)
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    ways = {
        "called": lambda: model(*arguments),
        "traced": lambda: torch.export.export(model, arguments, strict=False),
        "strict": lambda: torch.export.export(model, arguments, strict=True),
        "decomposed": exported.run_decompositions,
    }
    with pytest.raises(Exception, match="mhc_pre: TorchScript and ONNX do not have it") as raised:
        ways[way]()
    assert way == "strict" or isinstance(raised.value, NotImplementedError)  # Dynamo has an error of its own


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of PyTorch about itself
@pytest.mark.nightly  # Inductor and a C++ compiler take half a minute
def test_a_package_of_aotinductor_gives_the_same_numbers_in_a_process_that_imports_mhc(tmp_path):
    model, shape = models()["layer"]
    tokens = ({0: torch.export.Dim("tokens", min=2, max=1024)},)
    with torch.no_grad():
        exported = torch.export.export(model, (torch.randn(5, *shape),), dynamic_shapes=tokens)
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
        x = torch.randn(33, *shape)
        torch.save((x, model(x)), tmp_path / "expected.pt")
    program = f"""
import torch
{{importing}}
x, expected = torch.load({str(tmp_path / "expected.pt")!r})
torch.testing.assert_close(torch._inductor.aoti_load_package({path!r})(x), expected)
"""
    for importing, status in (("import mhc", 0), ("", 1)):
        code = program.format(importing=importing)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert status == 0 or "Could not find schema for mhc::mhc_pre" in done.stderr
