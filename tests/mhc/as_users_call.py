"""An operator called as users call it, and the kernel called directly: both must give the same bits."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

import mhc
from draws import FORMS, SINGLE_PASS
from mhc.backends import load
from protocol import class_of, inputs_and_outputs, names_of

Case = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]

# As docs/kernels.md says them, and written here once more: a default that changes gives other results.
DEFAULTS = {"norm_eps": 1e-6, "pre_eps": 1e-6, "post_scale": 2.0, "precision": "fp32"}
OF_SINKHORN = {"iterations": 20, "form": "paper"}

# torch.compile makes a kernel for each kind of memory that it sees, and these sum in orders of their own. On an H200
# the gradients of mhc_head's parameters had other bits through autograd.
COMPILED_BY_CALL = ("inductor",)


def differences(case: Case, tensors: Tensors) -> list[str]:
    """Return the names of the results whose bits differ from the kernel's, which chooses its target itself.

    A forward goes through ``torch.ops``. A backward goes through autograd: the backend's own forward saves what its
    backward needs, so the kernel is run on what that forward gives.

    Users call with tensors that lie anywhere: none of these is contiguous, and none begins where a wide load may (but
    for a backend that would compile another kernel for them). An option that has the value which is documented as its
    default is left out.
    """
    op, laid = case["op"], torch.clone if case["backend"] in COMPILED_BY_CALL else _scattered
    if case["direction"] == "forward":
        results = _call(case, {name: laid(one) for name, one in tensors.items()})
        out = _ran(case, "forward", tensors)
        return [name for (name, b), a in zip(out.items(), results, strict=False) if _differ(case, a, b)]
    given = {"x": tensors["grad_out"].sum(dim=1)} if op == "expand" else tensors  # it needs the gradient alone
    leaves = {name: laid(given[name].detach()) for name in class_of(op, "Grads")._fields if name in given}
    for leaf in leaves.values():
        leaf.requires_grad_()
    results = _call(case, leaves)
    incoming = [laid(one) for name, one in tensors.items() if name.startswith("grad_")]
    gradients = torch.autograd.grad(results[: len(incoming)], list(leaves.values()), incoming)
    saved = _ran(case, "forward", tensors) if "m" in tensors else {}
    out = _ran(case, "backward", {**tensors, **{name: one for name, one in saved.items() if name in tensors}})
    return [name for name, one in zip(leaves, gradients, strict=True) if _differ(case, one, out[name])]


def inputs_of(case: Case, direction: str, tensors: Tensors) -> Any:
    """Return tensors as a backend's kernel of this direction takes them."""
    given = [tensors.get(name) for name in names_of(case["op"], direction)]
    return inputs_and_outputs(case["op"], direction, given, case["options"])[0]


def _ran(case: Case, direction: str, tensors: Tensors) -> dict[str, Any]:
    """Run the backend's kernel, and return its outputs."""
    inputs = inputs_of(case, direction, tensors)
    module = importlib.import_module(f"mhc.ops.{case['op']}")
    out = module.empty_outputs(inputs) if direction == "forward" else module.empty_grads(inputs)
    load(case["backend"], case["op"], direction).run(inputs, out)
    return dict(out._asdict())


def _differ(case: Case, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two results differ: in any bit, or clearly where the kernel may be compiled anew for the call."""
    if case["backend"] not in COMPILED_BY_CALL:
        return not torch.equal(a.double(), b.double())  # not every device compares numbers of fp8
    largest = float(b.abs().max()) if b.numel() else 0.0
    return not bool(((a.double() - b.double()).abs() <= 64 * torch.finfo(b.dtype).eps * largest).all())


def _call(case: Case, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """Call the public function with these tensors."""
    op, options = case["op"], case["options"]
    defaults = OF_SINKHORN | {"eps": FORMS[options["form"]]} if op == "sinkhorn" else DEFAULTS
    options = {name: value for name, value in options.items() if value != defaults.get(name)}
    if op == "expand":
        options = {"streams": case["axes"]["streams"]}
    given = [tensors.get(name) for name in names_of(op, "forward")]
    results = getattr(mhc, op.replace("_norm", ""))(*given, **options, backend=case["backend"])
    if op == "mhc_post_pre":  # the streams come first, and last in the order of the outputs
        out, read = results
        return *read, out
    if op in SINGLE_PASS:
        out, *read, coefficients = results
        return *read, *coefficients, out
    return results if isinstance(results, tuple) else (results,)


def _scattered(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy whose elements lie two apart, and which begins in the middle of an allocation."""
    room = tensor.new_empty(*tensor.shape[:-1], 2 * tensor.shape[-1] + 1)
    return room[..., 1::2].copy_(tensor)
