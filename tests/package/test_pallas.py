"""The backend ``pallas``: functions of JAX with gradients, where kernels run, and what is refused.

``tests/whole/test_package.py`` runs these in the environment of the toolchain, where nothing skips.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import mhc
from mhc import jax as mhc_jax
from mhc.backends import NoDeviceError, NotSupportedError, load
from mhc.backends.pallas import devices
from mhc.backends.pallas.blocks import VMEM_BYTES, add_up, launch, struct
from mhc.backends.pallas.gpu import mhc_post as gpu_post
from mhc.ops.expand import ExpandSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreSpec, empty_outputs
from mhc.ops.sinkhorn import SinkhornSpec

N, HIDDEN = 4, 40


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (scale * torch.randn(*shape, generator=generator)).requires_grad_()


def parameters(mixes: int, gates: int) -> list[torch.Tensor]:
    return [
        drawn(mixes, N * HIDDEN, scale=0.1),
        drawn(gates, seed=1),
        drawn(mixes, seed=2, scale=0.2),
        drawn(N, HIDDEN, seed=3),
    ]


CALLS: dict[str, Any] = {
    "mhc_pre": (
        lambda lead: [drawn(*lead, N, HIDDEN), *parameters(N * (N + 2), 3)],
        {"norm_eps": 1e-3, "post_scale": 1.5},
    ),
    "mhc_head": (lambda lead: [drawn(*lead, N, HIDDEN), *parameters(N, 1)], {"pre_eps": 1e-2}),
    "sinkhorn": (lambda lead: [drawn(*lead, N, N)], {"iterations": 5, "form": "deepseek"}),
    "mhc_post": (
        lambda lead: [drawn(*lead, N, HIDDEN), drawn(*lead, HIDDEN), drawn(*lead, N), drawn(*lead, N, N)],
        {},
    ),
    "expand": (lambda lead: [drawn(*lead, HIDDEN)], {"streams": 3}),
}


SPECS: dict[str, Any] = {
    "mhc_pre": MhcPreSpec(N, HIDDEN, torch.bfloat16, gamma=True),
    "mhc_head": MhcHeadSpec(N, HIDDEN, torch.float32, gamma=False),
    "sinkhorn": SinkhornSpec(N, 5),
    "mhc_post": MhcPostSpec(N, HIDDEN, torch.float16),
    "expand": ExpandSpec(3, HIDDEN, torch.bfloat16),
}


@pytest.mark.parametrize(  # mhc_head has the norm and the parameters of mhc_pre
    "name", [pytest.param(name, marks=pytest.mark.nightly if name == "mhc_pre" else ()) for name in CALLS]
)
def test_a_function_of_jax_gives_the_values_and_gradients_of_the_one_of_pytorch(name: str) -> None:
    make, options = CALLS[name]
    tensors = make((2, 3))
    results = getattr(mhc, name)(*tensors, **options, backend="reference")
    results = results if isinstance(results, tuple) else (results,)
    sum((result * torch.cos(result.detach())).sum() for result in results).backward()

    def loss(*arrays: Any) -> Any:
        values = jax.tree.leaves(getattr(mhc_jax, name)(*arrays, **options))
        return sum(jnp.sum(value * jax.lax.stop_gradient(jnp.cos(value))) for value in values), values

    arrays = [jnp.asarray(tensor.detach().numpy()) for tensor in tensors]
    (_, values), grads = jax.jit(jax.value_and_grad(loss, argnums=tuple(range(len(arrays))), has_aux=True))(*arrays)
    for value, result in zip(values, results, strict=True):
        assert value.shape == tuple(result.shape)
        np.testing.assert_allclose(value, result.detach().numpy(), rtol=2e-5, atol=2e-6)
    for grad, tensor in zip(grads, tensors, strict=True):
        np.testing.assert_allclose(grad, tensor.grad.numpy(), rtol=2e-4, atol=2e-5)


def test_parameters_may_be_narrow_and_their_gradients_are_in_their_dtype() -> None:
    x, phi, alpha, bias, _ = (jnp.asarray(t.detach().numpy()) for t in CALLS["mhc_head"][0]((5,)))
    gradient = jax.grad(lambda phi: jnp.sum(mhc_jax.mhc_head(x, phi, alpha, bias)))
    both = jax.jit(lambda narrow: (gradient(narrow), gradient(narrow.astype(jnp.float32))))
    grad, same = both(phi.astype(jnp.bfloat16))
    assert grad.dtype == jnp.bfloat16
    np.testing.assert_array_equal(grad, same.astype(jnp.bfloat16))


def ones(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
    return jnp.ones(shape, dtype)


X, LOGITS = ones(2, 4, 8), ones(2, 4, 4)
WEIGHTS = (ones(1), ones(4))
NARROW = ones(2, 8, dtype=jnp.bfloat16)
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mhc_jax.mhc_head(X, ones(4, 31), *WEIGHTS),
        ValueError,
        r"phi has shape \(4, 31\); x of shape \(2, 4, 8\) needs \(4, 32\)",
    ),
    (
        lambda: mhc_jax.mhc_head(X.astype(jnp.int32), ones(4, 32), *WEIGHTS),
        TypeError,
        "x is int32; it needs one of float32, bfloat16, float16",
    ),
    (
        lambda: mhc_jax.mhc_post(X, NARROW, ones(2, 4), LOGITS),
        TypeError,
        "mhc_post: y is bfloat16; it needs float32",
    ),
    (
        lambda: mhc_jax.mhc_pre(X[:0], ones(24, 32), ones(3), ones(24)),
        ValueError,
        r"mhc_pre: x has shape \(0, 4, 8\); .* at least one token",
    ),
    (lambda: mhc_jax.mhc_pre(X, None, ones(3), ones(24)), TypeError, "mhc_pre: phi is None; it needs a tensor"),
    (lambda: mhc_jax.sinkhorn(X), ValueError, r"logits has shape \(2, 4, 8\)"),
    (lambda: mhc_jax.sinkhorn(LOGITS.astype(jnp.bfloat16)), TypeError, "logits is bfloat16; it needs float32"),
    (lambda: mhc_jax.sinkhorn(LOGITS, iterations=0), ValueError, "iterations is 0"),
    (lambda: mhc_jax.sinkhorn(LOGITS, form="liger"), ValueError, "form is 'liger'; it needs one of paper, deepseek"),
    (lambda: mhc_jax.sinkhorn(ones(1, 17, 17)), NotSupportedError, "17 streams"),
    (lambda: mhc_jax.sinkhorn(ones(1, 16, 16), iterations=10_000), NotSupportedError, "MiB of VMEM"),
    (lambda: mhc_jax.expand(X, 0), ValueError, "streams is 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_does_not_fit_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_blocks_that_do_not_fit_the_memory_of_a_tpu_are_refused_before_they_are_compiled() -> None:
    spec = MhcPreSpec(16, 7168, torch.bfloat16, gamma=True)
    reason = load("pallas", "mhc_pre").supports(spec, "v5e")
    assert f"takes up to {VMEM_BYTES >> 20} MiB" in str(reason)
    with pytest.raises(NotSupportedError, match="MiB of VMEM") as caught:
        load("pallas", "mhc_pre").compile(spec, "v5e")
    assert caught.value.stage == "lower"


def test_a_target_that_is_none_and_a_tpu_that_is_not_here_are_named() -> None:
    tensors = [torch.ones(2, 4, 8), torch.ones(24, 32), torch.ones(3), torch.ones(24)]
    inputs = MhcPreInputs(*tensors, None)
    kernel = load("pallas", "mhc_pre")
    with pytest.raises(ValueError, match="there is no target 'v2'; there are interpreter, v5e"):
        kernel.run(inputs, empty_outputs(inputs), "v2")
    with pytest.raises(ValueError, match="the inputs are on cpu; for sm_90 it takes tensors on a GPU of NVIDIA's"):
        kernel.run(inputs, empty_outputs(inputs), "sm_90")
    with pytest.raises(ValueError, match="libtpu does not compile for 'v2'; there are v5e, v5p"):
        kernel.compile(inputs.spec, "v2")
    if not devices.has_tpu():
        with pytest.raises(NoDeviceError, match="JAX finds no TPU"):
            kernel.run(inputs, empty_outputs(inputs), "v6e")


def test_tensors_of_a_gpu_are_refused() -> None:
    x = torch.ones(2, 4, 8, device="meta")
    inputs = MhcPreInputs(x, *(torch.ones(1),) * 3, None)
    with pytest.raises(ValueError, match="the inputs are on meta; it takes tensors on the CPU"):
        load("pallas", "mhc_pre").run(inputs, empty_outputs(inputs), "interpreter")


def test_a_kernel_is_compiled_for_every_target_with_no_tpu_here() -> None:
    spec = MhcPreSpec(4, 128, torch.bfloat16, gamma=True)
    made = {target: load("pallas", "mhc_pre").compile(spec, target) for target in devices.TOPOLOGIES}
    for target, artifact in made.items():
        assert (artifact.kind, artifact.target, artifact.is_machine_code) == ("tpu-executable", target, True)
        assert artifact.resources["code_bytes"] > 10_000
    assert len({artifact.data for artifact in made.values()}) == len(made)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("op", CALLS)
def test_the_form_for_nvidia_is_lowered_without_a_gpu(op: str, direction: str) -> None:
    spec = SPECS[op]
    artifact = load("pallas", op, direction).compile(spec, "sm_90")
    assert (artifact.kind, artifact.target, artifact.is_machine_code) == ("triton-ir-source", "sm_90", False)
    assert artifact.data.count(b"xla.gpu.triton") >= 1


def test_the_form_for_nvidia_has_powers_of_two_in_sinkhorn_and_the_form_for_tpus_has_any() -> None:
    kernel = load("pallas", "sinkhorn")
    assert "powers of two" in str(kernel.supports(SinkhornSpec(3), "sm_90"))
    assert kernel.supports(SinkhornSpec(3), "v5e") is None
    with pytest.raises(NotSupportedError, match="powers of two"):
        kernel.compile(SinkhornSpec(3), "sm_90")


@pytest.mark.parametrize("dtype", [pytest.param(jnp.float32, marks=pytest.mark.nightly), jnp.bfloat16])
def test_the_form_for_nvidia_computes_what_the_equations_say(dtype: Any) -> None:
    """Pallas' plain interpreter runs the kernels on the CPU; 5 tokens are part of a block."""
    x, y = (jnp.asarray(drawn(*shape).detach().numpy(), dtype) for shape in ((5, N, HIDDEN), (5, HIDDEN)))
    post, res = (jnp.asarray(drawn(*shape).detach().numpy()) for shape in ((5, N), (5, N, N)))
    limit = {"rtol": 1e-5, "atol": 1e-5} if dtype == jnp.float32 else {"rtol": 1e-2, "atol": 2e-2}
    wide = x.astype(jnp.float32), y.astype(jnp.float32)

    def equation(x: Any, y: Any) -> Any:
        return jnp.einsum("tij,tjh->tih", res, x) + post[:, :, None] * y[:, None, :]

    golden, pull = jax.vjp(equation, *wide)
    result = gpu_post.forward(x, y, post, res, interpreted=True)
    np.testing.assert_allclose(np.asarray(result, np.float32), golden, **limit)
    grads = gpu_post.backward(x, y, post, res, x, interpreted=True)[:2]
    for grad, right in zip(grads, pull(wide[0]), strict=True):
        np.testing.assert_allclose(np.asarray(grad, np.float32), right, **limit)


