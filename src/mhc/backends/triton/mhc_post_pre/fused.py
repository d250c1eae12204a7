"""The variants ``fused`` of ``mhc_post_pre``: all but two of the launches are those of ``mhc_pre``.

``form`` is how a product is computed: ``ieee``, ``tf32`` or ``bf16x3``, as
:mod:`mhc.backends.triton.mhc_pre.forward_products` says.

Backward, the sums over tokens for phi and gamma are a launch of their own that reads the new streams once more. To make
them in the same launch, a program would keep the sums of some columns while it goes through the tokens, and the
gradients of h_res, which are sums over all columns, would go through memory.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from triton.backends.compiler import GPUTarget

from mhc.backends.triton import mhc_pre
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch, token_grid
from mhc.backends.triton.mhc_post_pre.backward import add_parts_kernel, post_pre_backward_kernel
from mhc.backends.triton.mhc_post_pre.forward import post_project_kernel
from mhc.backends.triton.mhc_pre import gradients, products
from mhc.backends.triton.mhc_pre.backward_products import grad_phi_kernel
from mhc.backends.triton.mhc_pre.forward_products import project_kernel
from mhc.backends.triton.mhc_pre.gradients import GROUP, padded
from mhc.ops.mhc_post_pre import MhcPostPreBackwardInputs, MhcPostPreGrads, MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_post_pre import MhcPostPreSpec as Spec
from mhc.ops.mhc_pre import MhcPreGrads

_MOST_STREAMS = 4  # whose tiles a program holds at once; their mixes are one group
_MOST_PARTS = 8  # of the columns in the backward: few tokens fill the GPU too
_VARIANTS = {"ieee": "products", "tf32": "tf32", "bf16x3": "bf16x3"}  # of mhc_pre


def _limit(form: str, spec: Spec, target: GPUTarget | None) -> str | None:
    """Return why the variant does not run ``spec`` on ``target``, or None where it does."""
    if spec.streams > _MOST_STREAMS:
        return f"there are {spec.streams} streams; a program holds the tiles of {_MOST_STREAMS}"
    limit = mhc_pre.FORWARD[_VARIANTS[form]].limit
    return limit(spec, target) if limit else None


def _tile(form: str, target: GPUTarget) -> tuple[int, int, int]:
    """Return the tokens and the columns of a tile, and the stages of the loop over the columns.

    With two stages the loads go through shared memory, into the layout of the products: 110 KiB, which a program has on
    NVIDIA up to sm_110, for x in 16 bits.
    """
    if form == "bf16x3":
        return 64, 32, 1 if target.arch >= 120 else 2
    return 32, 32, 1


class _Tiles(NamedTuple):
    """The tiles of ``mhc_pre``, and those of the launch that stands in for its projection."""

    pre: Any
    project: Config


def _config(form: str, spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    pre = mhc_pre.FORWARD[_VARIANTS[form]].configure(spec, target)
    parts = pre.project.constants["PARTS"]
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, rows, chunk, hidden, stages, compiler = 512, 512, 1024, 1024, 1, {}
    elif form == "bf16x3":
        tokens, rows, chunk, hidden, stages, compiler = 64, 32, 128, 64, 3, options(8)
    else:
        tokens, rows, chunk, hidden, stages, compiler = 32, 8, 128, 32, 2, options(4)
    constants = {name: pre.project.constants[name] for name in ("LINE", "PADDED", "FORM", "PARTS")}
    constants |= {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "PART": cdiv(cdiv(spec.hidden, parts), chunk) * chunk,
        "CHUNK": chunk,
        "ROWS": rows,
        "BLOCK_TOKENS": tokens,
        "BLOCK_HIDDEN": hidden,
        "STAGES": stages,
    }
    return _Tiles(pre, Config(constants, compiler))


def _launches(form: str, inputs: MhcPostPreInputs, out: MhcPostPreOutputs, tiles: _Tiles) -> list[Launch]:
    launches = mhc_pre.FORWARD[_VARIANTS[form]].launches(inputs.pre(out.out), out.pre, tiles.pre)
    return [_in_place_of_projection(inputs, out, tiles.project, launch) for launch in launches]


def _in_place_of_projection(inputs: MhcPostPreInputs, out: MhcPostPreOutputs, tiles: Config, launch: Launch) -> Launch:
    """Return the launch that makes the new streams for that of the projection, and every other launch as it is."""
    if launch.kernel is not project_kernel:
        return launch
    _, weights, sums, squares, tokens = launch.arguments
    [blocks] = token_grid(tokens, tiles)
    arguments = (*inputs[:4], weights, out.out, sums, squares, tokens)
    return Launch(post_project_kernel, tiles, (blocks * tiles.constants["PARTS"],), arguments)


def _sources(form: str, spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    types = (x, x, wide, wide, products.WEIGHTS_POINTERS[form], x, wide, wide, "i32")
    own = Source(post_project_kernel, tiles.project, types)
    sources = mhc_pre.FORWARD[_VARIANTS[form]].sources(spec, tiles.pre)
    return [own if source.kernel is project_kernel else source for source in sources]


class _BackwardTiles(NamedTuple):
    """The tiles of the launches that ``mhc_pre`` has too, and of the one that makes the gradients of ``mhc_post``."""

    shared: gradients.Configs
    weights: Config
    grad_phi: Config
    streams: Config
    add: Config


def _backward_config(form: str, spec: Spec, target: GPUTarget | None) -> _BackwardTiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    weights = products.weights_config(form, spec, target)
    if target is None:
        tokens, hidden, depth, rows, columns, stages, compiler = 512, 1024, 1, 512, 1024, 1, {}
    else:
        tokens, hidden, depth = _tile(form, target)
        rows, columns, stages, compiler = 32 if form == "ieee" else 64, 64, 2 if form == "ieee" else 3, options(4)
        if form == "ieee" and target.backend == "hip" and target.warp_size == 32:
            rows = 16  # without matrix cores for fp32 a thread loads its whole part of both operands
    shape = {"STREAMS": spec.streams, "HIDDEN": spec.hidden, "PADDED": padded(spec.mixes), "FORM": form}
    sums = {"MIXES": spec.mixes, "BLOCK_TOKENS": rows, "BLOCK_MIXES": GROUP, "BLOCK_HIDDEN": columns}
    tile = {"LINE": weights.constants["LINE"], "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden, "STAGES": depth}
    part = cdiv(cdiv(spec.hidden, min(_MOST_PARTS, max(1, spec.hidden // 512))), hidden) * hidden
    parts = cdiv(spec.hidden, part)
    tile |= {"PARTS": parts, "PART": part}
    return _BackwardTiles(
        gradients.configure(spec, target, form),
        weights,
        Config({**shape, **sums, "STAGES": stages}, compiler),
        Config({**shape, **tile}, compiler),
        Config({"PARTS": parts, "BLOCK": 4096 if target is None else 1024}, compiler),
    )


def _backward_launches(inputs: MhcPostPreBackwardInputs, out: MhcPostPreGrads, tiles: _BackwardTiles) -> list[Launch]:
    tokens, (streams, hidden) = inputs.x.shape[:-2].numel(), inputs.x.shape[-2:]
    pre, grads = inputs.pre, MhcPreGrads(None, *out[4:])
    by_phi = tiles.grad_phi.constants
    blocks = cdiv(streams * hidden, by_phi["BLOCK_HIDDEN"])
    chunk, count = gradients.chunks_of(tokens, blocks, by_phi["BLOCK_TOKENS"])
    room = products.weights_elements(tiles.weights) if inputs.needs_out else 0
    between = gradients.scratch_of(pre, grads, tiles.shared, count, room)
    launches = gradients.first_launches(pre, grads, tiles.shared, between)
    if inputs.needs_out:
        weights, first = products.weights_launch(inputs, tiles.weights, between.weights)
        read = (*inputs[:4], inputs.out, weights, inputs.grad_h_in, inputs.grad_out)
        parts = tiles.streams.constants["PARTS"]
        wide = (out.h_post, out.h_res)
        sizes = [0 if grad is None else parts * grad.numel() for grad in wide]
        sums = [room if size else None for room, size in zip(scratch(inputs.x, *sizes), sizes, strict=True)]
        arguments = (*read, between.coefficients, between.scales, *out[:2], *sums, tokens)
        [blocks_of_tokens] = token_grid(tokens, tiles.streams)
        launches += [first, Launch(post_pre_backward_kernel, tiles.streams, (blocks_of_tokens * parts,), arguments)]
        for part, grad in zip(sums, wide, strict=True):
            if part is not None:
                grid = (cdiv(grad.numel(), tiles.add.constants["BLOCK"]),)
                launches.append(Launch(add_parts_kernel, tiles.add, grid, (part, grad, grad.numel())))
    if between.chunks is not None:
        arguments = (inputs.out, between.coefficients, between.chunks, tokens, chunk)
        launches.append(Launch(grad_phi_kernel, tiles.grad_phi, (blocks, count), arguments))
    return launches + gradients.last_launches(pre, grads, tiles.shared, between.chunks, count)


def _backward_sources(spec: Spec, tiles: _BackwardTiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    weights = products.WEIGHTS_POINTERS[tiles.weights.constants["FORM"]]
    first, last = gradients.sources(spec, tiles.shared)
    types = (x, x, wide, wide, x, weights, x, x, weights, wide, x, x, wide, wide, "i32")
    add = (wide, wide, "i32")
    return [
        *first,
        products.weights_source(spec, tiles.weights),
        Source(post_pre_backward_kernel, tiles.streams, types),
        Source(add_parts_kernel, tiles.add, add),
        Source(grad_phi_kernel, tiles.grad_phi, (x, weights, wide, "i32", "i32")),
        *last,
    ]


def forward(form: str) -> Kernel:
    """Return the forward whose products are computed as ``form`` says."""
    configure = functools.cache(functools.partial(_config, form))
    launches, sources = functools.partial(_launches, form), functools.partial(_sources, form)
    return Kernel(post_project_kernel, configure, launches, sources, functools.partial(_limit, form))


def backward(form: str) -> Kernel:
    """Return the backward whose products are computed as ``form`` says."""
    configure = functools.cache(functools.partial(_backward_config, form))
    limit = functools.partial(_limit, form)
    return Kernel(post_pre_backward_kernel, configure, _backward_launches, _backward_sources, limit)
