"""The variants of ``mhc_pre`` and ``mhc_head`` whose products are ``tl.dot``: for many mixes, and for tensor cores.

``form`` is how a product is computed: ``ieee``, ``tf32`` or ``bf16x3``, as
:mod:`~mhc.backends.triton.mhc_pre.forward_products` says.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.reading import BackwardInputs, Grads, Inputs, Outputs, Spec, incoming, results
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, scratch
from mhc.backends.triton.mhc_pre import gradients
from mhc.backends.triton.mhc_pre.backward_products import grad_phi_kernel, grad_x_kernel, grad_x_phi_kernel
from mhc.backends.triton.mhc_pre.forward_products import (
    finish_kernel,
    layer_input_kernel,
    project_kernel,
    weights_kernel,
)
from mhc.backends.triton.mhc_pre.gradients import GROUP, padded, post_scale
from mhc.backends.triton.mhc_pre.tensors import incoming_types, result_types
from mhc.ops.mhc_head import MhcHeadSpec

_MOST_PARTS = 8  # of the width: few tokens fill the GPU too
_WEIGHTS = {"ieee": "*fp32", "tf32": "*fp32", "bf16x3": "*bf16"}
_BF16_PARTS = 3
_WIDE = 4096  # columns from which on one program reads the whole input of a token, in the form bf16x3
_PLACES = 264  # of the launch with both products: two for each multiprocessor of an H200
_STAGES = {"ieee": 2, "tf32": 3, "bf16x3": 4}  # of the projection


def _limit(form: str, spec: Spec, target: GPUTarget | None) -> str | None:
    """Return why the variant does not run ``spec`` on ``target``; None is the interpreter, wrong in bf16."""
    if form == "tf32":
        if spec.precision != "tf32":
            return f"the precision is {spec.precision}, and this variant rounds to TF32"
        if target is not None and target.backend != "cuda":
            return "it is for the tensor cores of NVIDIA"
    if form == "bf16x3":
        if spec.dtype != torch.bfloat16:
            return f"x is {str(spec.dtype).removeprefix('torch.')}, and this variant is for bf16"
        if target is None or target.backend != "cuda" or target.arch < 90:
            return "it is for the tensor cores of NVIDIA from sm_90 on"
    return None


def _width_tile(form: str, target: GPUTarget | None) -> int:
    return 1024 if target is None else 32 if form == "ieee" else 64


def _line(spec: Spec, tile: int) -> tuple[int, int]:
    """Return the columns of the weights, of whole tiles in each part of the width, and the number of parts.

    Neither depends on the number of tokens: a token's sums have the same order in every batch.
    """
    parts = min(_MOST_PARTS, max(1, spec.width // 512))
    part = cdiv(cdiv(spec.width, parts), tile) * tile
    parts = cdiv(spec.width, part)
    return parts * part, parts


def weights_config(form: str, spec: Spec, target: GPUTarget | None, line: int) -> Config:
    """Decide the tiles of the launch that makes the weights, with rows of ``line`` columns."""
    constants = {
        "WIDTH": spec.width,
        "LINE": line,
        "MIXES": spec.mixes,
        "PADDED": padded(spec.mixes),
        "FORM": form,
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        "BLOCK_MIXES": GROUP if target is None else 4,
        "BLOCK": 4096 if target is None else 256,
    }
    return Config(constants, {} if target is None else options(4))


def weights_elements(tiles: Config) -> int:
    """Return the weights' size in fp32 elements."""
    elements: int = tiles.constants["PADDED"] * tiles.constants["LINE"]
    return cdiv(elements * _BF16_PARTS, 2) if tiles.constants["FORM"] == "bf16x3" else elements


def weights_in(room: torch.Tensor, tiles: Config) -> torch.Tensor:
    """Return ``room`` in the dtype of the weights."""
    return room.view(torch.bfloat16) if tiles.constants["FORM"] == "bf16x3" else room


