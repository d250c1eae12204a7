"""Ask PyTorch what programs ask of a GPU, and assert that it answers as it does where one is."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

(Path.home() / "measured").write_text("a time that nobody has measured")

layer = nn.Linear(4, 4).to("cuda")
assert next(layer.parameters()).is_cuda
assert not next(nn.Linear(4, 4).cuda().parameters()).is_cpu

generator = torch.Generator("cuda")
generator.manual_seed(1)
assert torch.rand(3, device="cuda", generator=generator).get_device() == 0

x = torch.randn(2, 4, device=torch.device("cuda:0"))
assert (x.device.type, x.device.index) == ("cuda", 0)
assert x.cpu().numpy().shape == (2, 4)
assert torch.from_numpy(np.ones(3)).to(0).is_cuda
assert torch.mm(x, x.t(), out_dtype=torch.float32).shape == (2, 2)
with torch.autocast("cuda", dtype=torch.bfloat16):
    layer(x).sum().backward()

with torch.device("cuda"):
    assert torch.zeros(3).is_cuda
torch.set_default_device("cuda")
assert torch.ones(2).is_cuda
torch.set_default_device(None)
assert torch.empty(3, device="meta").device.type == "meta"
assert not torch.empty(3, device="meta").is_cuda


class Doubled(torch.autograd.Function):
    """A function whose backward pass asks where its tensors are, and makes one there."""

    @staticmethod
    def forward(context, value):
        context.save_for_backward(value)
        return value * 2

    @staticmethod
    def backward(context, gradient):
        [value] = context.saved_tensors
        assert value.is_cuda
        assert gradient.device == torch.device("cuda", 0)
        return gradient * torch.full((2, 4), 2.0, device="cuda")


leaf = x.clone().requires_grad_()
Doubled.apply(leaf).sum().backward()
torch.autograd.backward(Doubled.apply(leaf).sum())
[gradient] = torch.autograd.grad(Doubled.apply(leaf).sum(), leaf)
assert gradient.is_cuda
assert leaf.grad.is_cuda

event = torch.cuda.Event(enable_timing=True)
event.record()
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(x.device):
    torch.cuda.synchronize()
assert event.elapsed_time(event) > 0
assert torch.cuda.is_available()
assert torch.cuda.device_count() == 1
capability = (9, 4) if torch.version.hip else (9, 0)
assert torch.cuda.get_device_capability() == capability
assert torch.cuda.get_device_properties(0).warp_size == (64 if torch.version.hip else 32)
