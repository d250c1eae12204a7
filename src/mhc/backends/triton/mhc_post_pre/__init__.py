"""``mhc_post_pre`` in Triton; ``variants.toml`` chooses one of its variants:

``products``, ``registers``, ``tf32``, ``bf16x3``, ``overlapped``
    The launches of ``mhc_post`` and of this variant of ``mhc_pre`` in turn. Backward, the gradient that the streams
    have from elsewhere is added inside that of ``mhc_pre``.
``fused``, ``fused_bf16x3``
    Forward, with the variants ``products`` and ``bf16x3``, for up to 4 streams: the launch that writes the new streams
    adds up their projection and their squares. ``mhc_pre`` then reads them from memory once and not twice. No rule
    chooses them: on an H200 they take 6 to 12 % longer than the launches in turn (docs/speed.md). ``ci/nox -s tune``
    measures them on another GPU.

The backward has no fused variant: docs/speed.md says what was tried.
"""

from __future__ import annotations

from mhc.backends.triton import mhc_pre
from mhc.backends.triton.mhc_post_pre import fused, in_turn

FORWARD = {name: in_turn.forward(kernel) for name, kernel in mhc_pre.FORWARD.items()}
FORWARD |= {"fused": fused.forward("ieee"), "fused_bf16x3": fused.forward("bf16x3")}
BACKWARD = {name: in_turn.backward(kernel) for name, kernel in mhc_pre.BACKWARD.items()}