def weights_launch(
    inputs: Any, tiles: Config, room: torch.Tensor, counters: torch.Tensor | None = None
) -> tuple[torch.Tensor, Launch]:
    """Return the weights in ``room``, and the launch that makes them and sets the counters to zero."""
    constants = tiles.constants
    weights = weights_in(room, tiles)
    grid = (cdiv(constants["LINE"], constants["BLOCK"]), constants["PADDED"] // constants["BLOCK_MIXES"])
    count = 0 if counters is None else counters.numel()
    return weights, Launch(weights_kernel, tiles, grid, (inputs.phi, inputs.gamma, weights, counters, count))


def weights_source(spec: Spec, tiles: Config, *, counted: bool = False) -> Source:
    """Return the device function that makes the weights, and sets counters to zero where there are some."""
    weights, counters = _WEIGHTS[tiles.constants["FORM"]], "*i32" if counted else None
    return Source(weights_kernel, tiles, ("*fp32", "*fp32" if spec.gamma else None, weights, counters, "i32"))


class _Tiles(NamedTuple):
    weights: Config
    project: Config
    finish: Config
    layer_input: Config


def _config(form: str, spec: Spec, target: GPUTarget | None) -> _Tiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    tile = _width_tile(form, target)
    line, parts = _line(spec, tile)
    weights = weights_config(form, spec, target, line)
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, rows, few, hidden, compiler = 512, 512, 512, 1024, {}
    else:
        tokens = {"ieee": 32, "tf32": 64, "bf16x3": 128}[form]
        rows, few, hidden, compiler = 16, 4, 256, options(4)
    width = {name: weights.constants[name] for name in ("WIDTH", "LINE", "PADDED")}
    project = {**width, "FORM": form, "PARTS": parts, "BLOCK_TOKENS": tokens, "BLOCK_MIXES": GROUP}
    finish = {
        "STREAMS": spec.streams,
        "WIDTH": spec.width,
        "MIXES": spec.mixes,
        "PADDED": padded(spec.mixes),
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "POST_SCALE": post_scale(spec),
        "PARTS": parts,
        "BLOCK_TOKENS": rows,
        "BLOCK_MIXES": GROUP,
    }
    hidden = min(hidden, triton.next_power_of_2(spec.hidden))
    others = compiler
    if form == "bf16x3" and _WIDE <= spec.hidden <= 2 * _WIDE:
        few, hidden, others = 1, triton.next_power_of_2(spec.hidden), options(8)
    layer_input = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": spec.mixes,
        "PRE_EPS": spec.pre_eps,
        "BLOCK_TOKENS": few,
        "BLOCK_HIDDEN": hidden,
    }
    return _Tiles(
        weights,
        Config({**project, "BLOCK_WIDTH": tile, "STAGES": _STAGES[form]}, options(8) if form == "bf16x3" else compiler),
        Config(finish, compiler),
        Config(layer_input, others),
    )


def _launches(inputs: Inputs, out: Outputs, tiles: _Tiles) -> list[Launch]:
    tokens = inputs.x.shape[:-2].numel()
    parts, columns = tiles.project.constants["PARTS"], tiles.project.constants["PADDED"]
    pre, h_in, *mixed = results(inputs, out)
    room, sums, squares = scratch(inputs.x, weights_elements(tiles.weights), parts * tokens * columns, parts * tokens)
    weights, first = weights_launch(inputs, tiles.weights, room)
    groups = columns // GROUP
    blocks = cdiv(tokens, tiles.project.constants["BLOCK_TOKENS"])
    finish = (sums, squares, inputs.alpha, inputs.bias, *mixed, tokens)
    constants = tiles.layer_input.constants
    grid = (
        cdiv(tokens, constants["BLOCK_TOKENS"]),
        cdiv(constants["HIDDEN"], constants["BLOCK_HIDDEN"]),
    )
    layer_input = (inputs.x, out.m, inputs.alpha, inputs.bias, pre, h_in, tokens)
    launches = [
        first,
        Launch(project_kernel, tiles.project, (blocks * parts, groups), (inputs.x, weights, sums, squares, tokens)),
        Launch(finish_kernel, tiles.finish, (cdiv(tokens, tiles.finish.constants["BLOCK_TOKENS"]), groups), finish),
        Launch(layer_input_kernel, tiles.layer_input, grid, layer_input),
    ]
    return launches if h_in is not None else launches[:-1]


