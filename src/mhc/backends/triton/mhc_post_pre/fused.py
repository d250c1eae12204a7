"""The forward of ``mhc_post_pre`` whose projection follows the write: the launches of ``mhc_pre``, and one for another.

``form`` is how a product is computed: ``ieee`` or ``bf16x3``, as :mod:`mhc.backends.triton.mhc_pre.forward_products`
says.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from triton.backends.compiler import GPUTarget

from mhc.backends.triton import mhc_pre
from mhc.backends.triton.kernel import Kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, cdiv, options, token_grid
from mhc.backends.triton.mhc_post_pre.forward import post_project_kernel
from mhc.backends.triton.mhc_pre import products
from mhc.backends.triton.mhc_pre.forward_products import project_kernel
from mhc.ops.mhc_post_pre import MhcPostPreInputs, MhcPostPreOutputs
from mhc.ops.mhc_post_pre import MhcPostPreSpec as Spec

_MOST_STREAMS = 4  # whose tiles a thread holds at once; their mixes are one group
_VARIANTS = {"ieee": "products", "bf16x3": "bf16x3"}  # of mhc_pre


def _limit(form: str, spec: Spec, target: GPUTarget | None) -> str | None:
    """Return why the variant does not run ``spec`` on ``target``, or None where it does."""
    if spec.streams > _MOST_STREAMS:
        return f"there are {spec.streams} streams; a program holds the tiles of {_MOST_STREAMS}"
    limit = mhc_pre.FORWARD[_VARIANTS[form]].limit
    return limit(spec, target) if limit else None


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
        tokens, rows, chunk, hidden, stages, compiler = 64, 8, 128, 64, 3, options(4)
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


def forward(form: str) -> Kernel:
    """Return the forward whose products are computed as ``form`` says."""
    configure = functools.cache(functools.partial(_config, form))
    launches, sources = functools.partial(_launches, form), functools.partial(_sources, form)
    return Kernel(post_project_kernel, configure, launches, sources, functools.partial(_limit, form))
