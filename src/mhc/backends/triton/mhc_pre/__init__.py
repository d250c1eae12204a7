"""``mhc_pre`` and its kin in Triton: launched on the GPU that holds the inputs, or compiled ahead of time.

``mhc_head`` is ``mhc_pre`` without the coefficients that write back, and ``mhc_coefficients`` gives these alone. All
have the same variants in both directions; ``variants.toml`` chooses one of them:

``products``
    ``tl.dot`` in fp32: right for any number of streams on every target, and the default.
``registers``
    The sums of all mixes in registers, for up to 24 of them: ``mhc_pre`` of 4 streams.
``tf32``
    Tensor cores of NVIDIA, with operands rounded to TF32.
``bf16x3``
    Tensor cores of NVIDIA for x in bf16, as exact as fp32.
``overlapped``
    The forward of ``bf16x3``, where x is read the second time while it is in the cache.
``few``
    The same for few tokens: two launches in place of three, and the same bits.
"""

from __future__ import annotations

from mhc.backends.triton.mhc_pre import overlapped, products, registers

FORWARD = {"products": products.forward("ieee"), "registers": registers.FORWARD}
BACKWARD = {"products": products.backward("ieee"), "registers": registers.BACKWARD}
for _form in ("tf32", "bf16x3"):
    FORWARD[_form] = products.forward(_form)
    BACKWARD[_form] = products.backward(_form)
FORWARD["overlapped"] = overlapped.FORWARD
FORWARD["few"] = overlapped.FEW
