"""A task with a backward whose weights are of the kinds that a comparison of gradients could take for faults."""

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first, self.again, self.last = (nn.Linear(features, features) for _ in range(3))
        self.again.weight = self.first.weight  # one tensor with two names
        self.again.bias.requires_grad_(False)
        self.unused = nn.Parameter(torch.randn(5))
        self.norm = nn.BatchNorm1d(features)  # the gradient of the bias before it is zero, but for roundings

    def forward(self, x, aside):
        assert any(one.ndim for one in (x, aside))  # it ends a generator early
        return self.norm(self.last(self.again(torch.tanh(self.first(x)))))


def get_inputs():
    return [torch.randn(16, 24, requires_grad=True), torch.randn(16, requires_grad=True)]


def get_init_inputs():
    return [24]
"""
RIGHT = TASK.partition("def get_inputs")[0].replace("class Model(", "class ModelNew(")
CANDIDATES = {  # in this order: weights that nobody can give to the first are none of the second
    "weights of its own right": RIGHT.replace(
        "torch.randn(5))", "torch.randn(5))\n        self.more = nn.Parameter(torch.zeros(3))"
    ),
    "the same text right": RIGHT,
    "detached wrong": RIGHT.replace("self.first(x)", "x @ self.first.weight.detach().T + self.first.bias"),
}
