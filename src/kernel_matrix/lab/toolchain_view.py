"""Probe records and kept sweeps -> what the dashboard's toolchain view shows, as plain data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import NOT_KNOWN, Diagnosis, diagnose
from kernel_matrix.lab.probe import VERDICTS, Judged, Probe, is_probe_record, judge_all, load_probes
from kernel_matrix.report.toolchains import (
    Attempt,
    Family,
    Grid,
    Pair,
    ProbeEntry,
    ProbeVerdict,
    Question,
    Sweep,
    ToolchainView,
)
from kernel_matrix.results.record import Record


def toolchain_view(matrix: Matrix, root: Path, records: Sequence[Record]) -> ToolchainView:
    """Every probe in every environment of the matrix, and the version windows that were kept."""
    if matrix.package.probes is None:
        return ToolchainView()
    probes = load_probes(root / matrix.package.probes)
    expected = list(dict.fromkeys(Path(toolchain.lock).stem for toolchain in matrix.toolchains.values()))
    judged = judge_all(probes, [record for record in records if is_probe_record(record)], expected)
    folder = root / matrix.package.sweeps if matrix.package.sweeps else None
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stem) if folder else []
    return ToolchainView(
        headline=_headline(judged, expected),
        changed=tuple(f"{one.toolchain}: {one.probe.id}" for one in judged if one.verdict == "changed"),
        families=_families(probes, judged),
        sweeps=tuple(_sweep(path, probes) for path in kept),
    )


def _headline(judged: Sequence[Judged], expected: Sequence[str]) -> str:
    counted = Counter(one.verdict for one in judged)
    words = {"works": "work", "known": "fail as known", "changed": "changed", "unavailable": "lack what they need",
             "missing": "have no result"}  # fmt: skip
    said = ", ".join(f"{counted[verdict]} {words[verdict]}" for verdict in reversed(VERDICTS) if counted[verdict])
    absent = [name for name in expected if name not in {one.toolchain for one in judged}]
    text = f"Of {len(judged)} probes in toolchains {said}." if judged else "No probe was run."
    return f"{text} Not probed: {', '.join(absent)}." if absent else text


def _families(probes: Sequence[Probe], judged: Sequence[Judged]) -> tuple[Family, ...]:
    """The probes by family, with their verdict in each environment that has the family's package."""
    families: dict[str, list[Probe]] = {}
    for probe in probes:
        families.setdefault(probe.path.parent.name, []).append(probe)
    by_probe: dict[str, dict[str, ProbeVerdict]] = {}
    for one in judged:
        by_probe.setdefault(one.probe.id, {})[one.toolchain] = _verdict(one)
    made = []
    for family, members in families.items():
        seen = dict.fromkeys(name for probe in members for name in by_probe.get(probe.id, {}))
        if not seen:  # none of these was run, and the headline says which environments were not
            continue
        entries = tuple(_entry(probe, by_probe.get(probe.id, {})) for probe in members)
        made.append(Family(name=family, toolchains=tuple(seen), probes=entries))
    return tuple(made)


def _entry(probe: Probe, verdicts: dict[str, ProbeVerdict]) -> ProbeEntry:
    return ProbeEntry(
        id=probe.id,
        asks=probe.asks,
        means=probe.means,
        met=probe.met,
        truth=probe.truth,
        link=probe.link,
        needs=tuple(probe.needs),
        verdicts=verdicts,
    )


def _verdict(one: Judged) -> ProbeVerdict:
    failed = one.record if one.record and one.record.outcome in ("fail", "error") else None
    return ProbeVerdict(
        verdict=one.verdict,
        reason=one.reason,
        error=failed.message if failed else "",
        diagnosis=_diagnosis(failed) if failed else None,
    )


def _diagnosis(record: Record) -> Diagnosis:
    found = diagnose(f"{record.message}\n{record.detail}", record.stage, record.job)
    return found or Diagnosis("", NOT_KNOWN, "", "")


def _sweep(path: Path, probes: Sequence[Probe]) -> Sweep:
    """A kept sweep, with the cause beside every row that stopped.

    Raises:
        UserError: the file is not one.
    """
    try:
        sweep: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(_row(row) for row in sorted(sweep["rows"], key=_by_versions))
        grid = _grid(sweep["rows"])
        names = {probe.id: probe.asks for probe in probes}
        asked = list(dict.fromkeys(name for row in rows for name in row.probes))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the result of a sweep ({error!r}). Make it anew: kernel-matrix sweep") from None
    return Sweep(
        title=path.stem,
        package=sweep["package"],
        created=sweep["created"],
        case=sweep["case"] or "",
        rows=rows,
        grid=grid,
        probes=tuple(Question(id=name, asks=names.get(name, name)) for name in asked),
    )


def _by_versions(row: Mapping[str, Any]) -> tuple[Version, bool, list[Version]]:
    """Oldest first; of one version the pairs, and then what is picked without a pin."""
    return Version(row["version"]), not row["pins"], [Version(value) for value in row["pins"].values()]


def _grid(rows: Sequence[Mapping[str, Any]]) -> Grid | None:
    """How far each version gets beside each of another package; None where no version was tried beside several."""
    paired = [row for row in rows if len(row["pins"]) == 1]
    cells: dict[str, dict[str, Pair]] = {}
    for row in sorted(paired, key=_by_versions):
        [beside] = row["pins"].values()
        failed = [f"{name}: {one['reason']}" for name, one in row["probes"].items() if one["outcome"] != "pass"]
        state = row["stopped"] if row["stopped"] in ("resolve", "install", "import") else "fails" if failed else "works"
        cells.setdefault(row["version"], {})[beside] = Pair(state=state, reason=row["message"] or "; ".join(failed))
    names = {name for row in paired for name in row["pins"]}
    if len(names) != 1 or not any(len(of_version) > 1 for of_version in cells.values()):
        return None
    columns = sorted({value for of_version in cells.values() for value in of_version}, key=Version)
    return Grid(beside=names.pop(), columns=tuple(columns), cells=cells)


def _row(row: Mapping[str, Any]) -> Attempt:
    found = None
    if row["stopped"] in ("resolve", "install", "import", "op"):
        stage = {"resolve": "install", "op": (row["op"] or {}).get("stage", "")}.get(row["stopped"], row["stopped"])
        job = {f"version.{name}": version for name, version in row["versions"].items()}
        found = diagnose(f"{row['message']}\n{row['detail']}", stage, job)
    counted = Counter(one["verdict"] for one in row["probes"].values())
    pins = " + ".join(f"{name} {version}" for name, version in row["pins"].items())
    picked = row["versions"].get("apache-tvm-ffi", "")
    return Attempt(
        version=row["version"],
        pins=pins,
        picked=f"apache-tvm-ffi {picked}" if picked and not pins else "",
        stopped=row["stopped"],
        message=row["message"],
        cause=found.cause if found else "",
        remedy=found.remedy if found else "",
        lock=row["lock"],
        counts={verdict: counted[verdict] for verdict in reversed(VERDICTS) if counted[verdict]},
        probes=row["probes"],
        op=row["op"] or {},
    )
