"""The devices of Pallas' kernels for TPUs: a TPU, or an interpreter of one on the CPU; and what libtpu compiles for.

JAX asks for every device that it knows when it is first used. Where this machine has no TPU, libtpu would wait for one:
the environment variables below are set before JAX is imported, where nobody has set them.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

INTERPRETER = "interpreter"

# The topologies that libtpu compiles for, by target: the smallest of each. One chip of it is used.
TOPOLOGIES: Mapping[str, str] = {"v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}

_PLUGINS = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")  # of JAX, for NVIDIA's GPUs
_FILES = ("accel[0-9]*", "vfio/[0-9]*")  # of a TPU's chips, by the driver that it has
_WITHOUT_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",  # no metadata server is asked what machine this is
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_LOG_DIR": "disabled",
    "TPU_MIN_LOG_LEVEL": "3",
}


def has_tpu(dev: Path = Path("/dev")) -> bool:
    """Return whether this machine has the device files of a TPU."""
    return any(next(dev.glob(pattern), None) for pattern in _FILES)


def prepare() -> None:
    """Tell JAX and libtpu, before JAX is imported, that no TPU is here, where none is; it may have an NVIDIA GPU."""
    if not has_tpu():
        for name, value in _WITHOUT_TPU.items():
            os.environ.setdefault(name, value)
        os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if has_gpu() else "cpu")


def has_gpu(dev: Path = Path("/dev")) -> bool:
    """Return whether this machine has an NVIDIA GPU, and JAX what it needs for one."""
    return next(dev.glob("nvidia[0-9]*"), None) is not None and any(map(_is_installed, _PLUGINS))


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that would have it
        return False


prepare()

import jax  # noqa: E402
from jax.experimental import topologies  # noqa: E402

from mhc.backends import NoDeviceError  # noqa: E402


@functools.cache
def device(target: str | None) -> jax.Device:
    """Return JAX's device for a target: the CPU for the interpreter, and for None where there is no TPU.

    Raises:
        NoDeviceError: the target is a TPU that is not here.
        ValueError: the target is none of these.
    """
    if target == INTERPRETER or (target is None and not has_tpu()):
        return jax.devices("cpu")[0]
    if target is not None and target not in TOPOLOGIES:
        raise ValueError(f"pallas: there is no target {target!r}; there are {', '.join((INTERPRETER, *TOPOLOGIES))}")
    try:
        return jax.devices("tpu")[0]
    except RuntimeError as error:
        raise NoDeviceError(f"JAX finds no TPU: {error}") from error


@functools.cache
def chip(target: str) -> jax.Device:
    """Return a chip that libtpu compiles for, which need not be here.

    Raises:
        ValueError: there is no such target.
    """
    if target not in TOPOLOGIES:
        raise ValueError(f"pallas: libtpu does not compile for {target!r}; there are {', '.join(TOPOLOGIES)}")
    return topologies.get_topology_desc(topology_name=TOPOLOGIES[target], platform="tpu").devices[0]
