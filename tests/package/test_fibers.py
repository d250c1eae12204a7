"""Threads of a block as fibers on a CPU: barriers, shuffles and shared memory, and what is an error there.

A test compiles a small kernel with the header and runs it, as the backend ``cpp`` does with its own.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from mhc.backends import load
from mhc.backends.cpp import devices
from mhc.backends.cpp.arguments import Arguments
from mhc.backends.cpp.compilers import _CPU_FLAGS, find_cpu_compiler
from mhc.ops import sinkhorn

INCLUDE = Path(devices.__file__).parent / "include"

KERNELS = r"""
#include "fibers.h"

extern "C" __global__ void reverse(float* values) {
  __shared__ float kept[64];
  kept[threadIdx.x] = values[64 * blockIdx.x + threadIdx.x];
  __syncthreads();
  values[64 * blockIdx.x + threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void reverse_without_barrier(float* values) {
  __shared__ float kept[64];
  kept[threadIdx.x] = values[64 * blockIdx.x + threadIdx.x];
  values[64 * blockIdx.x + threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void shuffle(float* xor3, float* down5, float* down_of_8, double* sum) {
  const int t = threadIdx.x;
  xor3[t] = __shfl_xor_sync(0xffffffffu, float(t), 3, 32);
  down5[t] = __shfl_down_sync(0xffffffffu, float(t), 5, 32);
  down_of_8[t] = __shfl_down_sync(0xffffffffu, float(t), 5, 8);
  double own = t;
  for (int apart = 16; apart > 0; apart /= 2) own += __shfl_xor_sync(0xffffffffu, own, apart, 32);
  sum[t] = own;
}
extern "C" __global__ void xor_beyond_group(float* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, float(threadIdx.x), 8, 8);
}
extern "C" __global__ void warps_on_their_own(float* values) {
  float own = threadIdx.x;
  for (unsigned turn = 0; turn <= threadIdx.x / 32; ++turn) own = __shfl_xor_sync(0xffffffffu, own, 1, 32);
  __syncthreads();
  values[threadIdx.x] = own;
}
extern "C" __global__ void some_end_first(float* values) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  values[threadIdx.x] = 1;
}
extern "C" __global__ void two_barriers(float* values) {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  values[threadIdx.x] = 1;
}
extern "C" __global__ void barrier_and_shuffle(float* values) {
  if (threadIdx.x < 32) values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, threadIdx.x < 32, 32);
  if (threadIdx.x == 40) __shfl_xor_sync(0xffffffffu, 1.0f, 1, 32);
  __syncthreads();
}
extern "C" __global__ void some_lanes(float* values) {
  if (threadIdx.x % 2) values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 2, 32);
}
extern "C" __global__ void mask_of_some(float* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 2, 32);
}
extern "C" __global__ void lane_that_is_not_there(float* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 16, 32);
}
extern "C" __global__ void large(float* values, int bytes) {
  __shared__ char room[64 << 10];
  for (int at = threadIdx.x; at < bytes; at += blockDim.x) room[at] = 1;
  __syncthreads();
  values[threadIdx.x] = room[bytes - 1 - threadIdx.x];
}
extern "C" __global__ void remember(float* values) {
  __shared__ float kept;
  if (blockIdx.x == 0) kept = 1;
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = kept;
}
extern "C" __global__ void deep(float* values) {
  volatile char room[80 << 10];
  for (unsigned at = 0; at < sizeof room; ++at) room[at] = 1;
  values[threadIdx.x] = room[0];
}
EXPORT(reverse) EXPORT(reverse_without_barrier) EXPORT(shuffle) EXPORT(xor_beyond_group) EXPORT(warps_on_their_own)
EXPORT(some_end_first) EXPORT(two_barriers) EXPORT(barrier_and_shuffle) EXPORT(some_lanes) EXPORT(mask_of_some)
EXPORT(lane_that_is_not_there) EXPORT(large) EXPORT(remember) EXPORT(deep)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function: run a kernel over a number of blocks, and return its message, empty if there is none."""
    folder = tmp_path_factory.mktemp("fibers")
    (folder / "kernels.cc").write_text(KERNELS)
    command = [find_cpu_compiler(), *_CPU_FLAGS, "-Wall", "-Wextra", "-Werror", "-std=c++17", "-shared", "-fPIC"]
    subprocess.run([*command, f"-I{INCLUDE}", "-o", folder / "kernels.so", folder / "kernels.cc"], check=True)
    library = ctypes.CDLL(str(folder / "kernels.so"))

    def launch(kernel, *values, threads=64, blocks=1):
        memory = Arguments(values).take([])
        message = ctypes.create_string_buffer(500)
        sizes = map(ctypes.c_uint, (blocks, 1, 1, threads))
        status = getattr(library, f"{kernel}_launch")(*sizes, memory.pointers, message, ctypes.c_size_t(500))
        assert bool(status) == bool(message.value)
        return message.value.decode()

    return launch


RETURNS = KERNELS[: KERNELS.index("if (threadIdx.x == 5) return;")].count("\n") + 1
WAITS = f"thread 0 waits at the barrier in line {RETURNS + 1} of kernels.cc"


def test_a_barrier_keeps_all_threads_until_the_last_has_come(run):
    values = torch.arange(3 * 64.0)
    assert run("reverse", values, blocks=3) == ""
    assert torch.equal(values, torch.arange(3 * 64.0).view(3, 64).flip(1).reshape(-1))


def test_shared_memory_that_nobody_has_written_is_nan(run):
    """Whichever way the threads of a block run, a thread reads half of what the others have not yet written."""
    values = torch.ones(2 * 64)
    assert run("reverse_without_barrier", values, blocks=2) == ""
    assert values.view(2, 64).isnan().sum(dim=1).tolist() == [32, 32]
    assert values[:32].isnan().all()
    assert values[96:].isnan().all()


def test_a_block_does_not_see_what_another_left_in_shared_memory(run):
    values = torch.zeros(2 * 8)
    assert run("remember", values, threads=8, blocks=2) == ""
    assert values[:8].eq(1).all()
    assert values[8:].isnan().all()


def test_shuffles_give_the_values_of_other_lanes(run):
    lanes = torch.arange(64)
    xor3, down5, down_of_8 = (torch.full((64,), -1.0) for _ in range(3))
    sums = torch.zeros(64, dtype=torch.float64)
    assert run("shuffle", xor3, down5, down_of_8, sums) == ""
    assert torch.equal(xor3.long(), lanes ^ 3)
    assert torch.equal(down5.long(), torch.where(lanes % 32 + 5 < 32, lanes + 5, lanes))
    assert torch.equal(down_of_8.long(), torch.where(lanes % 8 + 5 < 8, lanes + 5, lanes))
    assert sums.tolist() == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32


def test_a_lane_beyond_its_group_is_the_lane_itself_or_one_of_an_earlier_group(run):
    """As CUDA has it: a lane may read an earlier group, and gets its own value for a later one."""
    values = torch.zeros(32)
    assert run("xor_beyond_group", values, threads=32) == ""
    assert values.tolist() == [lane ^ 8 if lane & 8 else lane for lane in range(32)]


def test_warps_shuffle_on_their_own(run):
    values = torch.zeros(128)
    assert run("warps_on_their_own", values, threads=128) == ""
    expected = [lane ^ 1 if lane // 32 % 2 == 0 else lane for lane in range(128)]
    assert values.tolist() == expected


@pytest.mark.parametrize(
    ("kernel", "threads", "message"),
    [
        (
            "some_end_first",
            64,
            f"not all threads of the block reach one barrier: {WAITS}, and thread 5 has ended",
        ),
        ("two_barriers", 64, "two barriers at once: thread 7 waits at the barrier in line"),
        ("barrier_and_shuffle", 64, "not all threads of the block reach one barrier: thread 0 waits at the barrier"),
        ("some_lanes", 64, "not all lanes of a warp reach one shuffle: thread 1 waits at the shuffle"),
        ("mask_of_some", 64, "a shuffle of some lanes of a warp: this header has those of all lanes alone"),
        ("lane_that_is_not_there", 16, "a shuffle reads a lane that the block does not have"),
        ("deep", 1, "a thread needs more than 64 KiB of stack"),
        ("reverse", 1025, "a block has 1 to 1024 threads"),
        ("reverse", 0, "a block has 1 to 1024 threads"),
    ],
)
def test_what_a_gpu_leaves_undefined_is_an_error(run, kernel, threads, message):
    values = torch.zeros(2048)
    text = run(kernel, values, threads=threads)
    assert text.startswith(f"{kernel}, block (0, 0, 0): {message}")
    assert run("reverse", torch.zeros(64)) == "", "a failed launch leaves nothing behind"


def test_a_block_has_no_more_shared_memory_than_on_a_gpu(run):
    values = torch.zeros(64)
    assert run("large", values, ctypes.c_int(48 << 10)) == ""
    assert values.eq(1).all()
    text = run("large", values, ctypes.c_int((48 << 10) + 1))
    assert text.endswith("the block writes 49153 bytes of shared memory; the limit is 49152")


def test_a_failed_launch_is_an_error_of_the_backend(monkeypatch):
    source = devices.Source.text.fget

    def without_some_lanes(self):
        return (
            source(self)
            .replace("place.is_row ? row.of[j] : 0.0f)", "row.of[j])")
            .replace("const Place place(tokens);", "const Place place(tokens);\n  if (thread_index() == 3) return;")
        )

    monkeypatch.setattr(devices.Source, "text", property(without_some_lanes))
    for function in (devices._library, devices.artifact):
        function.cache_clear()
    try:
        inputs = sinkhorn.SinkhornInputs(torch.zeros(7, 4, 4))
        with pytest.raises(devices.LaunchError, match=r"sinkhorn_forward, block .*not all lanes of a warp") as caught:
            load("cpp", "sinkhorn").run(inputs, sinkhorn.empty_outputs(inputs))
        assert caught.value.stage == "launch"
    finally:
        for function in (devices._library, devices.artifact):
            function.cache_clear()
