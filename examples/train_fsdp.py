"""Train mHC layers with FSDP2 on several processes, in bf16 with gradients reduced in fp32, on CPUs or GPUs.

    python examples/train_fsdp.py --processes 2
    python examples/train_fsdp.py --processes 2 --device cuda   # each process has a GPU of its own

``fully_shard`` spreads the parameters of each block over the processes and gathers them in bf16 when the block runs.
The mapping is computed in fp32 all the same. Each process has its own batches. Blocks of two layers throw the
operators' activations away and compute them again. The last line is for programs: ``first=... last=...``, the losses
of all processes together.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import mhc

HIDDEN, STREAMS, LAYERS, TOKENS = 32, 4, 4, 64


class Block(nn.Module):
    """Two layers, whose operators keep nothing but the layers' outputs."""

    def __init__(self, backend: str | None) -> None:
        super().__init__()

        def layer() -> nn.Module:
            return nn.Sequential(
                nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 2 * HIDDEN), nn.GELU(), nn.Linear(2 * HIDDEN, HIDDEN)
            )

        self.layers = nn.ModuleList(mhc.HyperConnection(layer(), STREAMS, HIDDEN, backend=backend) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with mhc.recomputation():
            for layer in self.layers:
                x = layer(x)
        return x


class Network(nn.Module):
    """Map ``[tokens, hidden]`` to the same shape."""

    def __init__(self, backend: str | None) -> None:
        super().__init__()
        self.backend = backend
        self.blocks = nn.ModuleList(Block(backend) for _ in range(LAYERS // 2))
        self.head = mhc.HyperHead(STREAMS, HIDDEN, backend=backend)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = mhc.expand(x, STREAMS, backend=self.backend)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def shard(model: Network, device: str) -> None:
    """Spread the parameters over all processes: a block is gathered as one."""
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def train(rank: int, processes: int, rendezvous: str, steps: int, backend: str | None, device: str) -> None:
    """Train as one of the processes; the first one prints."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=processes
    )
    torch.manual_seed(0)
    model = Network(backend).to(device)
    shard(model, device)
    assert isinstance(model, FSDPModule)
    assert all(isinstance(parameter, DTensor) and parameter.dtype == torch.float32 for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    random = torch.Generator().manual_seed(rank)
    turn = torch.linalg.qr(torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(7)))[0].to(device)
    losses = []
    for _ in range(steps):
        x = torch.randn(TOKENS, HIDDEN, generator=random).to(device)
        loss = (model(x).float() - x @ turn).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / processes)
    if rank == 0:
        print(f"first={sum(losses[:5]) / 5:.6f} last={sum(losses[-5:]) / 5:.6f}", flush=True)
    dist.destroy_process_group()
    # Threads of gloo outlive the group. One that lets go of a tensor while Python ends aborts the process
    # (https://github.com/pytorch/pytorch/pull/179291), so this process ends without that.
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Start the processes and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--backend", help="reference, inductor, triton, tilelang or tvm")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = str(Path(folder) / "rendezvous")
        arguments_of_each = (options.processes, rendezvous, options.steps, options.backend, options.device)
        mp.spawn(train, arguments_of_each, nprocs=options.processes)


if __name__ == "__main__":
    main()
