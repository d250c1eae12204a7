"""Records of probes and kept sweeps -> the report's part about toolchains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from kernel_matrix.diagnosis import Diagnosis, Error, diagnose_all, not_known
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.attempts import Attempt, Sweep, kept_sweeps, name_of, read
from kernel_matrix.probes.changes import changes, warnings
from kernel_matrix.probes.distributions import picked
from kernel_matrix.probes.expected import VERDICTS, Judged, judge_all
from kernel_matrix.probes.probe import Probe, load_probes
from kernel_matrix.probes.probe_toolchains import environments
from kernel_matrix.report.toolchains import (
    Asked,
    Cause,
    Family,
    Grid,
    Pair,
    ProbeLine,
    ProbeVerdict,
    SweepView,
    SweptVersion,
    Toolchains,
)
from kernel_matrix.store.record import Record, is_probe_record, versions_of

_IN_WORDS = {"works": "work", "known": "fail as known", "changed": "changed", "unavailable": "lack what they need",
             "missing": "have no result"}  # fmt: skip
_Causes = Mapping[Error, Diagnosis | None]


def toolchain_view(project: Project, records: Sequence[Record]) -> Toolchains:
    """Return the verdict of every probe in every environment of the matrix, and the kept sweeps.

    Raises:
        UserError: a probe's header or a kept sweep cannot be used.
    """
    package = project.matrix.package
    if package.probes is None:
        return Toolchains()
    probes = load_probes(project.root / package.probes)
    expected = list(environments(project.matrix))
    judged = judge_all(probes, [record for record in records if is_probe_record(record)], expected)
    sweeps = {path: read(path) for path in _files(project)}
    attempts = (attempt for sweep in sweeps.values() for attempt in sweep.attempts)
    errors = [error for error in (*map(_error, judged), *(attempt.error for attempt in attempts)) if error]
    found = diagnose_all(errors, project.rules) if errors else []  # all at once: each takes long
    causes = dict(zip(errors, found, strict=True))
    return Toolchains(
        headline=_headline(judged, expected),
        changed=tuple(f"{one.toolchain}: {one.probe.id}" for one in judged if one.verdict == "changed"),
        families=tuple(_families(probes, judged, causes)),
        warnings=warnings(project.matrix, project.root, [*sweeps.values()]),
        sweeps=tuple(_sweep(project, path, sweep, probes, causes) for path, sweep in sweeps.items()),
    )


def _files(project: Project) -> list[Path]:
    """Return the files of this machine's sweeps, and those that the package keeps and that were not made anew."""
    folder = project.matrix.package.sweeps
    files = [*kept_sweeps(project.root / folder if folder else None), *kept_sweeps(project.build / "sweeps")]
    return [*{name_of(path): path for path in files}.values()]


def _headline(judged: Sequence[Judged], expected: Sequence[str]) -> str:
    counts = Counter(one.verdict for one in judged)
    parts = ", ".join(f"{counts[verdict]} {_IN_WORDS[verdict]}" for verdict in reversed(VERDICTS) if counts[verdict])
    absent = [name for name in expected if name not in {one.toolchain for one in judged}]
    text = f"Of {len(judged)} probes in toolchains {parts}." if judged else "No probe was run."
    return f"{text} Not probed: {', '.join(absent)}." if absent else text


def _families(probes: Sequence[Probe], judged: Sequence[Judged], causes: _Causes) -> list[Family]:
    """Return the probes by family, each with its verdicts; without the families that ran no probe."""
    verdicts: dict[str, dict[str, ProbeVerdict]] = {}
    for one in judged:
        verdicts.setdefault(one.probe.id, {})[one.toolchain] = _verdict(one, causes)
    members: dict[str, list[Probe]] = {}
    for probe in probes:
        members.setdefault(probe.family, []).append(probe)
    families = []
    for name, family in members.items():
        toolchains = dict.fromkeys(toolchain for probe in family for toolchain in verdicts.get(probe.id, {}))
        if toolchains:
            lines = tuple(_line(probe, verdicts.get(probe.id, {})) for probe in family)
            families.append(Family(name=name, toolchains=tuple(toolchains), probes=lines))
    return families


