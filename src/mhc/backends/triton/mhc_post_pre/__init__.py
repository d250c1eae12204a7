"""``mhc_post_pre`` in Triton; ``variants.toml`` chooses one of its variants:

``products``, ``registers``, ``tf32``, ``bf16x3``, ``overlapped``, ``few``
    The launches of ``mhc_post`` and of this variant of ``mhc_pre`` in turn. Backward, the gradient that the streams
    have from elsewhere is added inside the backward of ``mhc_pre``.

No variant makes both in one launch: docs/speed.md says what was tried.
"""

from __future__ import annotations

from mhc.backends.triton import mhc_pre
from mhc.backends.triton.mhc_post_pre import in_turn

FORWARD = {name: in_turn.forward(kernel) for name, kernel in mhc_pre.FORWARD.items()}
BACKWARD = {name: in_turn.backward(kernel) for name, kernel in mhc_pre.BACKWARD.items()}