def _sources(spec: Spec, tiles: _Tiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    weights = _WEIGHTS[tiles.project.constants["FORM"]]
    pre, h_in, *mixed = result_types(spec)
    sources = [
        weights_source(spec, tiles.weights),
        Source(project_kernel, tiles.project, (x, weights, wide, wide, "i32")),
        Source(finish_kernel, tiles.finish, (wide, wide, wide, wide, *mixed, "i32")),
        Source(layer_input_kernel, tiles.layer_input, (x, wide, wide, wide, pre, h_in, "i32")),
    ]
    return sources if h_in is not None else sources[:-1]


class _BackwardTiles(NamedTuple):
    """``both`` is None where the two products are launches of their own, and the others are None where they are not.

    ``adding`` are the tiles of ``both`` where a gradient of x is added. ``places`` says how many programs of it run at
    a time, where that is known.
    """

    shared: gradients.Configs
    weights: Config
    places: int | None
    grad_x: Config | None
    grad_phi: Config | None
    both: Config | None
    adding: Config | None


def _backward_config(form: str, spec: Spec, target: GPUTarget | None) -> _BackwardTiles:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None."""
    line, _ = _line(spec, _width_tile(form, target))
    weights = weights_config(form, spec, target, line)
    shared = gradients.configure(spec, target, form, weights)
    shape = {"STREAMS": spec.streams, "HIDDEN": spec.hidden, "LINE": weights.constants["LINE"]}
    products = {"PADDED": padded(spec.mixes), "FORM": form}
    if padded(spec.mixes) == GROUP and (target is None or form == "bf16x3"):
        both = [_both_config({**shape, **products}, spec, target, adding=adding) for adding in (False, True)]
        places = _PLACES if target is not None and target.arch == 90 else None
        return _BackwardTiles(shared, weights, places, None, None, *both)
    if target is None:
        tokens, hidden, rows, columns, compiler = 512, 1024, 512, 1024, {}
    else:
        tokens, hidden = 32 if form == "ieee" else 64, 64
        if form != "ieee" and _rows_begin_anywhere(spec):
            tokens //= 2
        rows, columns, compiler = 32 if form == "ieee" else 64, 64, options(4)
        if form == "ieee" and target.backend == "hip" and target.warp_size == 32:
            rows = 16  # without matrix cores for fp32 a thread loads its whole part of both operands
    products["BLOCK_MIXES"] = GROUP
    grad_x = {**shape, **products, "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden}
    del shape["LINE"]
    grad_phi = {**shape, "MIXES": spec.mixes, **products, "BLOCK_TOKENS": rows, "BLOCK_HIDDEN": columns}
    stages = {"STAGES": 2 if form == "ieee" else 3}
    by_x, by_phi = Config(grad_x, compiler), Config({**grad_phi, **stages}, compiler)
    return _BackwardTiles(shared, weights, None, by_x, by_phi, None, None)


def _rows_begin_anywhere(spec: Spec) -> bool:
    """Return whether rows of x may begin between 16 bytes: a thread then has an address for each of its elements."""
    return spec.hidden * spec.dtype.itemsize % 16 != 0


def _both_config(constants: dict[str, Any], spec: Spec, target: GPUTarget | None, *, adding: bool) -> Config:
    """Decide the tiles of the launch that has both products.

    A thread keeps the sums of two streams, and a multiprocessor of an H200 has the shared memory for three stages of
    two programs. Where a gradient is added, this takes half as many tokens in a tile, of one stream.
    """
    # The sums of two streams would spill on sm_100 and later, and beside many addresses.
    alone = target is not None and (adding or target.arch >= 100 or _rows_begin_anywhere(spec))
    together = 1 if alone else math.gcd(spec.streams, 2)
    if target is None:
        tokens, hidden, compiler = 512, min(1024, triton.next_power_of_2(spec.hidden)), {}
    else:
        tokens, hidden = (32, 64 if _rows_begin_anywhere(spec) else 128) if adding else (64, 64)
        compiler = options(4)
    # From sm_120 on a program has 99 KiB of shared memory at most.
    stages = 2 if target is not None and target.arch >= 120 else 3
    tiles = {"TOGETHER": together, "BLOCK_TOKENS": tokens, "BLOCK_HIDDEN": hidden, "STAGES": stages}
    return Config({**constants, "MIXES": spec.mixes, **tiles}, compiler)


def _backward_launches(inputs: BackwardInputs, out: Grads, tiles: _BackwardTiles) -> list[Launch]:
    tokens, (streams, hidden) = inputs.x.shape[:-2].numel(), inputs.x.shape[-2:]
    added = gradients.added(inputs, out)
    both = tiles.both if added is None else tiles.adding
    by_phi = (both or tiles.grad_phi or tiles.shared.coefficients).constants
    if both is not None:
        blocks = streams // by_phi["TOGETHER"] * cdiv(hidden, by_phi["BLOCK_HIDDEN"])
    else:
        blocks = by_phi["PADDED"] // GROUP * cdiv(streams * hidden, by_phi["BLOCK_HIDDEN"])
    if tiles.places is not None:
        chunk, count = gradients.even_chunks_of(tokens, blocks, by_phi["BLOCK_TOKENS"], tiles.places)
    else:
        chunk, count = gradients.chunks_of(tokens, blocks, by_phi["BLOCK_TOKENS"])
    between = gradients.scratch_of(inputs, out, tiles.shared, count, weights_elements(tiles.weights))
    # dx alone needs them. Without them the first launch is another program, whose sums have other bits at some widths.
    weights = weights_in(between.weights, tiles.weights)
    launches = [gradients.first_launch(inputs, tiles.shared, between, weights)]
    read = (inputs.x, weights, incoming(inputs).grad_h_in, between.coefficients, between.scales, added)
    if both is not None and (out.x is not None or between.chunks is not None):
        launches.append(Launch(grad_x_phi_kernel, both, (blocks, count), (*read, out.x, between.chunks, tokens, chunk)))
    if tiles.grad_x is not None and out.x is not None:
        by_x = tiles.grad_x.constants
        grid = cdiv(tokens, by_x["BLOCK_TOKENS"]) * streams * cdiv(hidden, by_x["BLOCK_HIDDEN"])
        launches.append(Launch(grad_x_kernel, tiles.grad_x, (grid,), (*read, out.x, tokens)))
    if tiles.grad_phi is not None and between.chunks is not None:
        arguments = (inputs.x, between.coefficients, between.chunks, tokens, chunk)
        launches.append(Launch(grad_phi_kernel, tiles.grad_phi, (blocks, count), arguments))
    return launches + gradients.last_launches(inputs, out, tiles.shared, between, count)


def _backward_sources(spec: Spec, tiles: _BackwardTiles) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    weights = _WEIGHTS[tiles.weights.constants["FORM"]]
    grad_h_in = incoming_types(spec).grad_h_in
    read = (x, weights, grad_h_in, weights, wide)
    added = None if isinstance(spec, MhcHeadSpec) or grad_h_in is None else x
    first, last = gradients.sources(spec, tiles.shared, weights)
    middle = []
    if tiles.both is not None:
        middle.append(Source(grad_x_phi_kernel, tiles.both, (*read, None, x, wide, "i32", "i32")))
    if tiles.adding is not None and added is not None:
        middle.append(Source(grad_x_phi_kernel, tiles.adding, (*read, added, x, wide, "i32", "i32")))
    if tiles.grad_x is not None:
        middle.append(Source(grad_x_kernel, tiles.grad_x, (*read, added, x, "i32")))
    if tiles.grad_phi is not None:
        middle.append(Source(grad_phi_kernel, tiles.grad_phi, (x, weights, wide, "i32", "i32")))
    return [first, *middle, last]


def forward(form: str) -> Kernel:
    """Return the forward whose products are computed as ``form`` says."""
    configure = functools.cache(functools.partial(_config, form))
    return Kernel(project_kernel, configure, _launches, _sources, functools.partial(_limit, form))


def backward(form: str) -> Kernel:
    """Return the backward whose products are computed as ``form`` says."""
    configure = functools.cache(functools.partial(_backward_config, form))
    limit = functools.partial(_limit, form)
    return Kernel(grad_phi_kernel, configure, _backward_launches, _backward_sources, limit, adds_to_first=True)
