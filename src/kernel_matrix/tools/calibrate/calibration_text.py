"""Calibration -> a table in Markdown, the proposed entries as YAML, and JSON. Pure functions."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from kernel_matrix.config.model import Accuracy
from kernel_matrix.report.markdown import cell
from kernel_matrix.tools.calibrate.calibrate import Calibration
from kernel_matrix.tools.calibrate.calibration import OutputNoise, Proposal, Spread, by_output, proposals

_MOST_ALARMS = 10


def present_limits(accuracy: Accuracy) -> dict[str, float]:
    """Return the limits that are proposed anew, by their place in ``accuracy``. ``ulps`` is not measured."""
    return {place: rule.limit for place, rule in accuracy.rules().items() if place != "ulps"}


def markdown(calibration: Calibration, seeds: int, command: str) -> str:
    """Return the table of all outputs, with how it was made."""
    return "\n".join(_markdown(calibration, seeds, command)) + "\n"


def _markdown(calibration: Calibration, seeds: int, command: str) -> Iterator[str]:
    facts, rows = calibration.facts, by_output(calibration.noises)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(calibration.outcomes.items()))
    yield f"{seeds} seeds of the quick cases: {counts}. False alarms: {len(calibration.alarms)}."
    if calibration.canaries[0]:
        yield f"Canaries: {calibration.canaries[1]} of {calibration.canaries[0]} caught."
    yield f"Made by `{command}` on {cell(', '.join(facts['device']))}, at {cell(', '.join(facts['commit']))}."
    yield "Of each seed the largest value counts; the columns say its median, its 95th percentile and its largest.\n"
    yield "| operator | output | dtype | cases | share of the budget | noise ratio | over | largest share in |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        ratio = _spread(row.ratio) if row.ratio else "-"
        yield (
            f"| `{row.op}` | `{row.output}` | {row.dtype or '-'} | {row.cases} | {_spread(row.share)} | {ratio} | "
            f"{row.over} | `{row.share.case}` |"
        )


def _spread(spread: Spread) -> str:
    return f"{spread.median:.2f}, {spread.p95:.2f}, **{spread.largest:.2f}**"


def alarm_lines(calibration: Calibration) -> Iterator[str]:
    """Yield a line for each of the first cases that did not pass."""
    for verdict in calibration.alarms[:_MOST_ALARMS]:
        yield f"{verdict.state}: {verdict.case.id}: {(verdict.reason.splitlines() or [''])[0][:300]}"
    if len(calibration.alarms) > _MOST_ALARMS:
        yield f"and {len(calibration.alarms) - _MOST_ALARMS} more"


def proposed(calibration: Calibration, accuracy: Accuracy) -> list[Proposal]:
    """Return the limits that follow from the noise."""
    return proposals(calibration.noises, present_limits(accuracy))


def yaml(found: Sequence[Proposal], calibration: Calibration, seeds: int, command: str) -> str:
    """Return the proposed entries of ``accuracy``, each with its source, as a text for matrix.yaml."""
    if not found:
        return "# No entry is proposed: no case has the figures that a budget is made from.\n"
    rule = "# Proposed: the least limit that leaves the largest error at two thirds of its budget, rounded up."
    part = "# It holds for what was measured: operators, toolchains and machines that were left out may need more."
    lines = [rule, part, "accuracy:"]
    for section, group in groupby(found, lambda proposal: proposal.place.rpartition(".")[0]):
        if section.startswith("budgets."):  # entries of a list: a person puts the limit into the one that is named
            lines += [f"  # {one.place}: limit: {one.limit:g} (now {one.present:g})" for one in group]
            continue
        lines += [f"  {section}:"] if section else []
        for proposal in group:
            lines += _entry(proposal, "    " if section else "  ", calibration, seeds, command)
    return "\n".join(lines) + "\n"


def _entry(proposal: Proposal, indent: str, calibration: Calibration, seeds: int, command: str) -> Iterator[str]:
    spread = proposal.spread
    commits, days = calibration.facts["commit"], sorted({one[:10] for one in calibration.facts["started"]})
    source = (
        f"Measured: it leaves the largest error at two thirds of its budget. Of {seeds} seeds the median needs "
        f"{spread.median:.3g}, the 95th percentile {spread.p95:.3g}, the largest {spread.largest:.3g} ({spread.case}). "
        f"`{command}`, {', '.join(days)}, at {', '.join(commits)}."
    )
    yield f"{indent}{proposal.place.rpartition('.')[2]}: # now {proposal.present:g}"
    yield f"{indent}  limit: {proposal.limit:g}"
    yield f"{indent}  source: >-"
    yield from textwrap.wrap(source, 116, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    ",
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip


def as_json(calibration: Calibration, accuracy: Accuracy, seeds: int, command: str) -> str:
    """Return everything for programs. A figure that is not finite is null."""
    document = {
        "command": command,
        "seeds": seeds,
        "facts": calibration.facts,
        "outcomes": calibration.outcomes,
        "false_alarms": [verdict.case.id for verdict in calibration.alarms],
        "canaries": {"injected": calibration.canaries[0], "caught": calibration.canaries[1]},
        "outputs": [_plain(row) for row in by_output(calibration.noises)],
        "proposed": [_plain(one) for one in proposed(calibration, accuracy)],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _plain(row: OutputNoise | Proposal) -> Any:
    return _finite(asdict(row))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
