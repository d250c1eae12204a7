"""A failure as a report that a toolchain's maintainer can use: reduced, repeatable, with versions and since when."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from kernel_matrix.config.model import Matrix, Op, Scalar
from kernel_matrix.config.plan import Case, Job, plan
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.lab.probe import Judged
from kernel_matrix.results import junit
from kernel_matrix.results.record import Record, versions_of
from kernel_matrix.run.schedule import Settings, run
from kernel_matrix.vendors.machine import Machine

Axes = Mapping[str, Scalar]
# Which of several axes still fail alike: all are asked at once, so that they share a process.
StillFail = Callable[[Sequence[Axes]], Sequence[bool]]

_NOT_A_SHAPE = ("scale", "seed", "dtype")
_ROUNDS = 3


def reduce(axes: Axes, still_fail: StillFail) -> tuple[dict[str, Scalar], list[str]]:
    """The smallest shape and the plainest dtype that still fail, and what was tried on the way.

    One axis at a time takes its smallest value that fails, until no axis moves any more.
    """
    best, tried = dict(axes), list[str]()
    for _ in range(_ROUNDS):
        before = dict(best)
        for axis in axes:
            candidates = [{**best, axis: value} for value in _simpler(axis, best[axis])]
            if not candidates:
                continue
            failing = still_fail(candidates)
            for candidate, fails in zip(candidates, failing, strict=True):
                tried.append(f"{axis} {candidate[axis]}: {'fails too' if fails else 'does not fail so'}")
            best = next((dict(c) for c, fails in zip(candidates, failing, strict=True) if fails), best)
        if best == before:
            break
    return best, list(dict.fromkeys(tried))


def _simpler(axis: str, value: Scalar) -> list[Scalar]:
    """Simpler values of an axis, the simplest first."""
    if axis == "dtype":
        return ["fp32"] if value != "fp32" else []
    if axis in _NOT_A_SHAPE or isinstance(value, (bool, str, float)):
        return []
    return [small for small in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256) if small < value]


def same_failure(one: Record, other: Record) -> bool:
    """Whether two records fail alike: outcome, stage and the message but for its numbers."""
    if (one.outcome, one.stage) != (other.outcome, other.stage):
        return False
    return one.outcome == "fail" or _shape_of(one.message) == _shape_of(other.message)


def _shape_of(message: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", message.partition("\n")[0])


@dataclass(frozen=True)
class Rerun:
    """Runs cases with other axes through the ordinary job machinery, in the environment of the case that failed."""

    matrix: Matrix
    root: Path
    build: Path
    machine: Machine
    case: Case
    executor: str = "venv"

    def __call__(self, several: Sequence[Axes]) -> list[Record]:
        """The records of the case with each of these axes, in their order."""
        cell = self.case.cell
        op = Op(
            directions=[cell.direction], axes=list(self.case.axes), cases={"quick": [dict(axes) for axes in several]}
        )
        matrix = self.matrix.model_copy(update={"ops": {cell.op: op}, "exclusions": [], "expectations": []})
        planned = plan(matrix, "quick")
        jobs = [
            Job(job.platform, job.toolchain, tuple(case for case in job.cases if case.cell.target == cell.target))
            for job in planned.jobs
            if (job.platform, job.toolchain) == (cell.platform, cell.toolchain)
        ]
        folder = self.build / "reduced"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "envs").exists():
            (self.build / "envs").mkdir(exist_ok=True)
            (folder / "envs").symlink_to(self.build / "envs")
        [path] = run(matrix, jobs, self.machine, Settings(self.root, folder, self.executor), _Silent())
        return junit.read(path)


def reduce_case(rerun: Rerun, failed: Record) -> tuple[Record, dict[str, Scalar], list[str], str]:
    """The reduced failure: its record, its axes, what was tried, and the job's specification.

    The case is run once as it is first; when it does not fail so here, it is left as it was recorded.
    """
    [again] = rerun([rerun.case.axes])
    if not same_failure(again, failed):
        return failed, dict(rerun.case.axes), ["run again here it did not fail so, and was not reduced"], ""
    records: dict[str, Record] = {}

    def still_fail(several: Sequence[Axes]) -> list[bool]:
        answers = rerun(several)
        records.update({json.dumps(dict(axes)): record for axes, record in zip(several, answers, strict=True)})
        return [same_failure(record, failed) for record in answers]

    axes, tried = reduce(rerun.case.axes, still_fail)
    [record] = rerun([axes])
    folder = rerun.build / "reduced" / "jobs" / f"{rerun.case.cell.platform}.{rerun.case.cell.toolchain}"
    specification = (folder / "job.json").read_text(encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    return record, axes, tried, specification


def report_probe(judged: Judged, since: str, platform: str) -> str:
    """The report on a probe that fails."""
    probe, record = judged.probe, judged.record
    assert record is not None
    program = re.sub(r"^# /// probe\n(?:#.*\n)+?# ///\n", "", probe.path.read_text(encoding="utf-8"))
    return _markdown(
        title=f"{probe.path.parent.name}: {_headline(record)}",
        what=probe.asks + " It does not.",
        program=f"```python\n{program.strip()}\n```",
        record=record,
        expected=probe.means,
        since=since,
        tried=[f"What we take it to be: {probe.truth}"],
        platform=platform,
    )


def report_case(case: Case, record: Record, axes: Axes, tried: Sequence[str], specification: str, suite: str) -> str:
    """The report on a case that fails, reduced."""
    words = ", ".join(f"{name} {value}" for name, value in axes.items())
    command = f"python -m pytest -p kernel_matrix.job.plugin --job job.json {suite}"
    program = (
        f"`{command}`, with this as job.json:\n\n```json\n{specification}\n```" if specification else "Not reduced."
    )
    return _markdown(
        title=f"{case.cell.backend}: {case.cell.op} {case.cell.direction} on {case.cell.target}: {_headline(record)}",
        what=f"{case.cell.op} ({case.cell.direction}) with {words}; first met as `{case.id}`.",
        program=program,
        record=record,
        expected="Every number inside its error budget, compared with a float64 golden.",
        since="not bisected: kernel-matrix bisect PACKAGE --good V --bad V --case CELL",
        tried=tried,
        platform=f"{case.cell.platform}, {case.cell.target}, {record.job.get('device', '')}",
    )


def since_when(probe: str, sweeps: Sequence[Path]) -> str:
    """What the kept sweeps tell of the versions in which the probe fails and works."""
    for path in sweeps:
        sweep = json.loads(path.read_text(encoding="utf-8"))
        seen = {
            row["version"]: "works" if row["probes"][probe]["outcome"] == "pass" else "fails"
            for row in sorted(sweep["rows"], key=lambda row: Version(row["version"]))
            if probe in row["probes"] and not row["pins"] and row["probes"][probe]["outcome"] in ("pass", "error")
        }
        if seen:
            return f"{sweep['package']}: " + ", ".join(f"{version} {outcome}" for version, outcome in seen.items())
    return "not swept: kernel-matrix sweep PACKAGE --versions 0.. --probe " + probe


def _markdown(
    *,
    title: str,
    what: str,
    program: str,
    record: Record,
    expected: str,
    since: str,
    tried: Sequence[str],
    platform: str,
) -> str:
    output = record.detail or record.message
    versions = "\n".join(f"- {name} {version}" for name, version in sorted(versions_of(record.job).items())
                         if name.lower() in _TOLD)  # fmt: skip
    found = diagnose(f"{record.message}\n{record.detail}", record.stage, record.job)
    notes = [*tried, *([f"Known here as: {found.cause} Done about it: {found.remedy}"] if found else [])]
    return "\n".join(
        [
            f"# {title}", "", what, "",
            "## To repeat it", "", program, "",
            "## What comes out", "", f"```\n{output.strip()[-6000:] or record.message}\n```", "",
            "## What should", "", expected, "",
            "## Versions", "", f"- Python {record.job.get('python', '')}", versions, f"- platform: {platform}", "",
            "## Since when", "", since, "",
            "## What was tried", "", *(f"- {note}" for note in notes or ["nothing yet"]), "",
        ]
    )  # fmt: skip


_TOLD = {"torch", "triton", "tilelang", "apache-tvm", "apache-tvm-ffi", "numpy", "ml_dtypes", "z3-solver",
         "nvidia-cuda-nvcc"}  # fmt: skip


def _headline(record: Record) -> str:
    lines = [line for line in record.message.splitlines() if line.strip()]
    return (lines[-1] if len(lines) > 1 and len(lines[0]) < 8 else lines[0] if lines else record.stage)[:120]


class _Silent:
    """Progress that nobody watches."""

    def job(self, job: str, text: str) -> None:
        """Nothing."""

    def case(self, job: str, outcome: str) -> None:
        """Nothing."""
