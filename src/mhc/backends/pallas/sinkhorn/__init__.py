"""``sinkhorn`` and its gradient: the tokens lie side by side, so that every operation is one of whole vectors."""

from __future__ import annotations

from mhc.backends.pallas.blocks import too_large
from mhc.backends.pallas.gpu import sinkhorn as gpu
from mhc.backends.pallas.kernel import Kernel, Shapes
from mhc.backends.pallas.sinkhorn.launches import LANES, backward, forward
from mhc.ops.sinkhorn import SinkhornSpec

_OPTIONS = ("iterations", "eps", "form")


def _shapes(spec: SinkhornSpec, tokens: int) -> Shapes:
    return {"logits": ((tokens, spec.streams, spec.streams), None)}


def _limit(spec: SinkhornSpec) -> str | None:
    """Return why the matrices that the gradient keeps do not fit, or None; a matrix has whole tiles of 8 rows."""
    matrix = 4 * LANES * spec.streams * (-(-spec.streams // 8) * 8)
    return too_large(matrix * (spec.iterations + 6))


def _limit_of_gpu(spec: SinkhornSpec) -> str | None:
    """Return why Triton has no arrays of these sizes, or None where it does."""
    if spec.streams & (spec.streams - 1):
        return f"there are {spec.streams} streams; sinkhorn of pallas takes powers of two on a GPU, as Triton's arrays"
    return None


FORWARD = Kernel(forward, _shapes, _OPTIONS, on_gpu=gpu.forward, limit_of_gpu=_limit_of_gpu)
BACKWARD = Kernel(
    backward,
    lambda spec, tokens: {**_shapes(spec, tokens), "grad_matrix": _shapes(spec, tokens)["logits"]},
    _OPTIONS,
    _limit,
    on_gpu=gpu.backward,
    limit_of_gpu=_limit_of_gpu,
)
