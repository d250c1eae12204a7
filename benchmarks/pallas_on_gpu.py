"""Run the form of ``pallas`` for NVIDIA's GPUs on this machine: compare it with float64, and time it.

It needs JAX for GPUs. The golden of every output is the equation in float64, and that of a gradient JAX's own
derivative of it. A time is that of one program of XLA with a run on each of several copies of the inputs, together
larger than the L2 cache, over the number of runs. Kernels of PyTorch's backends are timed beside them by CUDA graphs
over as many copies. ``--lower`` only lowers the kernels, and ``--interpret`` runs them on the CPU; both work without a
GPU. In the interpreter XLA must keep roundings to bf16: ``XLA_FLAGS=--xla_allow_excess_precision=false``.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mhc.backends.pallas.gpu import expand, mhc_post, mhc_pre, mhc_pre_backward, sinkhorn

SHAPES = ((2048, 1280), (4096, 2560), (8192, 4096), (8192, 7168))
CHECKED = ((7, 200), (33, 200), (2048, 1280))
STREAMS, ITERATIONS, NORM_EPS, PRE_EPS, POST_SCALE = 4, 20, 1e-6, 1e-6, 2.0
LIMITS = {"float32": 1e-5, "bfloat16": 1e-2}  # of an output by its own dtype
CACHE_BYTES = 120 << 20  # twice what an H200's L2 cache has
_UNCOUNTED = 3  # samples that come first


@dataclass(frozen=True)
class Case:
    """An operator in one direction: the kernel, its equation on arrays of any dtype, and its inputs."""

    op: str
    direction: str
    kernel: Callable[..., Any]
    equation: Callable[..., Any]
    inputs: tuple[jax.Array, ...]


def read_equation(x: jax.Array, phi: jax.Array, alpha: jax.Array, bias: jax.Array) -> tuple[jax.Array, ...]:
    """Return what has gradients of ``mhc_pre``, or of ``mhc_head`` where phi has a row for each stream alone."""
    tokens, streams, _ = x.shape
    v = x.reshape(tokens, -1)
    r = 1 / jnp.sqrt(jnp.mean(v * v, axis=1, keepdims=True) + NORM_EPS)
    gates = jnp.repeat(
        alpha, jnp.array([streams, streams, streams * streams][: alpha.size]), total_repeat_length=len(phi)
    )
    z = gates * (v @ phi.T * r) + bias
    h_pre = jax.nn.sigmoid(z[:, :streams]) + PRE_EPS
    read = jnp.einsum("ti,tih->th", h_pre, x)
    if alpha.size == 1:
        return (read,)
    h_res = z[:, 2 * streams :].reshape(tokens, streams, streams)
    return read, POST_SCALE * jax.nn.sigmoid(z[:, streams : 2 * streams]), h_res


def sinkhorn_equation(logits: jax.Array) -> jax.Array:
    """Return ``logits`` made doubly stochastic, in the form of the paper."""
    for _ in range(ITERATIONS):
        logits = logits - jax.nn.logsumexp(logits, axis=1, keepdims=True)
        logits = logits - jax.nn.logsumexp(logits, axis=2, keepdims=True)
    return jnp.exp(logits)


def post_equation(x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array) -> jax.Array:
    """Return ``h_res @ x + h_post ⊗ y``."""
    return jnp.einsum("tij,tjh->tih", h_res, x) + h_post[:, :, None] * y[:, None, :]


def expand_equation(x: jax.Array) -> jax.Array:
    """Return ``x`` copied to every stream."""
    return jnp.repeat(x[:, None, :], STREAMS, axis=1)


def cases(tokens: int, hidden: int, dtype: Any, *, interpreted: bool) -> Iterator[Case]:
    """Yield every operator in both directions, with inputs that are drawn."""
    draw = np.random.default_rng(0).standard_normal
    n, rows = STREAMS, STREAMS * (STREAMS + 2)

    def drawn(*shape: int, dtype: Any = jnp.float32, scale: float = 1.0) -> jax.Array:
        return jnp.asarray(draw(shape, dtype=np.float32) * np.float32(scale), dtype)

    x, y, above = (
        drawn(tokens, n, hidden, dtype=dtype),
        drawn(tokens, hidden, dtype=dtype),
        drawn(tokens, hidden, dtype=dtype),
    )
    logits, h_post = drawn(tokens, n, n), drawn(tokens, n)
    now = functools.partial(functools.partial, interpreted=interpreted)
    for op, height, gates in (("mhc_pre", rows, 3), ("mhc_head", n, 1)):
        parameters = drawn(height, n * hidden, scale=(n * hidden) ** -0.5), drawn(gates), drawn(height)
        options = {"pre_eps": PRE_EPS, "post_scale": POST_SCALE}
        forward = now(mhc_pre.forward, norm_eps=NORM_EPS, **options)
        kernel = functools.partial(_without_gamma, forward, outputs=3 if gates == 3 else 1)
        yield Case(op, "forward", kernel, read_equation, (x, *parameters))
        m, r = jax.jit(forward)(x, *parameters, None)[-2:]
        grads = (above, drawn(tokens, n), drawn(tokens, n, n))[:gates]
        kernel = functools.partial(_grads_without_gamma, now(mhc_pre_backward.backward, **options))
        yield Case(op, "backward", kernel, _gradient(read_equation, 4, skipped=2), (x, *parameters, m, r, *grads))
    options = {"iterations": ITERATIONS, "eps": 0.0, "form": "paper"}
    yield Case("sinkhorn", "forward", now(sinkhorn.forward, **options), sinkhorn_equation, (logits,))
    kernel = now(sinkhorn.backward, **options)
    yield Case("sinkhorn", "backward", kernel, _gradient(sinkhorn_equation, 1), (logits, drawn(tokens, n, n)))
    inputs = x, y, h_post, logits
    yield Case("mhc_post", "forward", now(mhc_post.forward), post_equation, inputs)
    grad = drawn(tokens, n, hidden, dtype=dtype)
    yield Case("mhc_post", "backward", now(mhc_post.backward), _gradient(post_equation, 4), (*inputs, grad))
    yield Case("expand", "forward", now(expand.forward, streams=n), expand_equation, (y,))
    kernel = now(expand.backward)
    yield Case("expand", "backward", kernel, lambda grad: jnp.sum(grad, axis=1), (x,))


def _without_gamma(kernel: Callable[..., Any], *inputs: jax.Array, outputs: int) -> Any:
    return kernel(*inputs, None)[:outputs]


def _grads_without_gamma(kernel: Callable[..., Any], *inputs: jax.Array) -> Any:
    return kernel(*inputs[:4], None, *inputs[4:])[:4]


def _gradient(equation: Callable[..., Any], count: int, skipped: int = 0) -> Callable[..., Any]:
    """Return the gradient of an equation by its ``count`` inputs, which the backward's further inputs follow."""

    def gradient(*inputs: jax.Array) -> Any:
        outputs, pull = jax.vjp(equation, *inputs[:count])
        grads = inputs[count + skipped :]
        return pull(tuple(grads) if isinstance(outputs, tuple) else grads[0])

    return gradient


