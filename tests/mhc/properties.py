"""Properties of an operator that hold for any numbers: checked on every case that runs, in addition to the golden.

Each property runs the backend again on changed inputs. It finds what a comparison of one result cannot: a race, a
token that reads its neighbour, an equation that is right for one scale only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from constants import PARAMETERS
from kernel_matrix.kit import hold

Run = Callable[[Any], Any]

# Two results that differ by the order of fp32 sums only; coefficients are of order one.
ROUNDING = 2e-5

MANY = 65_536  # tokens that 16 bits can count, and one more than a GPU's grid has blocks in its second dimension


def check(op: str, direction: str, run: Run, inputs: Any, out: Any, again: Any, other_code: bool) -> None:
    """Check all properties of the operator; ``again`` is what a second run gave for the same inputs.

    Without ``other_code`` those are left out for which a kernel is compiled anew.

    Raises:
        AssertionError: one does not hold; the text says by how much.
    """
    _same(again, out, "a second run gives other bits")
    for holds in _PROPERTIES.get((op, direction), ()):
        if other_code or holds not in _WITH_OTHER_CODE:
            holds(run, inputs, out)


def _neighbours(run: Run, inputs: Any, out: Any) -> None:
    """Poison every token but the middle one: its results must not change, bit for bit, and the others' are NaN."""
    tokens = inputs[0].shape[0]
    keep = tokens // 2
    if tokens == 1:
        return
    poisoned = []
    for name, value in zip(inputs._fields, inputs, strict=True):
        if _is_one_of_tokens(inputs, name, tokens):
            value = value.clone()
            value[:keep], value[keep + 1 :] = math.nan, math.nan
        poisoned.append(value)
    again = run(type(inputs)(*poisoned))
    of_token = [(name, a, b) for name, a, b in _tensors(again, out) if a.shape[0] == tokens and name not in PARAMETERS]
    for name, a, b in of_token:
        hold(torch.equal(a[keep], b[keep]), f"{name}: a token's result depends on its neighbours")
    if inputs[0][keep].numel() == 1:  # a 1×1 matrix is one, whatever its logit is
        return
    others = [place for place in range(tokens) if place != keep]
    for name, a, b in of_token:
        followed = not torch.equal(a[others], b[others])
        hold(followed, f"{name}: the result does not follow its inputs: NaN in them changes nothing")
        numbers = int((~a[others].isnan()).sum())
        hold(numbers == 0, f"{name}: {numbers} numbers where all inputs of a token are NaN")


def _sums_to_one(run: Run, inputs: Any, out: Any) -> None:
    """Check the sums: rows are normalised last, and the weights that enter a stream sum to one but for eps."""
    matrix = out.matrix.double()
    rows = (matrix.sum(dim=2) - 1).abs().max().item()
    hold(rows <= ROUNDING + _of_eps(inputs), f"a row sums to one off by {rows:.2g}")
    hold(bool((matrix >= 0).all()), "an element is negative")
    moderate = inputs.logits.abs().amax(dim=(1, 2)) <= 4  # beyond, 20 iterations need not converge
    columns = (matrix.sum(dim=1) - 1).abs()[moderate].max().item() if moderate.any() else 0.0
    hold(columns <= 1e-2, f"a column sums to one off by {columns:.2g}")


def _minus_infinity_is_an_exponential_of_zero(run: Run, inputs: Any, out: Any) -> None:
    """Put a logit of -inf into each matrix: the result is that for a logit whose exponential is zero, bit for bit."""
    if inputs.logits.shape[1] == 1:  # a matrix of -inf alone has no sum
        return
    results = []
    for value in (-math.inf, -1e4):
        logits = inputs.logits.clone()
        logits[:, 0, -1] = value
        results.append(run(inputs._replace(logits=logits)))
    hold(all(bool(tensor.isfinite().all()) for tensor in results[0]), "a logit of -inf spoils its matrix")
    _same(*results, "other bits for a logit of -inf than for one of -10000")


