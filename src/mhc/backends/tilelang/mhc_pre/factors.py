"""What the kernels of ``mhc_pre``'s gradients hand on to each other, three for a GPU and three for the CPU.

``factors`` redoes what the forward knows of a token and leaves, per token: the n²+2n factors f that phi's rows have in
dx, the n weights h_pre, the factor of x itself, then dz and dz·m. ``columns`` walks down the tokens of a split with
some columns of x: dx, and the sums over these tokens of f·x, dz and dz·m. ``total`` adds up the splits. With
q = Σₜ f·x, dphi is q·gamma and dgamma is Σₒ phi·q. No sum depends on anything but the specialisation and the number of
tokens and of splits.
"""

from __future__ import annotations

from mhc.ops.mhc_pre import MhcPreSpec

STAGE = 16  # tokens whose sums are added up before they join others; a GPU's block has their factors in shared memory


def factors_of(spec: MhcPreSpec) -> int:
    """Numbers per token that ``factors`` leaves."""
    return 3 * spec.mixes + spec.streams + 1
