"""Properties of an operator that hold for any numbers: checked on every case that runs, in addition to the golden.

Each property runs the backend again on changed inputs. It finds what a comparison of one result cannot: an equation
that is right for one scale only, streams that are not treated alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from kernel_matrix.kit import hold
from test_operators import may_compile_more

# Two results that differ by the order of fp32 sums only; coefficients are of order one.
ROUNDING = 2e-5


def check(run: Any, inputs: Any, out: Any) -> None:
    """Check all properties of the operator; on an emulated GPU few cases have those that compile a kernel anew.

    Raises:
        AssertionError: one does not hold; the text says by how much.
    """
    case, other_code = run.case, may_compile_more(run.case)
    for holds in _PROPERTIES.get((case.op, case.direction), ()):
        if other_code or holds not in _WITH_OTHER_CODE:
            holds(run, inputs, out)
    if case.canary and (case.action == "run" or case.interpreted):
        differing = run.ask("as_users_call:differences")
        hold(not differing, f"through torch.ops and autograd: other results in {', '.join(differing)}")


def _sums_to_one(run: Any, inputs: Any, out: Any) -> None:
    """Check the sums: rows are normalised last, and the weights that enter a stream sum to one but for eps."""
    matrix = out.matrix.double()
    rows = (matrix.sum(dim=2) - 1).abs().max().item()
    hold(rows <= ROUNDING + _of_eps(inputs), f"a row sums to one off by {rows:.2g}")
    hold(bool((matrix >= 0).all()), "an element is negative")
    moderate = inputs.logits.abs().amax(dim=(1, 2)) <= 4  # beyond, 20 iterations need not converge
    columns = (matrix.sum(dim=1) - 1).abs()[moderate].max().item() if moderate.any() else 0.0
    hold(columns <= 1e-2, f"a column sums to one off by {columns:.2g}")


def _minus_infinity_is_an_exponential_of_zero(run: Any, inputs: Any, out: Any) -> None:
    """Put a logit of -inf into each matrix: the result is that for a logit whose exponential is zero, bit for bit."""
    if inputs.logits.shape[1] == 1:  # a matrix of -inf alone has no sum
        return
    results = []
    for value in (-math.inf, -1e4):
        logits = inputs.logits.clone()
        logits[:, 0, -1] = value
        results.append(run(inputs.changed(logits=logits)))
    [(name, infinite)], [(_, small)] = results
    hold(bool(infinite.isfinite().all()), "a logit of -inf spoils its matrix")
    hold(torch.equal(infinite, small), f"{name}: other bits for a logit of -inf than for one of -10000")


def _lines_may_underflow(run: Any, inputs: Any, out: Any) -> None:
    """Make one row, or one column, larger than the others by e⁸⁰⁰: every entry becomes 1/n."""
    n = inputs.logits.shape[1]
    for line in (slice(0, 1), slice(None)), (slice(None), slice(0, 1)):
        logits = torch.zeros_like(inputs.logits)
        logits[:, line[0], line[1]] = 800
        even = torch.full_like(logits, 1 / n)
        limit = ROUNDING + _of_eps(inputs)
        _close(run(inputs.changed(logits=logits)).matrix, even, "lines that underflow", limit)


def _of_eps(inputs: Any) -> float:
    """Return how far eps moves a sum of s to s / (s + eps); the sums that are divided by it are 1/4 at least."""
    return float(4 * inputs.eps)


def _streams_permute(run: Any, inputs: Any, out: Any) -> None:
    """Reverse the order of the streams: the outputs change their order likewise, and h_in stays."""
    _, n, hidden = inputs.x.shape
    order = torch.arange(n - 1, -1, -1, device=inputs.x.device)
    rows = torch.cat([order, n + order, 2 * n + (order[:, None] * n + order).flatten()])
    columns = (order[:, None] * hidden + torch.arange(hidden, device=order.device)).flatten()
    permuted = inputs.changed(
        x=inputs.x[:, order].contiguous(),
        phi=inputs.phi[rows][:, columns].contiguous(),
        bias=inputs.bias[rows].contiguous(),
        gamma=None if inputs.gamma is None else inputs.gamma[order].contiguous(),
    )
    again = run(permuted)
    _close(again.h_post, out.h_post[:, order], "h_post of permuted streams")
    _close(again.h_res, out.h_res[:, order][:, :, order], "h_res of permuted streams")


def _scale_is_divided_out(run: Any, inputs: Any, out: Any) -> None:
    """Multiply x by 4: the norm removes its scale, up to norm_eps."""
    mean_square = inputs.x.double().square().mean(dim=(1, 2))
    again = run(inputs.changed(x=inputs.x * 4))
    # d log r = -eps / (2 · mean square), times the coefficient itself, which is of order one. It is 0 for padding.
    slack = inputs.norm_eps / mean_square[mean_square > 0].min().item() * 4
    _close(again.h_post, out.h_post, "h_post of 4·x", ROUNDING + slack)


def _ones_are_no_gamma(run: Any, inputs: Any, out: Any) -> None:
    if inputs.gamma is None:
        ones = torch.ones(inputs.x.shape[1:], device=inputs.x.device)
        for name, tensor in run(inputs.changed(gamma=ones), gamma=True):
            if name != "h_in":  # rounded to x's dtype, where one step is more than the order of sums
                _close(tensor, getattr(out, name), f"{name} with gamma of ones")


def _is_one_after_the_other(run: Any, inputs: Any, out: Any) -> None:
    """Check that the layer's input is read from the streams as they were rounded, with the weights that m gives."""
    x = out.out.double()
    n = x.shape[1]
    gate, bias = inputs.alpha[0].double(), inputs.bias[:n].double()
    weights = torch.sigmoid(gate * out.m[:, :n].double() + bias) + inputs.pre_eps
    h_in = (weights.unsqueeze(-1) * x).sum(dim=1)
    step = torch.finfo(out.h_in.dtype).eps * h_in.abs() + ROUNDING * x.abs().amax()
    as_written = bool(((out.h_in.double() - h_in).abs() <= step).all())
    hold(as_written, "h_in is not read from the streams that are written")