def _lines_may_underflow(run: Run, inputs: Any, out: Any) -> None:
    """Make one row, or one column, larger than the others by e⁸⁰⁰: every entry becomes 1/n."""
    n = inputs.logits.shape[1]
    for line in (slice(0, 1), slice(None)), (slice(None), slice(0, 1)):
        logits = torch.zeros_like(inputs.logits)
        logits[:, line[0], line[1]] = 800
        even = torch.full_like(logits, 1 / n)
        limit = ROUNDING + _of_eps(inputs)
        _close(run(inputs._replace(logits=logits)).matrix, even, "lines that underflow", limit)


def _of_eps(inputs: Any) -> float:
    """Return how far eps moves a sum of s to s / (s + eps); the sums that are divided by it are 1/4 at least."""
    return float(4 * inputs.eps)


def _streams_permute(run: Run, inputs: Any, out: Any) -> None:
    """Reverse the order of the streams: the outputs change their order likewise, and h_in stays."""
    _, n, hidden = inputs.x.shape
    order = torch.arange(n - 1, -1, -1, device=inputs.x.device)
    rows = torch.cat([order, n + order, 2 * n + (order[:, None] * n + order).flatten()])
    columns = (order[:, None] * hidden + torch.arange(hidden, device=order.device)).flatten()
    permuted = inputs._replace(
        x=inputs.x[:, order].contiguous(),
        phi=inputs.phi[rows][:, columns].contiguous(),
        bias=inputs.bias[rows].contiguous(),
        gamma=None if inputs.gamma is None else inputs.gamma[order].contiguous(),
    )
    again = run(permuted)
    _close(again.h_post, out.h_post[:, order], "h_post of permuted streams")
    _close(again.h_res, out.h_res[:, order][:, :, order], "h_res of permuted streams")


def _scale_is_divided_out(run: Run, inputs: Any, out: Any) -> None:
    """Multiply x by 4: the norm removes its scale, up to norm_eps."""
    mean_square = inputs.x.double().square().mean(dim=(1, 2))
    again = run(inputs._replace(x=inputs.x * 4))
    # d log r = -eps / (2 · mean square), times the coefficient itself, which is of order one. It is 0 for padding.
    slack = inputs.norm_eps / mean_square[mean_square > 0].min().item() * 4
    _close(again.h_post, out.h_post, "h_post of 4·x", ROUNDING + slack)


def _only_what_is_asked(run: Run, inputs: Any, out: Any) -> None:
    """Ask for the first of the gradients, and for all others: those come, bit for bit, and no other."""
    _ask_for(run, inputs, out, [[0], range(1, len(inputs.needs))])


def check_each_gradient(run: Run, inputs: Any, out: Any) -> None:
    """Ask for each of the gradients but the first alone, where any can be asked for.

    With the runs of :func:`_only_what_is_asked` and that for all of them, each two are together, one without the other,
    and both missing.

    Raises:
        AssertionError: one is missing, too many, or has other bits than where all are asked for.
    """
    places = range(1, len(getattr(inputs, "needs", ())))
    _ask_for(run, inputs, out, [[place] for place in places if out[place] is not None])


def _ask_for(run: Run, inputs: Any, out: Any, parts: Iterable[Sequence[int]]) -> None:
    for asked in parts:
        needs = tuple(place in asked for place in range(len(inputs.needs)))
        some = run(inputs._replace(needs=needs))
        for name, needed, part, whole in zip(out._fields, needs, some, out, strict=True):
            there = (part is not None) == (needed and whole is not None)
            hold(there, f"{name}: there, or not, against what is asked")
            same = part is None or torch.equal(part, whole)
            hold(same, f"{name}: other bits if it is asked for without the others")


def _ones_are_no_gamma(run: Run, inputs: Any, out: Any) -> None:
    if inputs.gamma is None:
        ones = torch.ones(inputs.x.shape[1:], device=inputs.x.device)
        for name, a, b in _tensors(run(inputs._replace(gamma=ones)), out):
            if name != "h_in":  # rounded to x's dtype, where one step is more than the order of sums
                _close(a, b, f"{name} with gamma of ones")


