import torch


class good(torch.nn.Module):  # noqa: N801
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return x.float().tanh().to(x.dtype) * self.weight


class drifts(good):  # noqa: N801
    def forward(self, x):
        y = super().forward(x)
        self.weight.data.mul_(1 + 2**-20)
        return y


class own_weight(good):  # noqa: N801
    """Computes with a copy of the weight, made in the first call."""

    def forward(self, x):
        if not hasattr(self, "packed"):
            self.packed = self.weight.detach().clone()
        return x.float().tanh().to(x.dtype) * (self.packed + (self.weight - self.weight.detach()))


class changes_mode(good):  # noqa: N801
    def forward(self, x):
        self.train(not self.training)
        return super().forward(x)


class grows_buffers(good):  # noqa: N801
    def forward(self, x):
        self.register_buffer(f"seen{len(self._buffers)}", torch.zeros(1))
        return super().forward(x)
