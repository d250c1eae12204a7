"""Train a small transformer whose residual connections are mHC, on a CPU, with one backend or several in turn.

    python examples/train_transformer.py --backend reference --backend tvm

The model reads the repository's licence byte by byte and learns to predict the next byte. Every backend starts from the
same weights and gets the same batches, so the losses agree until rounding errors grow. The last line of each backend is
for programs: ``BACKEND first=... last=...``. The example needs PyTorch and the backend's toolchain.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import mhc

TEXT = Path(__file__).parent.parent / "LICENSE"
HIDDEN, STREAMS, HEADS, LAYERS, CONTEXT, BATCH = 32, 4, 4, 2, 32, 4


class Attention(nn.Module):
    """Causal self-attention over ``[batch, context, hidden]``."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.mix = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.mix(self.norm(x)).unflatten(-1, (3, HEADS, HIDDEN // HEADS)).movedim(-3, 0).transpose(-2, -3)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(-2, -3).flatten(-2))


class Transformer(nn.Module):
    """Map bytes ``[batch, context]`` to the logits of the next bytes ``[batch, context, 256]``."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, HIDDEN)
        self.places = nn.Embedding(CONTEXT, HIDDEN)
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            feed_forward = nn.Sequential(
                nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN)
            )
            layers += [
                mhc.HyperConnection(part, STREAMS, HIDDEN, backend=backend) for part in (Attention(), feed_forward)
            ]
        self.layers = nn.Sequential(*layers)
        self.logits = nn.Linear(HIDDEN, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        embedding = self.tokens(text) + self.places.weight
        streams = self.layers(embedding.unsqueeze(-2).expand(-1, -1, STREAMS, -1).contiguous())
        return self.logits(streams.mean(dim=-2))


def batches(steps: int) -> list[torch.Tensor]:
    """Return ``steps`` batches ``[batch, context + 1]`` of the text, the same in every call."""
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(1)
    starts = torch.randint(len(text) - CONTEXT - 1, (steps, BATCH), generator=random)
    return [torch.stack([text[start : start + CONTEXT + 1] for start in row.tolist()]) for row in starts]


def train(
    backend: str, steps: int, report: Callable[[int, float], None] | None = None, device: str = "cpu"
) -> list[float]:
    """Train, and return the loss of every step in nats per byte; ``report`` gets each loss at once."""
    torch.manual_seed(0)
    model = Transformer(backend).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step, batch in enumerate(batches(steps)):
        batch = batch.to(device)
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if report:
            report(step, losses[-1])
    return losses


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with each backend and print how its loss fell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", help="reference, inductor, triton, tilelang or tvm (repeatable)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args(arguments)
    for backend in options.backend or ["reference"]:

        def report(step: int, loss: float, backend: str = backend) -> None:
            if step % 20 == 0:
                print(f"{backend} step {step}: {loss:.3f}", flush=True)

        losses = train(backend, options.steps, report, options.device)
        print(f"{backend} first={sum(losses[:10]) / 10:.6f} last={sum(losses[-10:]) / 10:.6f}")


if __name__ == "__main__":
    main()
