"""A layer in the formats that models are deployed in: PyTorch exports it, and others are refused with a sentence."""

from __future__ import annotations

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


def test_onnx_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    with pytest.raises(NotImplementedError, match="mhc_pre: TorchScript and ONNX do not have it"):
        models()["layer"][0](torch.randn(5, N, HIDDEN))
