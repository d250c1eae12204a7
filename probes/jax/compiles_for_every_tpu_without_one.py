# /// probe
# asks = "Does libtpu compile a kernel of Pallas for every TPU from v5e on if none is here?"
# means = "A compile-only cell of a TPU needs no TPU and no network."
# met = "our own matrix, platform tpu"
# platforms = ["tpu"]
# truth = "It does, for v5e, v5p, v6e and TPU 7x, from the descriptions of their topologies. Without the variables JAX waits for a metadata server."
# requires = ["jax", "libtpu"]
# [[expect]]
# verdict = "works"
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
    out[...] = x[...] * 2


def double(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


for name in ("v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"):
    chip = topologies.get_topology_desc(topology_name=name, platform="tpu").devices[0]
    x = jax.ShapeDtypeStruct((8, 128), jnp.float32, sharding=SingleDeviceSharding(chip))
    compiled = jax.jit(double).trace(x).lower().compile()
    assert compiled.memory_analysis().generated_code_size_in_bytes > 0, name
