"""Train a Hugging Face decoder whose residual connections are mHC: a tiny Llama with random weights.

    python examples/train_llama.py --backend reference --steps 30

Every decoder layer of ``transformers`` adds twice to its residual: after attention and after the feed-forward part.
Here each of the two is a ``mhc.HyperConnection`` instead. The streams are made before the first layer and read out
before the last norm. Attention masks, position embeddings and caches reach the attention as they did. With
``--recompute`` the activations of each layer's operators are thrown away and computed again in the backward.

The model reads the repository's licence byte by byte. The last line is for programs: ``BACKEND first=... last=...``.
The example needs PyTorch, ``transformers`` (ci/locks/examples.txt pins it) and the backend's toolchain.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import mhc

TEXT = Path(__file__).parent.parent / "LICENSE"
STREAMS, CONTEXT, BATCH = 4, 32, 4


class Attention(nn.Module):
    """The norm and the attention of a decoder layer; it returns what would be added to the residual."""

    def __init__(self, norm: nn.Module, attention: nn.Module) -> None:
        super().__init__()
        self.norm, self.attention = norm, attention

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
        return self.attention(hidden_states=self.norm(x), **options)[0]


class HyperDecoderLayer(nn.Module):
    """A decoder layer over the residual streams ``[batch, context, n, hidden]``."""

    def __init__(self, layer: nn.Module, hidden: int, first: bool, recompute: bool, **options: Any) -> None:
        super().__init__()
        self.first, self.recompute, self.backend = first, recompute, options.get("backend")
        attention = Attention(layer.input_layernorm, layer.self_attn)
        feed_forward = nn.Sequential(layer.post_attention_layernorm, layer.mlp)
        self.attention = mhc.HyperConnection(attention, STREAMS, hidden, **options)
        self.feed_forward = mhc.HyperConnection(feed_forward, STREAMS, hidden, **options)

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
        if self.first:
            x = mhc.expand(x, STREAMS, backend=self.backend)
        with mhc.recomputation() if self.recompute else contextlib.nullcontext():
            return self.feed_forward(self.attention(x, **options))


def replace_residuals(model: LlamaForCausalLM, recompute: bool = False, **options: Any) -> None:
    """Replace the residual connections of all decoder layers; ``options`` are those of ``HyperConnection``."""
    decoder, hidden = model.model, model.config.hidden_size
    for place, layer in enumerate(decoder.layers):
        decoder.layers[place] = HyperDecoderLayer(layer, hidden, place == 0, recompute, **options)
    decoder.norm = nn.Sequential(mhc.HyperHead(STREAMS, hidden, backend=options.get("backend")), decoder.norm)


def make(backend: str | None, recompute: bool = False, iterations: int = 20) -> LlamaForCausalLM:
    """Return the model, the same for every backend."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
    )
    model = LlamaForCausalLM(config)
    replace_residuals(model, recompute, backend=backend, iterations=iterations)
    return model


def train(model: LlamaForCausalLM, steps: int, device: str = "cpu") -> list[float]:
    """Train, and return the loss of every step in nats per byte."""
    model = model.to(device)
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(text) - CONTEXT, (BATCH,), generator=random)
        batch = torch.stack([text[start : start + CONTEXT] for start in starts.tolist()]).to(device)
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with each backend and print how its loss fell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", help="reference, inductor, triton, tilelang or tvm (repeatable)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--recompute", action="store_true", help="throw the operators' activations away")
    parser.add_argument("--iterations", type=int, default=20, help="of Sinkhorn")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args(arguments)
    for backend in options.backend or ["reference"]:
        losses = train(make(backend, options.recompute, options.iterations), options.steps, options.device)
        print(f"{backend} first={sum(losses[:10]) / 10:.6f} last={sum(losses[-10:]) / 10:.6f}")


if __name__ == "__main__":
    main()
