"""Right kernels of three packages, over many seeds: none is red.

By day NumPy has one seed; ``test_faults.py`` has a right kernel of each framework.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import driving
import pytest
from common import python_of

HERE = Path(__file__).parent
SUITE, KERNELS = HERE / "suites" / "honest", HERE / "honest"
NUMPY = {
    "numpy_softmax": (
        *("columns", "read_only", "workspace", "compiles_once", "warns", "packs", "refuses", "row_by_row"),
        *("pool", "tuned", "view", "reserves_late", "for_each_layout", "ring", "grows"),
        *("cycle", "frees_late", "waits_for_a_thread"),
    ),
    "numpy_table": ("table",),
    "numpy_sums": ("column_sums",),
    "numpy_product": ("product",),
    "numpy_momentum": ("momentum",),
    "numpy_gather": ("gather",),
    "numpy_clipped": ("clipped",),
    "numpy_differs": ("differs",),
}
TORCH = {
    "torch_softmax": ("SavesOutput", "compiled_late", "of_all_sizes"),
    "torch_scaled": ("scaled",),
    "torch_rotates": ("Rotates",),
    "torch_sums": ("column_sums",),
    "torch_step": ("step",),
    "torch_loss": ("loss",),
    "torch_convolved": ("convolved",),
}
TORCH_FORWARD = {"torch_softmax": ("blocks", "compiled", "in_two_graphs")}
JAX = {"jax_softmax": ("softmax",), "jax_scaled": ("scaled",)}
WITH_GRADIENTS = (
    *("torch_softmax", "torch_scaled", "torch_rotates", "torch_loss", "torch_convolved"),
    *("jax_softmax", "jax_scaled"),
)
ENVIRONMENTS = {"torch": ("reference", "cpu-llvm"), "jax": ("pallas-0.10", "tpu")}
SEEDS = 20


def cases_of(kernels: dict[str, tuple[str, ...]], seeds: int, *, forward_only: bool = False) -> list:
    """Return cases of a package: each kernel forward and backward, two dtypes and sizes, so many seeds.

    One seed has each dtype and each size once; more have all pairs.
    """
    sizes = ((dtype, tokens) for dtype in ("fp32", "bf16") for tokens in (7, 33))
    pairs = [("fp32", 7), ("bf16", 33)] if seeds == 1 else list(sizes)
    return [
        (op, way, {"tokens": tokens, "hidden": 40, "dtype": dtype, "kernel": kernel, "seed": seed})
        for op, names in kernels.items()
        for kernel in names
        for way in ("forward", "backward")[: 1 + (op in WITH_GRADIENTS and not forward_only)]
        for dtype, tokens in pairs
        for seed in range(seeds)
    ]


def packages(seeds: int) -> dict[str, list]:
    """Return the cases of the three packages."""
    torch = [*cases_of(TORCH, seeds), *cases_of(TORCH_FORWARD, seeds, forward_only=True)]
    return {"numpy": cases_of(NUMPY, seeds), "torch": torch, "jax": cases_of(JAX, seeds)}


def run(folder: Path, package: str, seeds: int, python: str = sys.executable) -> driving.Job:
    return driving.run(folder, SUITE, f"{package}_kernels:{{kernel}}", packages(seeds)[package], KERNELS, python=python)


def hold(job: driving.Job, package: str, seeds: int) -> None:
    assert len(job.ends) == len(packages(seeds)[package]), job.output
    assert job.red() == {}
    assert job.seconds <= 5 * len(job.ends), "three cases take fifteen seconds of a CPU at most, the imports too"
    print(f"{package}: {len(job.ends)} cases, {job.seconds:.0f} CPU-s")


def test_there_are_two_thousand_cases():
    assert sum(map(len, packages(SEEDS).values())) >= 2000


def test_no_right_kernel_in_numpy_is_red(tmp_path):
    hold(run(tmp_path, "numpy", 1), "numpy", 1)


@pytest.mark.environments
@pytest.mark.slow
def test_a_kernel_that_pytorch_compiles_is_green(tmp_path):
    cases = [case for case in packages(1)["torch"] if case[2]["kernel"] == "compiled_late"]
    python = str(python_of(*ENVIRONMENTS["torch"]))
    job = driving.run(tmp_path, SUITE, "torch_kernels:{kernel}", cases, KERNELS, python=python)
    assert (len(job.ends), job.red()) == (4, {}), job.output


@pytest.mark.environments
@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    ["of_parts", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("any_shape", "each_shape", "one_graph"))],
)
def test_no_run_of_a_compiled_kernel_is_plain_code(tmp_path, kernel):
    axes = [{"tokens": 7, "hidden": 40, "dtype": dtype, "kernel": kernel} for dtype in ("fp32", "bf16")]
    cases = [("torch_norm", way, one) for way in ("forward", "backward") for one in axes]
    suite, python = HERE / "suites" / "faults", str(python_of(*ENVIRONMENTS["torch"]))
    both = f"{KERNELS}{os.pathsep}{HERE / 'faults'}"  # it compiles the right kernel of torch_norm
    job = driving.run(tmp_path, suite, "torch_compiled:{kernel}", cases, both, python=python)
    assert (len(job.ends), job.red()) == (4, {}), job.output
    told = [end["facts"]["checks"] for case, end in job.ends.items() if ".backward" in case]
    twice = "torch.compile lets it run once: donated buffers"
    assert [twice in one for one in told] == [kernel != "of_parts"] * 2, told


@pytest.mark.nightly
@pytest.mark.parametrize("package", ["numpy", *ENVIRONMENTS])
def test_over_twenty_seeds_none_is_red(tmp_path, package):
    python = sys.executable
    if package in ENVIRONMENTS:
        python = os.environ.get(f"HONEST_{package.upper()}") or str(python_of(*ENVIRONMENTS[package]))
    hold(run(tmp_path, package, SEEDS, python), package, SEEDS)
