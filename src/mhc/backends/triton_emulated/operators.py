"""The kernels that the emulated GPUs have: all of Triton's, with the choice between their variants."""

from __future__ import annotations

from pathlib import Path

from mhc.backends import Kernel as AnyKernel
from mhc.backends import triton
from mhc.backends.triton.operators import KERNELS as TRITON
from mhc.backends.triton_emulated.kernel import Kernel
from mhc.backends.variants import Variant, Variants, with_variants
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_post_pre import MhcPostPreSpec
from mhc.ops.mhc_pre import MhcPreSpec


def _on_emulator(kernel: AnyKernel) -> AnyKernel | dict[str, Variant]:
    if isinstance(kernel, Variants):
        return {name: Kernel(variant) for name, variant in kernel.variants.items()}
    return Kernel(kernel)


KERNELS = with_variants(
    {key: _on_emulator(kernel) for key, kernel in TRITON.items()},
    {"mhc_pre": MhcPreSpec, "mhc_head": MhcHeadSpec, "mhc_post": MhcPostSpec, "mhc_post_pre": MhcPostPreSpec},
    Path(triton.__file__).parent,
)
