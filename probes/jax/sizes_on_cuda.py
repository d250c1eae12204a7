# /// probe
# asks = "Does Pallas lower a kernel for NVIDIA, by Triton, whose arrays have a size that is no power of two?"
# means = "The kernels for TPUs, whose blocks are as wide as the hidden size, lower for NVIDIA too."
# met = "our own matrix, platform tpu"
# platforms = ["cuda", "tpu"]
# truth = "Triton has powers of two alone, and Pallas adds no mask. Its lowering has no slices of values and no scratch either. A kernel for NVIDIA needs another form: blocks of powers of two, masked loads from references."
# requires = ["jax"]
# [[expect]]
# verdict = "fails"
# match = "whose size is a power of 2"
# ///
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt


def kernel(x, out):
    out[...] = x[...] * 2


def double(x):
    parameters = plt.CompilerParams(num_warps=4)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=parameters)(x)


jax.jit(double).trace(jax.ShapeDtypeStruct((8, 200), jnp.float32)).lower(lowering_platforms=("cuda",))
