"""Right kernels in PyTorch, each with a habit that a check might take for a fault."""

import torch

_tables = {}


class SavesOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.float().softmax(-1).to(x.dtype)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        [x] = ctx.saved_tensors
        y, g = x.float().softmax(-1), g.float()
        return ((g - (g * y).sum(-1, keepdim=True)) * y).to(x.dtype)


def blocks(x):
    """Allocate more than it needs, and return a view."""
    y = torch.empty(len(x) + 2, x.shape[1], dtype=x.dtype)
    y[: len(x)] = x.float().softmax(-1)
    return y[: len(x)]


def compiled(x):
    """Set deterministic algorithms while it runs, and set them back."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        return x.float().softmax(-1).to(x.dtype)
    finally:
        torch.use_deterministic_algorithms(before)


def _in_two_graphs(x):
    z = x.float()
    e = (z - z.amax(-1, keepdim=True)).exp()
    torch._dynamo.graph_break()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


in_two_graphs = torch.compile(_in_two_graphs)


@torch.compile(dynamic=True)
def of_all_sizes(x):
    return x.float().softmax(-1).to(x.dtype)


def compiled_late(x, made=[]):  # noqa: B006
    """Compile in the first call."""
    if not made:
        made.append(torch.compile(lambda x: x.float().softmax(-1).to(x.dtype)))
    return made[0](x)


class Rotates(torch.nn.Module):
    """Keeps its table of angles in a buffer that it makes in the first call."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.linspace(1, 2, x.shape[1]), persistent=False)
        return (x.float() * self.table * self.weight).to(x.dtype)


def scaled(x, weight):
    return (x.float() * weight).to(x.dtype)


def column_sums(x, weight):
    return (x.double() * weight).sum(0).float()


def step(p, g):
    with torch.no_grad():
        p.add_(g, alpha=-0.5)


def loss(x, target):
    """Give a scalar."""
    return torch.nn.functional.cross_entropy(x.float(), target).to(x.dtype)


def convolved(x, weight, bias):
    """Leave out the padding, which is 0 times the weight, also where that is NaN."""
    return torch.nn.functional.conv1d(x.float(), weight.float(), bias.float(), padding=1).to(x.dtype)
