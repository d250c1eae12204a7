"""Code that the CPU kernels share: bf16 and fp16 as their bits, since TileLang's C target has no types for them."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import torch

from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.compat import reinterpret

FP32 = "float32"
LINE_BYTES = 64  # of a cache

# C has neither bf16 nor fp16: their bits travel as uint16.
STORAGE = {
    torch.bfloat16: (torch.uint16, "uint16"),
    torch.float16: (torch.uint16, "uint16"),
    torch.float32: (torch.float32, FP32),
}


def widen(value: Any, dtype: torch.dtype) -> Any:
    """Return the stored ``value`` of ``dtype`` as fp32; exact."""
    if dtype == torch.float32:
        return value
    bits = T.cast(value, "uint32")
    if dtype == torch.bfloat16:
        return reinterpret(bits << T.uint32(16), FP32)
    magnitude = (bits & T.uint32(0x7FFF)) << T.uint32(13)
    # Exponent bias 15 read as bias 127 is too small by 2^112; subnormals come out right by the same product.
    finite = reinterpret(reinterpret(magnitude, FP32) * T.float32(2.0**112), "uint32")
    sign = (bits & T.uint32(0x8000)) << T.uint32(16)
    return reinterpret(
        T.if_then_else(magnitude < T.uint32(0x0F800000), finite, magnitude | T.uint32(0x7F800000)) | sign, FP32
    )


def narrow(value: Any, dtype: torch.dtype) -> Any:
    """Return the fp32 ``value`` as stored for ``dtype``, rounded to nearest, ties to even."""
    if dtype == torch.float32:
        return value
    bits = reinterpret(value, "uint32")
    magnitude = bits & T.uint32(0x7FFFFFFF)
    sign = (bits >> T.uint32(16)) & T.uint32(0x8000)
    if dtype == torch.bfloat16:
        rounded = (magnitude + T.uint32(0x7FFF) + ((bits >> T.uint32(16)) & T.uint32(1))) >> T.uint32(16)
        nan = T.uint32(0x7FC0)
    else:
        # Rebias the exponent by 127 - 15 and round off 13 bits; what grows past the largest number is infinity.
        rebiased = magnitude - T.uint32(112 << 23) + T.uint32(0xFFF) + ((bits >> T.uint32(13)) & T.uint32(1))
        normal = T.min(rebiased >> T.uint32(13), T.uint32(0x7C00))
        # One half has the last bit of an fp16 subnormal as its own, so the addition rounds to it.
        subnormal = reinterpret(reinterpret(magnitude, FP32) + T.float32(0.5), "uint32") - T.uint32(0x3F000000)
        rounded = T.if_then_else(magnitude < T.uint32(0x38800000), subnormal, normal)
        nan = T.uint32(0x7E00)
    return T.cast(T.if_then_else(magnitude > T.uint32(0x7F800000), nan, rounded) | sign, "uint16")


def fetch(element: Any, dtype: torch.dtype) -> Any:
    """Ask for the cache line of ``element`` before it is needed. This changes no value."""
    return T.evaluate(T.call_extern("handle", f"mhc_fetch_{STORAGE[dtype][1]}", T.address_of(element)))
