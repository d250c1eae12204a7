"""``mhc_pre`` and its gradients; ``mhc_head`` and ``mhc_coefficients`` have the same kernels.

Each direction has two variants, and ``variants.toml`` chooses one of them; ``mhc_head`` has the plain backward:

``plain``
    Threads with sums of fp32 numbers: right everywhere, and the default.
``resident``, of the forward
    NVIDIA's sm_90, x in bf16 and four streams: tensor cores, and one read of x.
``one_read``, of the backward
    The same for hidden 1024, 1280, 2048, 2560 and 4096.
"""

from __future__ import annotations

from mhc.backends.cpp.kernel import Kernel
from mhc.backends.cpp.mhc_pre.launches import backward, forward
from mhc.backends.cpp.mhc_pre.one_read import OneRead
from mhc.backends.cpp.mhc_pre.resident import Resident
from mhc.backends.reading import Spec
from mhc.ops.mhc_coefficients import MhcCoefficientsSpec

GRADIENTS = (
    "mhc_pre_factors",
    "mhc_pre_grad_x",
    "mhc_pre_sums",
    "mhc_pre_grad_phi_gamma",
    "mhc_pre_grad_alpha_bias",
)


def constants(spec: Spec) -> tuple[tuple[str, int], ...]:
    """Return the constants of the source that only operators with logits of their own have."""
    return (("GIVES", 1), ("LOGITS", spec.logits)) if isinstance(spec, MhcCoefficientsSpec) else ()


_PLAIN = Kernel("mhc_pre", ("mhc_pre_forward",), forward, constants)
FORWARD = {"plain": _PLAIN, "resident": Resident(_PLAIN)}
_PLAIN_BACKWARD = Kernel("mhc_pre", GRADIENTS, backward, constants)
BACKWARD = {"plain": _PLAIN_BACKWARD, "one_read": OneRead(_PLAIN_BACKWARD)}
