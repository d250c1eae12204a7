"""The kernels that the emulated GPUs have: all of Triton's, with the choice between their variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


EVERY_VARIANT = ("gfx942", "gfx1100")  # elsewhere the chosen one runs: compiling the others takes most of the time


class _Variants(Variants):
    """The variants of a kernel, of which most targets run the one that is chosen."""

    def supported(self, spec: Any, target: str | None, tokens: int | None = None) -> dict[str, Variant]:
        """Return the variants that run this specialisation on ``target``, the chosen one first."""
        chosen, *others = super().supported(spec, target, tokens).items()
        return dict([chosen, *others] if target in EVERY_VARIANT else [chosen])


def _of_targets(kernel: AnyKernel) -> AnyKernel:
    return _Variants(kernel.variants, kernel._rules) if isinstance(kernel, Variants) else kernel


_TABLE = with_variants(
    {key: _on_emulator(kernel) for key, kernel in TRITON.items()},
    {"mhc_pre": MhcPreSpec, "mhc_head": MhcHeadSpec, "mhc_post": MhcPostSpec, "mhc_post_pre": MhcPostPreSpec},
    Path(triton.__file__).parent,
)
KERNELS = {key: _of_targets(kernel) for key, kernel in _TABLE.items()}