def _line(probe: Probe, verdicts: dict[str, ProbeVerdict]) -> ProbeLine:
    return ProbeLine(
        id=probe.id,
        asks=probe.asks,
        means=probe.means,
        met=probe.met,
        truth=probe.truth,
        link=probe.link,
        needs=tuple(probe.needs),
        verdicts=verdicts,
    )


def _error(one: Judged) -> Error | None:
    """Return the error of a probe; None if it has none."""
    record = one.record
    if record is None or record.outcome not in ("fail", "error"):
        return None
    return record.text, record.stage, tuple(sorted(versions_of(record.job).items()))


def _verdict(one: Judged, causes: _Causes) -> ProbeVerdict:
    if not (error := _error(one)) or not one.record:
        return ProbeVerdict(verdict=one.verdict, reason=one.reason, error="", diagnosis=Cause())
    if diagnosis := causes[error]:
        cause = Cause(rule=diagnosis.rule, cause=diagnosis.cause, remedy=diagnosis.remedy)
    else:
        cause = Cause(cause=not_known(error[:1])[0])
    return ProbeVerdict(verdict=one.verdict, reason=one.reason, error=one.record.message, diagnosis=cause)


def _sweep(project: Project, path: Path, sweep: Sweep, probes: Sequence[Probe], causes: _Causes) -> SweepView:
    attempts = sorted(sweep.attempts, key=_by_versions)
    questions = {probe.id: probe.asks for probe in probes}
    asked = dict.fromkeys(name for attempt in attempts for name in attempt.probes)
    return SweepView(
        title=name_of(path),
        package=sweep.package,
        created=sweep.created,
        case=sweep.case or "",
        attempts=tuple(_version(project, sweep.package, attempt, causes) for attempt in attempts),
        changes=changes(attempts),
        grid=_grid(attempts),
        probes=tuple(Asked(id=name, asks=questions.get(name, name)) for name in asked),
    )


def _by_versions(attempt: Attempt) -> tuple[Version, bool, list[Version]]:
    """Return the place of an attempt: oldest first; of one version the pairs, and then what is picked without a pin."""
    return Version(attempt.version), not attempt.pins, [Version(version) for version in attempt.pins.values()]


def _version(project: Project, package: str, attempt: Attempt, causes: _Causes) -> SweptVersion:
    diagnosis = causes[attempt.error] if attempt.error else None
    counts = Counter(probe.verdict for probe in attempt.probes.values())
    of_interest = {} if attempt.pins else picked(project.matrix, package, attempt.pins, attempt.versions)
    return SweptVersion(
        version=attempt.version,
        pins=attempt.pinned,
        picked=", ".join(f"{name} {version}" for name, version in of_interest.items()),
        stopped=attempt.stopped,
        message=attempt.message,
        cause=diagnosis.cause if diagnosis else "",
        remedy=diagnosis.remedy if diagnosis else "",
        lock=attempt.lock,
        counts={verdict: counts[verdict] for verdict in reversed(VERDICTS) if counts[verdict]},
        probes=attempt.probes,
        cases=attempt.cases,
    )


def _grid(attempts: Sequence[Attempt]) -> Grid | None:
    """Return how far each version gets with each of another package; None without such pairs."""
    paired = [attempt for attempt in attempts if len(attempt.pins) == 1]
    cells: dict[str, dict[str, Pair]] = {}
    for attempt in paired:
        [beside] = attempt.pins.values()
        failed = [f"{name}: {probe.reason}" for name, probe in attempt.probes.items() if probe.outcome != "pass"]
        state = "fails" if failed else "works"
        pair = Pair(state=state if attempt.imports else attempt.stopped, reason=attempt.message or "; ".join(failed))
        cells.setdefault(attempt.version, {})[beside] = pair
    names = {name for attempt in paired for name in attempt.pins}
    if len(names) != 1 or not any(len(of_version) > 1 for of_version in cells.values()):
        return None
    columns = sorted({beside for of_version in cells.values() for beside in of_version}, key=Version)
    return Grid(beside=names.pop(), columns=tuple(columns), cells=cells)