def errors(case: Case) -> dict[str, float]:
    """Return the largest error of an output over the largest number of its golden, by the output's dtype."""
    results = jax.tree.leaves(jax.jit(case.kernel)(*case.inputs))
    with jax.experimental.enable_x64() if hasattr(jax.experimental, "enable_x64") else jax.enable_x64(True):
        wide = [jnp.asarray(np.asarray(value.astype(jnp.float32)), jnp.float64) for value in case.inputs]
        goldens = [np.asarray(golden) for golden in jax.tree.leaves(jax.jit(case.equation)(*wide))]
    worst: dict[str, float] = {}
    for result, golden in zip(results, goldens, strict=True):
        error = np.abs(np.asarray(result.astype(jnp.float32), np.float64) - golden).max() / max(
            1.0, np.abs(golden).max()
        )
        name = jnp.dtype(result.dtype).name
        worst[name] = max(worst.get(name, 0.0), float(error) if np.isfinite(error) else float("inf"))
    return worst


def micros(case: Case) -> float:
    """Return the median time of a run in µs: of several runs in one program, each on inputs of its own."""
    size = sum(value.nbytes for value in case.inputs)
    copies = max(2, min(8, -(-CACHE_BYTES // size)))
    inputs = [tuple(value.copy() for value in case.inputs) for _ in range(copies)]
    program = jax.jit(lambda sets: [case.kernel(*one) for one in sets])
    samples = []
    for _ in range(15):
        began = time.perf_counter()
        jax.block_until_ready(program(inputs))
        samples.append((time.perf_counter() - began) / copies * 1e6)
    return statistics.median(samples[_UNCOUNTED:])


def rival_micros(backend: str, op: str, direction: str, tokens: int, hidden: int, dtype: str) -> float:
    """Return the median time of a run of a backend of PyTorch, by a CUDA graph over copies of the inputs."""
    import torch

    from mhc.backends import load

    inputs, empty = _torch_inputs(op, direction, tokens, hidden, getattr(torch, dtype))
    size = sum(value.nbytes for value in inputs if isinstance(value, torch.Tensor))
    copies = max(2, min(8, -(-CACHE_BYTES // size)))
    sets = []
    for _ in range(copies):
        own = type(inputs)(*(v.clone() if isinstance(v, torch.Tensor) else v for v in inputs))
        sets.append((own, empty(own)))
    kernel = load(backend, op, direction)
    for one in sets[:2]:
        kernel.run(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            kernel.run(*one)
    samples = []
    for _ in range(23):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / copies * 1e3)
    return statistics.median(samples[_UNCOUNTED:])


def _torch_inputs(op: str, direction: str, tokens: int, hidden: int, dtype: Any) -> tuple[Any, Callable[..., Any]]:
    """Return an operator's inputs for PyTorch, and the function that makes its outputs."""
    import importlib

    import torch

    module, n = importlib.import_module(f"mhc.ops.{op}"), STREAMS
    random = functools.partial(torch.randn, device="cuda")
    x, y = random(tokens, n, hidden).to(dtype), random(tokens, hidden).to(dtype)
    logits, h_post = random(tokens, n, n), random(tokens, n)
    name = "".join(part.title() for part in op.split("_"))
    make = getattr(module, f"{name}{'Backward' if direction == 'backward' else ''}Inputs")
    empty = module.empty_grads if direction == "backward" else module.empty_outputs
    if op == "expand":
        return make(*((x,) if direction == "backward" else (y, n))), empty
    if op == "sinkhorn":
        return make(*((logits, random(tokens, n, n)) if direction == "backward" else (logits,))), empty
    if op == "mhc_post":
        return make(x, y, h_post, logits, *((x.clone(),) if direction == "backward" else ())), empty
    rows, gates = (n, 1) if op == "mhc_head" else (n * (n + 2), 3)
    parameters = random(rows, n * hidden) * (n * hidden) ** -0.5, random(gates), random(rows), None
    if direction == "forward":
        return make(x, *parameters), empty
    grads = (y, h_post, logits)[:gates]
    return make(x, *parameters, random(tokens, rows), random(tokens).abs(), *grads), empty


def main(arguments: Sequence[str]) -> int:
    """Lower, interpret or run every kernel, and return 1 if one is outside its limit."""
    parser = argparse.ArgumentParser(description="Run Pallas' kernels for NVIDIA, lowered by Triton.")
    parser.add_argument("--lower", action="store_true", help="lower them only, which needs no GPU")
    parser.add_argument("--interpret", action="store_true", help="run them on the CPU")
    parser.add_argument("--rival", action="append", default=[], help="time this backend of PyTorch too (repeatable)")
    parser.add_argument("--only-check", action="store_true", help="do not time")
    parser.add_argument("--only-time", action="store_true", help="do not compare; a run without this did")
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--case", default="", help="only operators with this in OP.DIRECTION")
    options = parser.parse_args(arguments)
    figures: list[dict[str, Any]] = []
    right = options.only_time or _check(options, figures)
    if not (options.lower or options.interpret or options.only_check):
        for tokens, hidden in SHAPES:
            _time(options, figures, tokens, hidden)
    return 0 if right else 1


def _check(options: argparse.Namespace, figures: list[dict[str, Any]]) -> bool:
    """Say the errors of every kernel at the small shapes, or that it lowers, and return whether all are right."""
    right = True
    shapes = CHECKED[:2] if options.lower or options.interpret else CHECKED
    for dtype in (jnp.float32, jnp.bfloat16):
        for tokens, hidden in shapes:
            for case in cases(tokens, hidden, dtype, interpreted=options.lower or options.interpret):
                label = f"{case.op}.{case.direction}"
                if options.case not in label:
                    continue
                words, is_right = _lowered(case) if options.lower else _compared(options, case, figures, tokens, hidden)
                right &= is_right
                _say(f"{label} {tokens}x{hidden} {jnp.dtype(dtype).name}: {words}")
    return right


def _lowered(case: Case) -> tuple[str, bool]:
    kernel = _not_interpreted(case.kernel)
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            text = jax.jit(kernel).trace(*case.inputs).lower(lowering_platforms=("cuda",)).as_text()
    except Exception as error:  # whatever the compiler raises is the answer
        return f"{type(error).__name__}: {str(error)[:600]}", False
    return f"lowered, {text.count('xla.gpu.triton')} kernels, {len(text)} characters", "xla.gpu.triton" in text


def _not_interpreted(kernel: Any) -> Any:
    """Return a kernel of :func:`cases` that is not interpreted."""
    if not isinstance(kernel, functools.partial):
        return kernel
    words = {key: value for key, value in kernel.keywords.items() if key != "interpreted"}
    return functools.partial(kernel.func, *(_not_interpreted(part) for part in kernel.args), **words)


def _compared(
    options: argparse.Namespace, case: Case, figures: list[dict[str, Any]], tokens: int, hidden: int
) -> tuple[str, bool]:
    try:
        worst = errors(case)
    except Exception as error:  # the other kernels are still to be run
        return f"{type(error).__name__}: {str(error)[:400]}", False
    _keep(options, figures, {"op": case.op, "direction": case.direction, "shape": [tokens, hidden], "errors": worst})
    words = ", ".join(f"{name} {error:.2g} (limit {LIMITS[name]:.0e})" for name, error in worst.items())
    return f"error {words}", all(error <= LIMITS[name] for name, error in worst.items())


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _keep(options: argparse.Namespace, figures: list[dict[str, Any]], figure: dict[str, Any]) -> None:
    """Add a figure, and write all of them at once: a later kernel may end the process."""
    figures.append(figure)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")


def _time(options: argparse.Namespace, figures: list[dict[str, Any]], tokens: int, hidden: int) -> None:
    """Say the times of every kernel and of its rivals, in bf16; ``sinkhorn`` has fp32 only."""
    for case in cases(tokens, hidden, jnp.bfloat16, interpreted=False):
        label = f"{case.op}.{case.direction}"
        if options.case not in label:
            continue
        figure: dict[str, Any] = {"op": case.op, "direction": case.direction, "shape": [tokens, hidden]}
        contenders: dict[str, Callable[[], float]] = {"pallas": functools.partial(micros, case)}
        for name in options.rival:
            contenders[name] = functools.partial(
                rival_micros, name, case.op, case.direction, tokens, hidden, "bfloat16"
            )
        for name, timed in contenders.items():
            try:
                figure[name] = timed()
            except Exception as error:  # the others are still to be timed
                figure[name] = f"{type(error).__name__}: {str(error)[:200]}"
        _keep(options, figures, figure)
        words = ", ".join(
            f"{name} {figure[name]:.1f} µs" if isinstance(figure[name], float) else f"{name} {figure[name]}"
            for name in contenders
        )
        _say(f"{label} {tokens}x{hidden}: {words}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
