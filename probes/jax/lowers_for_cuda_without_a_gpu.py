# /// probe
# asks = "Does Pallas lower a kernel for NVIDIA, by Triton, with a JAX that is built for CPUs?"
# means = "What Pallas makes of a kernel for NVIDIA can be seen without a GPU."
# met = "our own matrix, platform tpu"
# platforms = ["cuda", "tpu"]
# truth = "It lowers to Triton's IR if the kernel has Triton's compiler_params. Without them it says that jaxlib for GPUs is missing."
# requires = ["jax"]
# [[expect]]
# verdict = "works"
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


lowered = jax.jit(double).trace(jax.ShapeDtypeStruct((64,), jnp.float32)).lower(lowering_platforms=("cuda",))
assert "xla.gpu.triton" in lowered.as_text()
