"""Small programs that show what wgpu and lavapipe do with our launches: ``python webgpu.py``, where wgpu is installed.

Each writes its result to standard error. ``test_webgpu.py`` compares the results with what the backends rely on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from mhc.backends import NoDeviceError
from mhc.toolchain import webgpu

TARGET = "lavapipe"
HEAD = """
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> out : array<f32>;
struct PODArgs {
  tokens: i32,
  packGridDimX: u32
}
@group(0) @binding(2) var<uniform> podArgs : PODArgs;
@compute @workgroup_size(64, 1, 1)
fn one_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.x > podArgs.packGridDimX) { return; }
  let i : i32 = i32(blockIdx.x * 64u + threadIdx.x);
"""
COPY = "if (i < podArgs.tokens) {\n out[i] = x[i];\n }"


def run(lines: str, x: torch.Tensor, out: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """Run a kernel of these lines, a thread for each element."""
    tokens = out.numel()
    grid = (-(-tokens // 64) if blocks is None else blocks, 1)
    launch = webgpu.Launch(f"{HEAD}  {lines}\n}}\n", grid)
    webgpu.launch(TARGET, [launch], {"x": x, "out": out}, {}, {"tokens": tokens})
    return out


def every_bf16() -> str:
    """Copy every number of bf16 but NaN from halves of words to halves of words."""
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    x = x[~x.isnan()].contiguous()[:-1]  # an odd number of them
    out = run(COPY, x, torch.full_like(x, torch.nan))
    normal = (x.abs() >= torch.finfo(torch.bfloat16).tiny) | (x == 0)
    return f"{x.numel() % 2} {torch.equal(x.view(torch.int16)[normal], out.view(torch.int16)[normal])}"


def rounding() -> str:
    """Round fp32 numbers to bf16, some in the middle between two, as PyTorch does: to the even one."""
    torch.manual_seed(0)
    middle = (torch.randint(1 << 8, 1 << 15, (501,), dtype=torch.int32) << 16 | 0x8000).view(torch.float32)
    x = torch.cat([torch.randn(500) * 1e3, middle[middle.isfinite()], torch.tensor([torch.inf, -torch.inf, 3.4e38])])
    out = run(COPY, x, torch.empty(x.numel(), dtype=torch.bfloat16))
    return str(torch.equal(out, x.to(torch.bfloat16)))


def nan() -> str:
    """Round NaN to bf16."""
    x = torch.tensor([torch.nan, 1.0, -torch.nan])
    return str(run(COPY, x, torch.zeros(3, dtype=torch.bfloat16)).isnan().tolist())


def neighbours() -> str:
    """Write every second half of the words only: the other halves stay."""
    out = torch.arange(101, dtype=torch.float32).to(torch.bfloat16)
    run("if (i < podArgs.tokens && i % 2 == 1) {\n out[i] = x[i];\n }", torch.full((101,), 7.0), out)
    kept = torch.equal(out[::2].float(), torch.arange(0, 101, 2).float())
    return f"{kept} {bool((out[1::2] == 7).all())}"


def overrun() -> str:
    """Write one element behind the end of a tensor."""
    return str(run("if (i <= podArgs.tokens) {\n out[i] = 1.0f;\n }", torch.zeros(64), torch.zeros(64), 2).sum())


def overrun_of_halves() -> str:
    """Write one element behind the end of a tensor in bf16, whose last word has room for it."""
    out = torch.zeros(63, dtype=torch.bfloat16)
    return str(run("if (i <= podArgs.tokens) {\n out[i] = 1.0f;\n }", torch.zeros(64), out, 2).sum())


def read_beyond() -> str:
    """Read behind the end of a tensor."""
    return str(run("if (i < podArgs.tokens) {\n out[i] = x[i + 1];\n }", torch.ones(64), torch.zeros(64)).isnan().sum())


def large_grid() -> str:
    """Ask for more blocks than there may be."""
    return str(run(COPY, torch.ones(64), torch.zeros(64), 65536))


def wrong_source() -> str:
    """Compile what is no WGSL."""
    return str(run("let y = nothing;", torch.ones(64), torch.zeros(64)))


def threads() -> str:
    """Return how many threads of PyTorch and which rounding of subnormals are left after a launch."""
    before = torch.get_num_threads()
    run(COPY, torch.ones(64), torch.zeros(64))
    return f"{torch.get_num_threads() == before} {torch.tensor([1e-45]).mul(1.0).item() > 0}"


PROGRAMS: tuple[Callable[[], str], ...] = (
    *(
        every_bf16,
        rounding,
        nan,
        neighbours,
        overrun,
        overrun_of_halves,
        read_beyond,
        large_grid,
        wrong_source,
        threads,
    ),
)


def main() -> None:
    """Run all programs."""
    for program in PROGRAMS:
        try:
            result = program()
        except NoDeviceError as error:
            result = f"unavailable: {error}"
        except Exception as error:  # whatever it is, it is the result
            result = f"{type(error).__name__}: {error}"
        print(f"RESULT {program.__name__} {' '.join(result.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
