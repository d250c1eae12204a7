"""Serve a small transformer whose residual connections are mHC, with one backend or several in turn, or plain ones.

    python examples/serve_transformer.py --backend plain --backend reference
    python examples/serve_transformer.py --backend plain --backend fastest --device cuda --dtype bfloat16 --hidden 1024

Requests are parts of the repository's licence, each with a number of bytes to write. They share a batch of ``--slots``
places: one that has ended gives its slot to the next. A prompt is read in one call; then each step writes one byte in
every slot, on a GPU as one CUDA graph. The weights are random. The last line of each is for programs: the bytes written
in a second, the median step, and how many requests get the same bytes when they are served alone. The example needs
PyTorch and the backend's toolchain.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

import mhc

TEXT = Path(__file__).parent.parent / "LICENSE"
STREAMS, HEADS = 4, 4
ALONE = 4  # requests that are served again, each alone


class Sizes(NamedTuple):
    """The sizes of the model and of its batch."""

    hidden: int = 32
    layers: int = 2
    context: int = 64
    slots: int = 4


class Request(NamedTuple):
    """A prompt, as bytes, and how many bytes to write after it."""

    prompt: tuple[int, ...]
    length: int


class Attention(nn.Module):
    """Attend to what the slot has read and written so far: ``[slots, tokens, hidden]`` to the same shape."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden = sizes.hidden
        self.norm = nn.LayerNorm(hidden)
        self.mix = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        kept = torch.zeros(2, sizes.slots, sizes.context, HEADS, hidden // HEADS)
        self.register_buffer("kept", kept, persistent=False)  # keys and values

    def forward(self, x: torch.Tensor, slots: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        query, *new = self.mix(self.norm(x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        for kept, one in zip(self.kept, new, strict=True):
            kept[slots[:, None], places] = one
        keys, values = self.kept[:, slots].transpose(-2, -3)
        known = torch.arange(self.kept.shape[2], device=x.device) <= places[..., None]
        mixed = functional.scaled_dot_product_attention(query.transpose(-2, -3), keys, values, known[:, None])
        return self.out(mixed.transpose(-2, -3).flatten(-2))


class FeedForward(nn.Sequential):
    """Map each token for itself: the slot and the place do not count."""

    def forward(self, x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


class Plain(nn.ModuleList):
    """Layers one after the other, with plain residual connections."""

    def forward(self, x: torch.Tensor, slots: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        for layer in self:
            x = x + layer(x, slots, places)
        return x


class Transformer(nn.Module):
    """Map bytes ``[slots, tokens]`` at their places to the next byte of each slot ``[slots]``."""

    def __init__(self, backend: str, sizes: Sizes) -> None:
        super().__init__()
        hidden, self.backend = sizes.hidden, backend
        self.tokens = nn.Embedding(256, hidden)
        self.places = nn.Embedding(sizes.context, hidden)
        parts: list[nn.Module] = []
        for _ in range(sizes.layers):
            wide = nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
            parts += [Attention(sizes), FeedForward(nn.LayerNorm(hidden), *wide)]
        if backend == "plain":
            self.layers: nn.Module = Plain(parts)
        else:
            # Parameters of mHC in a narrow dtype would be cast at each call, by a launch for each of them.
            options = {"backend": backend, "dtype": torch.float32}
            self.layers = mhc.HyperStack(mhc.HyperConnection(part, STREAMS, hidden, **options) for part in parts)
            self.head = mhc.HyperHead(STREAMS, hidden, **options)
        self.logits = nn.Linear(hidden, 256)
        for part in self.modules():
            if isinstance(part, nn.Linear):  # large random weights: what a slot has read decides what it writes
                nn.init.normal_(part.weight, std=4 / part.in_features**0.5)

    def forward(self, text: torch.Tensor, slots: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        x = self.tokens(text) + self.places(places)
        if self.backend == "plain":
            x = self.layers(x, slots, places)
        else:
            streams = mhc.expand(x, STREAMS, backend=self.backend)
            x = self.head(self.layers(streams, slots, places)[:, -1:])
        return self.logits(x[:, -1]).argmax(dim=-1)


class Batch:
    """The slots of a model: the last byte of each, its place, and all bytes written."""

    def __init__(self, model: Transformer, sizes: Sizes, device: str) -> None:
        self.model, self.device = model, device
        self.slots = torch.arange(sizes.slots, device=device)
        self.last, self.places = (torch.zeros(sizes.slots, dtype=torch.long, device=device) for _ in range(2))
        self.written = torch.zeros(sizes.slots, sizes.context, dtype=torch.long, device=device)
        self.step: Callable[[], None] = self._step
        if device == "cuda":
            self.step = self._recorded()

    def read(self, slot: int, request: Request) -> None:
        """Read a prompt into a slot, and write its first byte."""
        text = torch.tensor([request.prompt], device=self.device)
        places = torch.arange(text.shape[1], device=self.device)[None]
        self.last[slot] = self.model(text, self.slots[slot : slot + 1], places)[0]
        self.places[slot] = text.shape[1]
        self.written[slot, text.shape[1]] = self.last[slot]

    def bytes_of(self, slot: int, request: Request) -> list[int]:
        """Return what was written after a prompt."""
        begin = len(request.prompt)
        return self.written[slot, begin : begin + request.length].tolist()

    def _step(self) -> None:
        self.last.copy_(self.model(self.last[:, None], self.slots, self.places[:, None]))
        self.places.add_(1).clamp_(max=self.written.shape[1] - 1)  # a slot without a request stays at the end
        self.written[self.slots, self.places] = self.last

    def _recorded(self) -> Callable[[], None]:
        """Return a step as a CUDA graph: what is compiled is compiled before."""
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph.replay


def serve(batch: Batch, requests: Sequence[Request]) -> tuple[list[list[int]], list[float]]:
    """Serve the requests, and return the bytes of each and the seconds of every step."""
    waiting = deque(enumerate(requests))
    free, running = list(range(len(batch.slots))), dict[int, list[int]]()  # slot: [request, bytes that it still wants]
    answers: list[list[int]] = [[] for _ in requests]
    seconds = []
    while waiting or running:
        while waiting and free:
            number, request = waiting.popleft()
            slot = free.pop()
            batch.read(slot, request)
            running[slot] = [number, request.length - 1]
        for slot, (number, wanted) in list(running.items()):
            if wanted == 0:
                answers[number] = batch.bytes_of(slot, requests[number])
                free.append(slot)
                del running[slot]
        if not running:
            continue
        begin = time.perf_counter()
        batch.step()
        if batch.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        for state in running.values():
            state[1] -= 1
    return answers, seconds


def requests_of(count: int, context: int) -> list[Request]:
    """Return requests with prompts and answers of many lengths, the same in every call."""
    text = TEXT.read_bytes()
    random = torch.Generator().manual_seed(1)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=random))

    found = []
    for _ in range(count):
        length, begin = number(1, context // 2), number(0, len(text) - context)
        found.append(Request(tuple(text[begin : begin + length]), number(1, context // 2)))
    return found


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = "plain, reference, inductor, triton, fastest, cpp, tilelang or tvm (repeatable)"
    parser.add_argument("--backend", action="append", help=words)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of the model")
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args(arguments)


@torch.inference_mode()
def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the requests with each backend, and print how fast, and whether a request alone gets the same bytes."""
    options = parsed(arguments)
    sizes = Sizes(*(getattr(options, name) for name in Sizes._fields))
    torch.set_default_dtype(getattr(torch, options.dtype))
    requests = requests_of(options.requests, sizes.context)
    for backend in options.backend or ["reference"]:
        torch.manual_seed(0)
        model = Transformer(backend, sizes).to(options.device)
        batch = Batch(model, sizes, options.device)
        serve(batch, requests[:1])  # what is compiled is compiled before the clock runs
        begin = time.perf_counter()
        answers, seconds = serve(batch, requests)
        total = time.perf_counter() - begin
        alone = [serve(batch, [one])[0][0] for one in requests[:ALONE]]
        same = sum(one == other for one, other in zip(alone, answers, strict=False))
        rate, step = sum(map(len, answers)) / total, statistics.median(seconds) * 1000
        print(f"{backend} bytes/s={rate:.0f} step_ms={step:.3f} alone={same} of {len(alone)}")


if __name__ == "__main__":
    main()