def _read_is_normalised(run: Any, inputs: Any, out: Any) -> None:
    """Check that the layer's input is what was read, as it was rounded, behind its norm, and rounded once."""
    read = out.read.double()
    s = torch.rsqrt(read.square().mean(dim=1, keepdim=True) + inputs.norm_eps)
    h_in = read * s * inputs.norm_weight.double()
    narrow = torch.finfo(out.h_in.dtype)
    off = (out.h_in.double() - h_in).abs() > (narrow.eps / 2 + 1e-6) * h_in.abs().clamp(min=narrow.tiny)
    hold(not bool(off.any()), f"{int(off.sum())} numbers are not what was read, normalised")


def _groups_are_quantised(run: Any, inputs: Any, out: Any) -> None:
    """Check scales, and the rounding of each number to fp8, with what was read as it was rounded, and its norm."""
    powers = inputs.power_of_two_scales
    v = out.read.double() * out.s.double().unsqueeze(1) * inputs.norm_weight.double()
    scale, numbers = out.scale.double(), out.h_in.double().unflatten(1, (-1, 128))
    narrow = torch.finfo(out.read.dtype)
    rounded = narrow.eps + 1e-6  # v is rounded to x's dtype first
    groups = v.unflatten(1, (-1, 128))
    least = groups.abs().amax(dim=2).clamp(min=1e-4) / 448
    most = 2 * least if powers else least
    fits = (scale >= least * (1 - rounded)) & (scale <= most * (1 + rounded))
    hold(bool(fits.all()), "a scale is not that of the largest number of its group")
    hold(not powers or bool((torch.frexp(scale)[0] == 0.5).all()), "a scale is no power of two")
    scale = scale.unsqueeze(2)
    half = torch.maximum(groups.abs() / 16, scale / 1024) * (1 + 1e-6) + rounded * groups.abs().clamp(min=narrow.tiny)
    off = (numbers * scale - groups).abs() > half
    hold(not bool(off.any()), f"{int(off.sum())} numbers are not the nearest ones of fp8")


_PROPERTIES: dict[tuple[str, str], tuple[Callable[..., None], ...]] = {
    ("mhc_pre", "forward"): (_streams_permute, _scale_is_divided_out, _ones_are_no_gamma),
    ("sinkhorn", "forward"): (_sums_to_one, _minus_infinity_is_an_exponential_of_zero, _lines_may_underflow),
    ("sinkhorn", "backward"): (_minus_infinity_is_an_exponential_of_zero,),
    ("mhc_coefficients", "forward"): (_scale_is_divided_out, _ones_are_no_gamma),
    ("mhc_post_pre", "forward"): (_is_one_after_the_other,),
    ("mhc_pre_norm", "forward"): (_read_is_normalised,),
    ("mhc_pre_norm_fp8", "forward"): (_groups_are_quantised,),
    ("mhc_single_pass", "forward"): (_read_is_normalised,),
    ("mhc_single_pass_fp8", "forward"): (_groups_are_quantised,),
}
_WITH_OTHER_CODE = (_ones_are_no_gamma,)


def _close(a: torch.Tensor, b: torch.Tensor, what: str, limit: float = ROUNDING) -> None:
    off = (a.double() - b.double()).abs().max().item()
    hold(off <= limit, f"{what}: off by {off:.2g}, over {limit:.2g}")
