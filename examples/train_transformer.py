"""Train a small transformer whose residual connections are mHC, with one backend or several in turn, or plain ones.

    python examples/train_transformer.py --backend plain --backend reference --backend tvm
    python examples/train_transformer.py --backend plain --backend fastest --device cuda --dtype bfloat16 --hidden 1024

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
        self.plain = backend == "plain"
        self.tokens = nn.Embedding(256, hidden)
        self.places = nn.Embedding(sizes.context, hidden)
        layers: list[nn.Module] = []
        for _ in range(sizes.layers):
            feed_forward = nn.Sequential(
                nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
            )
            for part in (Attention(hidden), feed_forward):
                layers.append(
                    Residual(part) if self.plain else mhc.HyperConnection(part, STREAMS, hidden, backend=backend)
                )
        self.layers = nn.Sequential(*layers)
        self.logits = nn.Linear(hidden, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        embedding = self.tokens(text) + self.places.weight
        if self.plain:
            return self.logits(self.layers(embedding))
        streams = self.layers(embedding.unsqueeze(-2).expand(-1, -1, STREAMS, -1).contiguous())
        return self.logits(streams.mean(dim=-2))


def batches(steps: int, sizes: Sizes) -> list[torch.Tensor]:
    """Return ``steps`` batches ``[batch, context + 1]`` of the text, the same in every call."""
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(1)
    starts = torch.randint(len(text) - sizes.context - 1, (steps, sizes.batch), generator=random)
    return [torch.stack([text[start : start + sizes.context + 1] for start in row.tolist()]) for row in starts]


def train(
    model: nn.Module, data: Sequence[torch.Tensor], report: Callable[[int, float], None]
) -> tuple[list[float], list[float]]:
    """Train, and return the loss in nats per byte and the seconds of every step; ``report`` gets each loss at once."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, seconds = [], []
    for step, batch in enumerate(data):
        begin = time.perf_counter()
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
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
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with each backend, and print how its loss fell and how many tokens it took in a second."""
    options = parsed(arguments)
    sizes = Sizes(*(getattr(options, name) for name in Sizes._fields))
    data = [batch.to(options.device) for batch in batches(options.steps, sizes)]
    for backend in options.backend or ["reference"]:

        def report(step: int, loss: float, backend: str = backend) -> None:
            if step % 20 == 0:
                print(f"{backend} step {step}: {loss:.3f}", flush=True)

        torch.manual_seed(0)
        model = Transformer(backend, sizes).to(options.device, getattr(torch, options.dtype))
        losses, seconds = train(model, data, report)
        print(f"{backend} tokens/s={sizes.batch * sizes.context / statistics.median(seconds):.0f}")
        print(f"{backend} first={sum(losses[:10]) / 10:.6f} last={sum(losses[-10:]) / 10:.6f}")


if __name__ == "__main__":
    main()
