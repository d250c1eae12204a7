"""The operators for users of JAX: ``from mhc import jax as mhc``, or ``import mhc.jax``. It needs JAX and libtpu.

The kernels come from the backend ``pallas``, with gradients by ``jax.custom_vjp``.
"""

from mhc.backends.pallas.functions import MhcPre, expand, mhc_head, mhc_post, mhc_pre, sinkhorn

__all__ = ["MhcPre", "expand", "mhc_head", "mhc_post", "mhc_pre", "sinkhorn"]
