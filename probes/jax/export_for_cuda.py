# /// probe
# asks = "Can a kernel of Pallas for NVIDIA be exported on one machine, to be run on another?"
# means = "A machine without a GPU makes what an H200 runs."
# met = "our own matrix, platform tpu"
# platforms = ["cuda", "tpu"]
# truth = "jax.export lowers it and refuses to serialise it: the call of Triton's code has no promise of compatibility between versions. The kernel has to be lowered where it runs."
# requires = ["jax"]
# [[expect]]
# verdict = "fails"
# match = "Cannot serialize code with custom calls whose targets have no compatibility guarantees"
# ///
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt


def kernel(x, out):
    out[...] = x[...] * 2


def double(x):
    parameters = plt.CompilerParams(num_warps=4)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=parameters)(x)


export.export(jax.jit(double), platforms=["cuda"])(jax.ShapeDtypeStruct((64,), jnp.float32))