def test_a_tpu_is_found_by_the_device_files_of_either_driver(tmp_path: Path) -> None:
    assert not devices.has_tpu(tmp_path)
    (tmp_path / "accel0").touch()
    assert devices.has_tpu(tmp_path)
    (tmp_path / "accel0").unlink()
    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "vfio").touch()  # VFIO's own file is there without any device
    assert not devices.has_tpu(tmp_path)
    (tmp_path / "vfio" / "0").touch()
    assert devices.has_tpu(tmp_path)


def test_what_the_environment_says_of_jax_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_tpu", lambda: False)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu,tpu")
    monkeypatch.delenv("TPU_SKIP_MDS_QUERY", raising=False)
    devices.prepare()
    assert (os.environ["JAX_PLATFORMS"], os.environ["TPU_SKIP_MDS_QUERY"]) == ("cpu,tpu", "1")
    monkeypatch.setattr(devices, "has_tpu", lambda: True)
    monkeypatch.delenv("TPU_SKIP_MDS_QUERY")
    devices.prepare()
    assert "TPU_SKIP_MDS_QUERY" not in os.environ


@pytest.mark.parametrize("steps", [16, 37])
def test_blocks_are_added_up_in_stages_and_none_is_lost(steps: int) -> None:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x_ref: Any, total_ref: Any, stage_ref: Any) -> None:
        add_up(pl.program_id(0), steps, total_ref, stage_ref, x_ref[...])

    x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (8 * steps, 128)), jnp.float32)
    (total,) = launch(
        kernel,
        [x],
        out_shape=[struct(8, 128)],
        grid=(steps,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0))],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        semantics=["arbitrary"],
        interpreted=True,
    )
    np.testing.assert_array_equal(total, x.reshape(steps, 8, 128).sum(axis=0))


def test_the_device_of_a_tpu_that_is_here_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tpu = SimpleNamespace(platform="tpu")
    monkeypatch.setattr(devices.jax, "devices", lambda platform: [tpu] if platform == "tpu" else [])
    devices.device.cache_clear()
    try:
        assert devices.device("v6e") is tpu
    finally:
        devices.device.cache_clear()
