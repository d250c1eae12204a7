"""The same as a module, whose weight is a parameter: one right, and a fault where there is one summand."""

import torch


class good(torch.nn.Module):  # noqa: N801
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x, residual):
        total = x if residual is None else x + residual
        return None if residual is None else total, total.tanh() * self.weight


class without_weight_alone(good):  # noqa: N801
    def forward(self, x, residual):
        total, y = super().forward(x, residual)
        return total, y if residual is not None else x.tanh() + 0 * y
