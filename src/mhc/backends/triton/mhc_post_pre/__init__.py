"""``mhc_post_pre`` in Triton. It has these variants in both directions; ``variants.toml`` chooses one of them:

``apart``
    The launches of ``mhc_post`` and of ``mhc_pre`` in turn, with the gradient of the streams between them in fp32:
    right for any number of streams on every target, and the default.
``fused``
    Up to 4 streams, whose tiles a program holds at once. Forward, the launch that makes the new streams adds up their
    projection and their squares, so ``mhc_pre`` reads them once and not twice. Backward, the gradient of the new
    streams stays in registers, and is neither written nor read.
``fused_tf32``, ``fused_bf16x3``
    The same with tensor cores of NVIDIA, as the variants of ``mhc_pre`` have them.
"""

from __future__ import annotations

from mhc.backends.triton.mhc_post_pre import apart, fused

FORWARD = {"apart": apart.FORWARD}
BACKWARD = {"apart": apart.BACKWARD}
for _form, _name in (("ieee", "fused"), ("tf32", "fused_tf32"), ("bf16x3", "fused_bf16x3")):
    FORWARD[_name] = fused.forward(_form)
    BACKWARD[_name] = fused.backward(_form)
