# /// probe
# asks = "Does Mosaic, the compiler of Pallas for TPUs, load fp16?"
# means = "A kernel takes fp16 as it takes bf16."
# met = "our own matrix, platform tpu"
# platforms = ["tpu"]
# truth = "No TPU from v5e to 7x has loads of fp16 in Mosaic. XLA does convert it: hand the kernel fp32, and round its output to fp16 after it."
# requires = ["jax", "libtpu"]
# [[expect]]
# verdict = "fails"
# match = "Invalid vector type for load"
# ///
import os

without_tpu = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
os.environ.update(without_tpu)

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding


def kernel(x, out):
    out[...] = x[...]


def copy(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


chip = topologies.get_topology_desc(topology_name="v6e:2x2", platform="tpu").devices[0]
x = jax.ShapeDtypeStruct((16, 128), jnp.float16, sharding=SingleDeviceSharding(chip))
jax.jit(copy).trace(x).lower().compile()