def _is_one_after_the_other(run: Run, inputs: Any, out: Any) -> None:
    """Check that the layer's input is read from the streams as they were rounded, with the weights that m gives."""
    x = out.out.double()
    n = x.shape[1]
    gate, bias = inputs.alpha[0].double(), inputs.bias[:n].double()
    weights = torch.sigmoid(gate * out.m[:, :n].double() + bias) + inputs.pre_eps
    h_in = (weights.unsqueeze(-1) * x).sum(dim=1)
    step = torch.finfo(out.h_in.dtype).eps * h_in.abs() + ROUNDING * x.abs().amax()
    as_written = bool(((out.h_in.double() - h_in).abs() <= step).all())
    hold(as_written, "h_in is not read from the streams that are written")


def check_many_tokens(run: Run, inputs: Any, out: Any) -> None:
    """Repeat the tokens until there are more than :data:`MANY`: each gives what it gave among few.

    Raises:
        AssertionError: one gives something else.
    """
    tokens = inputs[0].shape[0]
    times = MANY // tokens + 2
    repeated = [
        value.repeat(times, *[1] * (value.dim() - 1)) if _is_one_of_tokens(inputs, name, tokens) else value
        for name, value in zip(inputs._fields, inputs, strict=True)
    ]
    many = run(type(inputs)(*repeated))
    for name, a, b in _tensors(many, out):
        if name not in PARAMETERS:
            off = (a.view(times, *b.shape) - b).abs_().max().item()
            limit = 64 * torch.finfo(b.dtype).eps * b.abs().max().item()
            hold(off <= limit, f"{name} of {times * tokens} tokens: off by {off:.2g}, over {limit:.2g}")


_PROPERTIES: dict[tuple[str, str], tuple[Callable[[Run, Any, Any], None], ...]] = {
    ("mhc_pre", "forward"): (_neighbours, _streams_permute, _scale_is_divided_out, _ones_are_no_gamma),
    ("sinkhorn", "forward"): (
        _neighbours,
        _sums_to_one,
        _minus_infinity_is_an_exponential_of_zero,
        _lines_may_underflow,
    ),
    ("sinkhorn", "backward"): (_neighbours, _minus_infinity_is_an_exponential_of_zero),
    ("mhc_post", "forward"): (_neighbours,),
    ("mhc_post", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_pre", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_post_pre", "forward"): (_neighbours, _is_one_after_the_other),
    ("mhc_post_pre", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_head", "forward"): (_neighbours,),
    ("mhc_head", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_read", "forward"): (_neighbours,),
    ("mhc_read", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_coefficients", "forward"): (_neighbours, _scale_is_divided_out, _ones_are_no_gamma),
    ("mhc_coefficients", "backward"): (_neighbours, _only_what_is_asked),
    ("mhc_single_pass", "forward"): (_neighbours,),
    ("mhc_single_pass", "backward"): (_neighbours, _only_what_is_asked),
    ("expand", "forward"): (_neighbours,),
    ("expand", "backward"): (_neighbours,),
}
_WITH_OTHER_CODE = (_only_what_is_asked, _ones_are_no_gamma)


def _is_one_of_tokens(inputs: Any, name: str, tokens: int) -> bool:
    value = getattr(inputs, name)
    return isinstance(value, torch.Tensor) and name not in PARAMETERS and value.shape[0] == tokens


def _tensors(a: Any, b: Any) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for name, left, right in zip(a._fields, a, b, strict=True):
        if left is not None:
            yield name, left, right


def _same(again: Any, out: Any, what: str) -> None:
    for name, a, b in _tensors(again, out):
        hold(torch.equal(a, b), f"{name}: {what}")


def _close(a: torch.Tensor, b: torch.Tensor, what: str, limit: float = ROUNDING) -> None:
    off = (a.double() - b.double()).abs().max().item()
    hold(off <= limit, f"{what}: off by {off:.2g}, over {limit:.2g}")
