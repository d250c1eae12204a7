"""An operator called as users call it, and the kernel called directly: both must give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import mhc
from draws import OPS
from mhc.backends import load

TENSORS = {
    "mhc_pre": ("x", "phi", "alpha", "bias", "gamma"),
    "mhc_head": ("x", "phi", "alpha", "bias", "gamma"),
    "sinkhorn": ("logits",),
    "mhc_post": ("x", "y", "h_post", "h_res"),
    "mhc_post_pre": ("x", "y", "h_post", "h_res", "phi", "alpha", "bias", "gamma"),
    "mhc_read": ("x", "pre"),
    "mhc_coefficients": ("x", "phi", "alpha", "bias", "gamma"),
    "mhc_single_pass": ("x", "y", "h_post", "h_res", "pre", "phi", "alpha", "bias", "gamma", "norm_weight"),
    "expand": ("x",),
}
FORWARD_INPUTS = {
    "mhc_pre": "MhcPreInputs",
    "mhc_head": "MhcHeadInputs",
    "sinkhorn": "SinkhornInputs",
    "mhc_post": "MhcPostInputs",
    "mhc_post_pre": "MhcPostPreInputs",
    "mhc_read": "MhcReadInputs",
    "mhc_coefficients": "MhcCoefficientsInputs",
    "mhc_single_pass": "MhcSinglePassInputs",
    "expand": "ExpandInputs",
}

# As docs/kernels.md says them, and written here once more: a default that changes gives other results.
DEFAULTS = {
    "norm_eps": 1e-6,
    "pre_eps": 1e-6,
    "post_scale": 2.0,
    "precision": "fp32",
    "iterations": 20,
    "form": "paper",
}
EPS_OF_FORM = {"paper": 0.0, "deepseek": 1e-6}

# torch.compile makes a kernel for each kind of memory that it sees, and these sum in orders of their own. On an H200
# the gradients of mhc_head's parameters had other bits through autograd.
COMPILED_BY_CALL = ("inductor",)

Empty = Callable[[dict[str, Any], Any], Any]


def differences(kernel: dict[str, Any], backend: Any, given: Any, empty: Empty) -> list[str]:
    """Return the names of the results whose bits differ from the kernel's, which chooses its target itself.

    Users call with tensors that lie anywhere: none of these is contiguous, and none begins where a wide load may (but
    for a backend that would compile another kernel for them). An option that has the value which is documented as its
    default is left out.
    """
    if kernel["direction"] == "forward":
        out = empty(kernel, given)
        backend.run(given, out)
        results = _call(kernel, given if kernel["backend"] in COMPILED_BY_CALL else _scattered(given), {})
        return [name for name, a, b in zip(out._fields, results, out, strict=False) if _differ(kernel, a, b)]
    laid = torch.clone if kernel["backend"] in COMPILED_BY_CALL else _scattered_tensor
    leaves = {
        name: laid(getattr(given, name).detach()).requires_grad_()
        for name in TENSORS[kernel["op"]]
        if isinstance(getattr(given, name, None), torch.Tensor)
    }
    if kernel["op"] == "expand":  # its backward needs the gradient alone
        leaves = {"x": laid(given.grad_out.sum(dim=1)).requires_grad_()}
    results = _call(kernel, given, leaves)
    incoming = [laid(value) for name, value in given._asdict().items() if name.startswith("grad_")]
    through = dict(
        zip(leaves, torch.autograd.grad(results[: len(incoming)], list(leaves.values()), incoming), strict=True)
    )
    given = _with_own_saved(kernel, given, empty)
    out = empty(kernel, given)
    backend.run(given, out)
    return [name for name, gradient in through.items() if _differ(kernel, gradient, getattr(out, name))]


def _differ(kernel: dict[str, Any], a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two results differ: in any bit, or clearly where the kernel may be compiled anew for the call."""
    if kernel["backend"] not in COMPILED_BY_CALL:
        return not torch.equal(a, b)
    largest = float(b.abs().max()) if b.numel() else 0.0
    return not bool(((a.double() - b.double()).abs() <= 64 * torch.finfo(b.dtype).eps * largest).all())


def _call(kernel: dict[str, Any], given: Any, leaves: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Call the public function with the fields of ``given``, where the leaves replace the tensors."""
    fields = given._asdict() | leaves
    tensors = [fields.pop(name) for name in TENSORS[kernel["op"]]]
    options = {name: value for name, value in fields.items() if name != "needs" and not isinstance(value, torch.Tensor)}
    defaults = DEFAULTS | {"eps": EPS_OF_FORM[options["form"]]} if "form" in options else DEFAULTS
    options = {name: value for name, value in options.items() if value != defaults.get(name)}
    if kernel["op"] == "expand":
        options = {"streams": given.grad_out.shape[1] if "grad_out" in fields else given.streams}
    results = getattr(mhc, kernel["op"])(*tensors, **options, backend=kernel["backend"])
    if kernel["op"] == "mhc_post_pre":  # the streams come first, and last in the order of the outputs
        out, read = results
        return *read, out
    if kernel["op"] == "mhc_single_pass":
        out, h_in, coefficients = results
        return h_in, *coefficients, out
    return results if isinstance(results, tuple) else (results,)


def _scattered(inputs: Any) -> Any:
    """Return the inputs with tensors whose elements do not lie side by side."""
    return type(inputs)(*(_scattered_tensor(v) if isinstance(v, torch.Tensor) else v for v in inputs))


def _scattered_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy whose elements lie two apart, and which begins in the middle of an allocation."""
    room = tensor.new_empty(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
    scattered = room[..., 1::2]
    return scattered.copy_(tensor)


def _with_own_saved(kernel: dict[str, Any], given: Any, empty: Empty) -> Any:
    """Return the backward's inputs with what the backend's own forward saves, instead of the exact values."""
    if not hasattr(given, "m"):
        return given
    kind = getattr(OPS[kernel["op"]], FORWARD_INPUTS[kernel["op"]])
    forward = kind(**{name: getattr(given, name) for name in kind._fields})
    direction = kernel | {"direction": "forward"}
    saved = empty(direction, forward)
    load(kernel["backend"], kernel["op"]).run(forward, saved)
    kept = {name: getattr(saved, name) for name in ("out", "read", "s", "m", "r") if name in given._fields}
    return given._replace(**kept)
