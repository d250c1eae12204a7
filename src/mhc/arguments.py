"""The arguments of the operators' functions: a backend, and tensors as a kernel gets them."""

from __future__ import annotations

import torch

from mhc import checks
from mhc.backends import default_backend, load
from mhc.library import refuse_other_formats
from mhc.ops.read import PRECISIONS
from mhc.parameters import DTYPES, wide


def backend_of(name: str | None, x: torch.Tensor, op: str) -> str:
    """Return the backend's name, after checking that it has the operator and that its toolchain imports."""
    refuse_other_formats(op)
    chosen = name or default_backend(x.device)
    if not torch.compiler.is_compiling():
        load(chosen, op)
    return chosen


def read_tensors(
    op: str,
    x: torch.Tensor,
    parameters: tuple[torch.Tensor | None, ...],
    precision: str,
    main_grad: bool,
    *,
    head: bool = False,
    any_mixes: bool = False,
    weight: tuple[torch.Tensor, ...] = (),
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors of a read, the parameters in fp32, or raise if something does not fit x.

    ``weight`` is the one of a norm behind the read, where there is one.
    """
    streams, hidden = checks.streams_of(op, x, DTYPES)
    mixes = checks.mixes_of(parameters[0], streams) if any_mixes else None
    shapes = checks.shapes_of_parameters(streams, hidden, head=head, mixes=mixes)
    checks.one_of(op, "precision", precision, PRECISIONS)
    named = [*zip(checks.PARAMETERS, parameters, shapes, strict=True), *[("norm_weight", w, (hidden,)) for w in weight]]
    return (x, *[_parameter(op, x, name, tensor, shape, main_grad) for name, tensor, shape in named])


def _parameter(
    op: str, x: torch.Tensor, name: str, tensor: torch.Tensor | None, shape: tuple[int, ...], main_grad: bool
) -> torch.Tensor | None:
    """Return a parameter in fp32, or raise if it does not fit x; gamma may be None."""
    if tensor is None and name == "gamma":
        return None
    if tensor is None or tensor.dtype != torch.float32 or tensor.shape != shape or tensor.device != x.device:
        checks.fits(op, x, name, tensor, shape, DTYPES)
    return tensor if tensor is None else wide(f"{op}: {name}", tensor, main_grad)
