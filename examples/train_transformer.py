"""Train a small transformer whose residual connections are mHC, with one backend or several in turn, or plain ones.

    python examples/train_transformer.py --backend plain --backend reference --backend tvm
    python examples/train_transformer.py --backend plain --backend fastest --device cuda --dtype bfloat16 --graph

The model reads the repository's licence byte by byte and learns to predict the next byte. ``plain`` has residual
connections without mHC. Every backend starts from the same weights and gets the same batches, so the losses agree until
rounding errors grow. The last lines of each are for programs: ``BACKEND tokens/s=...`` of the median step, and
``BACKEND first=... last=...``. The example needs PyTorch and the backend's toolchain.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

import mhc

TEXT = Path(__file__).parent.parent / "LICENSE"
STREAMS, HEADS = 4, 4


class Sizes(NamedTuple):
    """The sizes of the model and its batches."""

    hidden: int = 32
    layers: int = 2
    context: int = 32
    batch: int = 4


class Attention(nn.Module):
    """Causal self-attention over ``[batch, context, hidden]``."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.mix = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.mix(self.norm(x)).unflatten(-1, (3, HEADS, x.shape[-1] // HEADS)).movedim(-3, 0).transpose(-2, -3)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(-2, -3).flatten(-2))


class Residual(nn.Module):
    """A plain residual connection: what a layer gives is added to what it gets."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer(x)


class Transformer(nn.Module):
    """Map bytes ``[batch, context]`` to the logits of the next bytes ``[batch, context, 256]``."""

    def __init__(self, backend: str, sizes: Sizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.backend = backend
        self.tokens = nn.Embedding(256, hidden)
        self.places = nn.Embedding(sizes.context, hidden)
        parts: list[nn.Module] = []
        for _ in range(sizes.layers):
            wide = nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
            parts += [Attention(hidden), nn.Sequential(nn.LayerNorm(hidden), *wide)]
        if backend == "plain":
            self.layers: nn.Module = nn.Sequential(*map(Residual, parts))
        else:
            # Parameters of mHC in a narrow dtype would be cast at each call, by a launch for each of them.
            options = {"backend": backend, "dtype": torch.float32}
            self.layers = mhc.HyperStack(mhc.HyperConnection(part, STREAMS, hidden, **options) for part in parts)
            has_head = ("mhc_head", "forward") in mhc.backends.operators_of(backend)
            self.head = mhc.HyperHead(STREAMS, hidden, **options | {"backend": backend if has_head else None})
        self.logits = nn.Linear(hidden, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.tokens(text) + self.places.weight
        if self.backend == "plain":
            x = self.layers(x)
        else:
            x = self.head(self.layers(mhc.expand(x, STREAMS, backend=self.backend)))
        return self.logits(x)


def batches(steps: int, sizes: Sizes) -> list[torch.Tensor]:
    """Return ``steps`` batches ``[batch, context + 1]`` of the text, the same in every call."""
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(1)
    starts = torch.randint(len(text) - sizes.context - 1, (steps, sizes.batch), generator=random)
    return [torch.stack([text[start : start + sizes.context + 1] for start in row.tolist()]) for row in starts]


class Training:
    """A model and its optimizer; a call takes a step over a batch, and returns the loss in nats per byte.

    With ``graph`` the steps after the first three are replays of one CUDA graph: Python issues a step in a few
    microseconds, whatever it has in it.
    """

    def __init__(self, model: nn.Module, graph: bool) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True, capturable=graph)
        self.warm_up = 3 if graph else None  # steps that are left before the graph is recorded
        self.graph, self.stream = torch.cuda.CUDAGraph() if graph else None, torch.cuda.Stream() if graph else None

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            return self._step(batch)
        if self.warm_up:
            self.warm_up -= 1
            with torch.cuda.stream(self.stream):
                return self._step(batch)
        if self.warm_up == 0:
            self.warm_up = None
            self.batch = torch.empty_like(batch)
            with torch.cuda.graph(self.graph):
                self.loss = self._step(self.batch)
        self.batch.copy_(batch)
        self.graph.replay()
        return self.loss

    def _step(self, batch: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(self.model(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def train(
    model: nn.Module, data: Sequence[torch.Tensor], report: Callable[[int, float], None], graph: bool = False
) -> tuple[list[float], list[float]]:
    """Train, and return the loss and the seconds of every step; ``report`` gets each loss at once."""
    training = Training(model, graph)
    losses, seconds = [], []
    for step, batch in enumerate(data):
        begin = time.perf_counter()
        losses.append(training(batch).item())
        if batch.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        report(step, losses[-1])
    return losses, seconds


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = "plain, reference, inductor, triton, fastest, cpp, tilelang or tvm (repeatable)"
    parser.add_argument("--backend", action="append", help=words)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of the model")
    parser.add_argument("--graph", action="store_true", help="record a step as a CUDA graph, and replay it")
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args(arguments)
    if options.graph and options.device != "cuda":
        parser.error("--graph records a CUDA graph: it needs --device cuda")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with each backend, and print how its loss fell and how many tokens it took in a second."""
    options = parsed(arguments)
    sizes = Sizes(*(getattr(options, name) for name in Sizes._fields))
    torch.set_default_dtype(getattr(torch, options.dtype))
    data = [batch.to(options.device) for batch in batches(options.steps, sizes)]
    for backend in options.backend or ["reference"]:

        def report(step: int, loss: float, backend: str = backend) -> None:
            if step % 20 == 0:
                print(f"{backend} step {step}: {loss:.3f}", flush=True)

        torch.manual_seed(0)
        model = Transformer(backend, sizes).to(options.device)
        losses, seconds = train(model, data, report, options.graph)
        print(f"{backend} tokens/s={sizes.batch * sizes.context / statistics.median(seconds):.0f}")
        print(f"{backend} first={sum(losses[:10]) / 10:.6f} last={sum(losses[-10:]) / 10:.6f}")


if __name__ == "__main__":
    main()
