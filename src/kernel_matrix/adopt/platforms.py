"""Decide on which vendors' platforms the kernels of a repository can run, by the toolchains that write them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.adopt.repository import Repository


@dataclass(frozen=True)
class Platform:
    """A platform as matrix.yaml names it; its first target is a guess."""

    name: str
    title: str
    device: str
    target: str
    container: bool = True  # whether its jobs can run in one


CUDA = Platform("cuda", "NVIDIA CUDA", "nvidia", "sm_90")
ROCM = Platform("rocm", "AMD ROCm", "amd", "gfx942")
TPU = Platform("tpu", "Google TPU", "google", "v5e", container=False)
_ALL = (CUDA, ROCM, TPU)
# Where the kernels of each toolchain run, beside the CPU.
_WHERE = {
    "triton": (CUDA, ROCM),
    "tilelang": (CUDA, ROCM),
    "warp": (CUDA,),
    "taichi": (CUDA,),
    "cutlass": (CUDA,),
    "cupy": (CUDA,),
    "jax": (CUDA, TPU),
}
# A distribution whose plain form has no code for a GPU, and the extra that brings it, by platform.
_EXTRAS = {"jax": {"cuda": "cuda12", "tpu": "tpu"}}


def of(repository: Repository, kernels: Collection[str]) -> tuple[Platform, ...]:
    """Return the platforms of GPUs and TPUs that a repository is for.

    ``kernels`` are the frameworks that it has kernels of.
    """
    found = {one for name in repository.toolchains for one in _WHERE.get(name, ())}
    found |= {CUDA} if "Numba" in kernels else set()
    found |= {CUDA, ROCM} if repository.kernels or repository.cuda else set()
    return tuple(one for one in _ALL if one in found)


def toolchain(name: str, platform: str) -> str:
    """Return the name of the environment that a platform has for itself."""
    return f"{name}-{platform}"


def with_extra(lines: Sequence[str], platform: str) -> str | None:
    """Return the requirements with the builds that a platform needs; None where the plain ones have them."""
    changed = [line if line.startswith("#") else _with_extra(line, platform) for line in lines]
    return "\n".join(changed) + "\n" if changed != [*lines] else None


def _with_extra(line: str, platform: str) -> str:
    requirement = Requirement(line)
    extra = _EXTRAS.get(canonicalize_name(requirement.name), {}).get(platform)
    if extra is None:
        return line
    requirement.extras = {*requirement.extras, extra}
    return str(requirement)
