"""Records of probes -> verdicts: each result is compared with what is expected of its versions. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_matrix.diagnosis import Rule, diagnose, in_words
from kernel_matrix.probes.probe import Probe, Window
from kernel_matrix.report.toolchains import Verdict
from kernel_matrix.store.record import PROBE, Record, is_probe_record, versions_of

VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Judged:
    """A probe in one environment: the verdict, and a sentence that says why."""

    probe: Probe
    toolchain: str
    verdict: Verdict
    reason: str
    record: Record | None


def record_id(toolchain: str, probe: Probe) -> str:
    """Return the id that a probe's record has in JUnit XML."""
    return f"{PROBE}{toolchain}/{probe.id}"


def judge(probe: Probe, toolchain: str, record: Record | None) -> Judged:
    """Return the verdict on the result of a probe."""
    if record is None:
        return Judged(probe, toolchain, "missing", "no result came", None)
    if record.outcome in ("unavailable", "missing"):
        return Judged(probe, toolchain, record.outcome, record.message, record)
    verdict, reason = _compare(probe.expected(versions_of(record.job)), record)
    return Judged(probe, toolchain, verdict, reason, record)


def _compare(window: Window | None, record: Record) -> tuple[Verdict, str]:
    error = record.message.splitlines()[0] if record.message else record.stage
    if record.outcome == "pass":
        if window and window.verdict == "fails":
            return "changed", f"it works, and these versions were known to fail with {window.match!r}"
        return "works", ""
    if window is None or window.verdict == "works":
        return "changed", f"it fails, and these versions are not known to: {error}"
    if re.search(window.match, record.text):
        return "known", error
    return "changed", f"it fails, and not with {window.match!r} as known: {error}"


def judge_all(probes: Sequence[Probe], records: Sequence[Record], toolchains: Sequence[str]) -> tuple[Judged, ...]:
    """Return the verdict on every probe in every environment that has a record of one.

    An environment of ``toolchains`` has a missing result for each probe that makes sense in it and left none. A probe
    need not be asked twice where two environments have the same versions of what it asks about.
    """
    judged: list[Judged] = []
    # Of several machines' records the one that tried decides, so that "unavailable" counts only when all say so.
    by_id: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: record.outcome in ("unavailable", "missing"), reverse=True):
        by_id[record.case] = record
    versions: dict[str, Mapping[str, str]] = {}  # of each environment that has a record
    for case, record in by_id.items():
        if is_probe_record(record):
            versions.setdefault(case.split("/")[1], versions_of(record.job))
    of_probe = {probe.id: {name: by_id.get(record_id(name, probe)) for name in versions} for probe in probes}
    for toolchain in dict.fromkeys([*toolchains, *versions]):
        for probe in probes if toolchain in versions else ():
            results, here = of_probe[probe.id], versions[toolchain]
            asked = [probe.asked_about(versions[name]) for name, result in results.items() if result]
            missing = probe.makes_sense_with(here) and probe.asked_about(here) not in asked
            if results[toolchain] or missing:
                judged.append(judge(probe, toolchain, results[toolchain]))
    return tuple(judged)


def described(toolchain: str, judged: Sequence[Judged], rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield a line for each probe, the cause of each failure that was not expected, and the counts."""
    for result in judged:
        reason = f": {result.reason[:200]}" if result.reason else ""
        yield f"{toolchain}  {result.verdict:<11} {result.probe.id}{reason}"
        if result.verdict == "changed" and result.record and result.record.outcome != "pass":
            text = result.record.text
            yield f"  {in_words(diagnose(text, result.record.stage, result.record.job, rules), text)}"
    counts = Counter(result.verdict for result in judged)
    yield f"{toolchain}: {len(judged)} probes: {', '.join(f'{counts[v]} {v}' for v in VERDICTS if counts[v])}"
