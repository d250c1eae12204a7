"""The tensors between the kernels of ``mhc_pre``'s gradients, three for a GPU and three for the CPU.

``factors`` computes the forward of a token again and stores per token: the n²+2n factors f of phi's rows in dx (grad_q
in the other backends), the n weights h_pre, the factor of x itself (slope), then dz and dz·m. ``columns`` walks down
the tokens of a split with some columns of x: it computes dx, and the sums over these tokens of f·x, dz and dz·m.
``total`` adds up the splits. With q = Σₜ f·x, dphi is q·gamma and dgamma is Σₒ phi·q. A sum depends only on the
specialisation and on the number of tokens and of splits.
"""

from __future__ import annotations

from mhc.ops.mhc_pre import MhcPreSpec

STAGE = 16  # tokens whose sums are added up before they join others; a GPU's block has their factors in shared memory


def factors_of(spec: MhcPreSpec) -> int:
    """Return how many numbers ``factors`` stores per token."""
    return 3 * spec.mixes + spec.streams + 1
