"""Time the variants of a backend's kernels on the GPU of this machine, and write its table ``variants.toml``.

Run it as ``ci/nox -s tune`` with an interpreter that has the backend's toolchain. For each operator with variants, in
each direction and at each of the benchmark's shapes, every variant that supports the inputs runs once and is compared
with float64. Those that are right take turns, as in the benchmark. Where a variant is at least 3 % faster than the
one that the rest of the table chooses, the table gets a rule for this target, dtype, streams and hidden.

These rules stand between two marks at the top of the table. Everything outside of the marks stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import torch  # noqa: E402
from clocks import GraphClock  # noqa: E402

from draws import OPS, Draw, bytes_of  # noqa: E402
from kernel_matrix.tools.bench.inside.measure import Amount, samples_in_turns  # noqa: E402
from kernel_matrix.tools.bench.inside.summary import copies_needed, summary  # noqa: E402
from mhc.backends import load, operators_of  # noqa: E402
from mhc.backends.variants import Variants  # noqa: E402

BEGIN = "# What `ci/nox -s tune` measured; it writes the lines up to the end mark anew.\n"
END = "# End of what was measured.\n"
_GAIN = 1.03  # how much faster than the present choice a variant is that gets a rule
_ERROR = 1e-2  # no variant that is right is as far off; the suite holds them to budgets


class Choice(NamedTuple):
    """The times of the variants of one operator at one shape, in µs; ``present`` is what the rest of the table says."""

    op: str
    direction: str
    target: str
    dtype: str
    streams: int
    hidden: int
    tokens: int
    present: str
    times: Mapping[str, float]

    @property
    def best(self) -> str:
        """Return the variant to choose: the fastest, if it is faster than the present one by more than the noise."""
        fastest = min(self.times, key=lambda name: self.times[name])
        if self.present in self.times and self.times[self.present] < _GAIN * self.times[fastest]:
            return self.present
        return fastest


def rules_text(choices: Sequence[Choice]) -> str:
    """Return the rules for the shapes where another variant than the present one is faster, with their times."""
    text = BEGIN
    for one in choices:
        if one.best == one.present:
            continue
        times = ", ".join(f"{name} {us:.1f}" for name, us in sorted(one.times.items(), key=lambda item: item[1]))
        values = {"op": one.op, "direction": one.direction, "target": one.target, "dtype": one.dtype}
        lines = [f'{key} = "{value}"' for key, value in values.items()]
        lines += [f"streams = {one.streams}", f"hidden = {one.hidden}", f'variant = "{one.best}"']
        text += "\n".join(["[[choice]]", f"# µs at {one.tokens} tokens: {times}", *lines]) + "\n\n"
    return text + END


def without_rules(table: str) -> str:
    """Return a table without the rules that were measured before."""
    if BEGIN not in table:
        return table
    before, _, rest = table.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the table has the line {BEGIN!r} and not {END!r}")
    return before + after.removeprefix("\n")


def with_rules(table: str, choices: Sequence[Choice]) -> str:
    """Return a table with the measured rules before all others: the first rule that holds decides."""
    return f"{rules_text(choices)}\n{without_rules(table)}"


def measured(op: str, direction: str, kernel: Variants, axes: Mapping[str, Any], clock: GraphClock) -> Choice | None:
    """Return the times of the variants at one shape, or None where there is no choice."""
    device = torch.device("cuda")
    first = Draw(axes, device, 100).inputs(op, direction)
    target, tokens = kernel.target_on(device), int(axes["tokens"])
    variants = kernel.supported(first.spec, target, tokens)
    if len(variants) < 2 or target is None:
        return None
    module = OPS[op]
    empty = module.empty_outputs if direction == "forward" else module.empty_grads
    golden = load("reference", op, direction).golden(first)  # type: ignore[attr-defined]
    size = bytes_of(first) + bytes_of(empty(first))
    copies = copies_needed(size, clock.cache_bytes, clock.most_copies)
    sets = [
        (given, empty(given)) for given in (Draw(axes, device, 100 + n).inputs(op, direction) for n in range(copies))
    ]
    samplers = {}
    for name, variant in variants.items():
        for out in sets[0][1]:
            if out is not None:
                out.fill_(float("nan"))
        variant.run(*sets[0])
        if all(_error(out, exact) < _ERROR for out, exact in zip(sets[0][1], golden, strict=True) if out is not None):
            samplers[name] = clock.sampler([lambda one=variant, pair=pair: one.run(*pair) for pair in sets])  # type: ignore[misc]
    samples = samples_in_turns(samplers, Amount(20, 100, 0.1))
    times = {name: summary(values).median * 1e6 for name, values in samples.items()}
    spec = first.spec
    chosen = kernel.choose(spec, target, tokens)
    dtype = str(spec.dtype).removeprefix("torch.")
    return Choice(op, direction, target, dtype, spec.streams, spec.hidden, tokens, chosen, times)


def _error(out: torch.Tensor, exact: torch.Tensor) -> float:
    difference = torch.linalg.vector_norm(out.double() - exact)
    return float(difference / torch.linalg.vector_norm(exact))


def main() -> None:
    """Measure, print what was measured, and write the table."""
    parser = argparse.ArgumentParser(prog="ci/nox -s tune --", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--backend", default="triton")
    parser.add_argument("--show", action="store_true", help="show the table instead of writing it")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here: a choice is made from what runs")
    table = ROOT / "src" / "mhc" / "backends" / arguments.backend / "variants.toml"
    text = without_rules(table.read_text(encoding="utf-8"))
    if not arguments.show:
        table.write_text(text, encoding="utf-8")  # the backend is imported with the choices that stay
    from ruamel.yaml import YAML

    shapes = YAML(typ="safe").load(ROOT / "matrix.yaml")["bench"]["shapes"]["gpu"]
    clock, choices = GraphClock(torch.device("cuda")), []
    for (op, direction), kernel in operators_of(arguments.backend).items():
        for shape in shapes if isinstance(kernel, Variants) else ():
            if choice := measured(op, direction, kernel, shape, clock):
                choices.append(choice)
                times = ", ".join(f"{name} {us:.1f}" for name, us in choice.times.items())
                where = f"{op} {direction} ({shape['tokens']}, {shape['hidden']})"
                sys.stderr.write(f"{where}: {choice.best} of {times} µs\n")
            clock.release()
    if arguments.show:
        sys.stdout.write(with_rules(text, choices))
    else:
        table.write_text(with_rules(text, choices), encoding="utf-8")


if __name__ == "__main__":
    main()
