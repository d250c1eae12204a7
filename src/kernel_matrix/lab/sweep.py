"""Version windows: an environment per published version, and how far each gets: resolve to probes and operator."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

from packaging.version import Version

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.base.paths import without_folders
from kernel_matrix.config.model import Matrix, Toolchain
from kernel_matrix.config.plan import Job, Plan, plan
from kernel_matrix.lab.probe import Probe, judge_all
from kernel_matrix.lab.probing import examine, last_exception, process, run_probes
from kernel_matrix.results.collect import collect
from kernel_matrix.results.compare import compare
from kernel_matrix.run import executors
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError, Interpreter, Request
from kernel_matrix.run.schedule import Settings, run
from kernel_matrix.run.supervise import death
from kernel_matrix.vendors.machine import Machine

# What a job itself imports, and compilers: these pins stay as they are in the toolchain's own lock while one package
# moves. Everything else is what the installer picks, for that is the question.
_COMPANIONS = re.compile(r"^(torch|numpy|pytest|ml_dtypes|nvidia-[\w-]+)\b")

_IMPORT = """
import importlib, importlib.metadata, sys
name = sys.argv[1]
modules = [m for m, owners in importlib.metadata.packages_distributions().items() if name in owners]
modules = [m for m in modules if m.isidentifier() and not m.startswith("_")]
preferred = [m for m in modules if m == name.replace("-", "_")] or sorted(modules)
importlib.import_module(preferred[0])
"""

STAGES = ("resolve", "install", "import", "probes", "op")


@dataclass(frozen=True)
class Row:
    """One version with its pins: the stage at which it stopped (none: it got through), and all that was seen."""

    version: str
    pins: Mapping[str, str]
    stopped: str = ""
    message: str = ""
    detail: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    lock: Sequence[str] = ()
    probes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    op: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """What is swept: a package, in the toolchain whose other pins stay, with probes and cases of one cell."""

    package: str
    root: Path
    build: Path
    matrix: Matrix
    machine: Machine
    toolchain: str | None
    probes: tuple[Probe, ...]
    case: str | None = None
    discard: bool = False
    say: Callable[[str], None] = print


def published(package: str) -> list[Version]:
    """The final versions that the configured index has for this Python and machine, oldest first.

    Raises:
        UserError: it has none, in the installer's words.
    """
    try:
        answer = json.loads(uv("tool", "run", "--quiet", "pip", "index", "versions", package, "--json").splitlines()[0])
    except (InstallError, ValueError, IndexError) as error:
        raise UserError(f"{package}: the index tells no versions of it.\n{error}") from None
    return sorted(version for text in answer["versions"] if not (version := Version(text)).is_prerelease)


def chosen(text: str, known: Sequence[Version]) -> list[Version]:
    """The versions that ``0.1.8..0.1.15``, ``0.1.8..`` or ``0.1.8,0.1.12`` names; a range holds both of its ends.

    Raises:
        UserError: one of them was not published, or none is left.
    """
    names = [str(version) for version in known]
    if ".." not in text:
        for part in text.split(","):
            if part not in names:
                raise UserError(f"--versions {text}: {part} is not published.{did_you_mean(part, names)}")
        return [Version(part) for part in text.split(",")]
    first, _, last = text.partition("..")
    try:
        low, high = Version(first or "0"), Version(last or "99999")
    except ValueError:
        raise UserError(f"--versions {text}: write it as 0.1.8..0.1.15, 0.1.8.. or 0.1.8,0.1.12.") from None
    inside = [version for version in known if low <= version <= high]
    if not inside:
        raise UserError(f"--versions {text}: no published version is in it. There are: {', '.join(names)}.")
    return inside


def toolchain_of(matrix: Matrix, root: Path, package: str) -> str | None:
    """The last toolchain of the matrix whose lock is made for this package."""
    found = None
    for name, toolchain in matrix.toolchains.items():
        source = (root / toolchain.lock).with_suffix(".in")
        if source.exists() and re.search(rf"^{re.escape(package)}==", source.read_text(encoding="utf-8"), re.MULTILINE):
            found = name
    return found


def sweep(
    subject: Subject,
    versions: Iterable[Version],
    pairs: Mapping[str, Sequence[str]],
    workers: int,
    done: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Try every version with every combination of the pins in ``pairs``; without any, with what is picked.

    ``done`` gets each row as it comes, one at a time.
    """
    combinations = [dict(zip(pairs, values, strict=True)) for values in product(*pairs.values())]
    work = [(str(version), pins) for version in versions for pins in combinations]
    lock = Lock()

    def one(version_and_pins: tuple[str, Mapping[str, str]]) -> Row:
        row = try_version(subject, *version_and_pins)
        with lock:
            done(row)
        return row

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, work))


def try_version(subject: Subject, version: str, pins: Mapping[str, str]) -> Row:
    """Resolve, install, import, probe and run one version, as far as it gets."""
    label = "-".join([subject.package, version, *(f"{name}-{value}" for name, value in pins.items())])
    folder = subject.build / "sweeps" / subject.package
    (folder / "envs").mkdir(parents=True, exist_ok=True)
    lock = folder / f"{label}.txt"
    subject.say(f"{label}: resolving")
    row: dict[str, Any] = {"version": version, "pins": dict(pins)}
    try:
        lock.write_text(_resolve(subject, version, pins, lock.with_suffix(".in")), encoding="utf-8")
    except InstallError as error:
        return _stopped(row, "resolve", _without_folders(str(error), subject))
    row["lock"] = [line for line in lock.read_text(encoding="utf-8").splitlines() if line and line.lstrip()[0] != "#"]
    toolchain = _toolchain(subject, lock)
    matrix = subject.matrix.model_copy(update={"toolchains": {label: toolchain}})
    job = Job("", label, ())  # of no platform: it runs no case
    request = Request(subject.root, folder, matrix, job, None, lambda text: subject.say(f"{label}: {text}"))
    try:
        with executors.load("venv") as prepare:
            interpreter = prepare(request)
    except InstallError as error:
        return _stopped(row, "install", _without_folders(str(error), subject))
    try:
        return _inside(subject, row, label, folder, toolchain, interpreter)
    finally:
        if subject.discard:
            for environment in (folder / "envs").glob(f"{lock.stem}-cpu-*"):
                shutil.rmtree(environment, ignore_errors=True)


def _inside(
    subject: Subject, row: dict[str, Any], label: str, folder: Path, toolchain: Toolchain, interpreter: Interpreter
) -> Row:
    """What is asked of an environment that could be made."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
        row["versions"] = dict(sorted(examine(interpreter, Path(scratch)).versions.items()))
        status, output, _ = process(interpreter, ["-c", _IMPORT, subject.package], {}, Path(scratch), seconds=180)
    subject.say(f"{label}: {'imports' if status == 0 else 'does not import'}")
    variables = subject.matrix.package.environment
    # Where the import fails all others fail alike, and say nothing more.
    probes = subject.probes if status == 0 else tuple(one for one in subject.probes if one.path.stem == "imports")
    records = run_probes(probes, label, interpreter, subject.machine, variables)
    row["probes"] = {
        one.probe.id: {
            "verdict": one.verdict,
            "outcome": one.record.outcome if one.record else "missing",
            "stage": one.record.stage if one.record else "",
            "reason": one.reason[:500],
        }
        for one in judge_all(probes, records, [label])
    }
    if status:
        said = _without_folders(output, subject)
        message = last_exception(said) or death(status or 0, "import")
        return Row(**row, stopped="import", message=message, detail=said[-3000:])
    if subject.case:
        row["op"] = _op(subject, label, folder, toolchain)
        subject.say(f"{label}: {subject.case}: {row['op']['state']}")
    row.update(_standing({"op": {}, **row}))
    return Row(**row)


def _op(subject: Subject, label: str, folder: Path, toolchain: Toolchain) -> dict[str, str]:
    """Run the chosen case or cell through the ordinary job machinery, in this environment."""
    assert subject.toolchain
    matrix = subject.matrix.model_copy(
        update={"toolchains": {**subject.matrix.toolchains, subject.toolchain: toolchain}}
    )
    planned = plan(matrix, "full")
    jobs = tuple(
        replace(job, cases=cases)
        for job in planned.jobs
        if (cases := tuple(case for case in job.cases if subject.case in (case.id, case.cell.id)))
    )
    if not jobs:
        raise UserError(f"--case {subject.case}: the full plan has no such case or cell.")
    build = folder / "rows" / label
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    (build / "envs").symlink_to(folder / "envs")
    files = run(matrix, jobs, subject.machine, Settings(subject.root, build, "venv"), _Silent())
    comparison = compare(Plan(planned.package, planned.tier, jobs), collect(files).records)
    cell = comparison.cells[0]
    worst = next(verdict for verdict in cell.cases if verdict.state == cell.state)
    counts = ", ".join(f"{count} {state}" for state, count in cell.counts.items())
    stage = worst.record.stage if worst.record else ""
    reason = worst.reason.splitlines()[0][:500] if worst.reason else ""
    return {"case": str(subject.case), "state": cell.state, "evidence": cell.evidence, "cases": counts,
            "stage": stage, "reason": reason}  # fmt: skip


def _resolve(subject: Subject, version: str, pins: Mapping[str, str], source: Path) -> str:
    """A lock for this version: the toolchain's companions, the pins, and for the rest what the installer picks."""
    lines = [f"{subject.package}=={version}", *(f"{name}=={value}" for name, value in pins.items())]
    if subject.toolchain:
        own = (subject.root / subject.matrix.toolchains[subject.toolchain].lock).with_suffix(".in")
        lines += [
            line
            for line in own.read_text(encoding="utf-8").splitlines()
            if _COMPANIONS.match(line) and line.partition("==")[0] not in (subject.package, *pins)
        ]
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = source.with_suffix(".resolved")
    uv("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-emit-find-links", "--no-emit-index-url",
       "--output-file", str(text), str(source))  # fmt: skip
    return text.read_text(encoding="utf-8").replace("+cpu", "")


def _toolchain(subject: Subject, lock: Path) -> Toolchain:
    if subject.toolchain:
        return subject.matrix.toolchains[subject.toolchain].model_copy(update={"lock": str(lock)})
    return Toolchain(backend="none", lock=str(lock), requires=[])


def _stopped(row: dict[str, Any], stage: str, text: str) -> Row:
    lines = [line.strip(" ×╰─▶") for line in text.splitlines() if line.strip() and not line.startswith("$ ")]
    said = next((line for line in lines if line.startswith("cause: ")), lines[0] if lines else stage)
    return Row(**row, stopped=stage, message=said.removeprefix("cause: ")[:500], detail=text)


def _without_folders(text: str, subject: Subject) -> str:
    return without_folders(text, {str(subject.build): "build", str(subject.root): "."}, packages=True)


def document(subject: Subject, rows: Sequence[Row]) -> dict[str, Any]:
    """The sweep as plain data, for a file and for the dashboard."""
    return {
        "schema_version": 1,
        "package": subject.package,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": [device.name for device in subject.machine.devices],
        "case": subject.case,
        "probes": [probe.id for probe in subject.probes],
        "rows": [{**asdict(row), "pins": dict(row.pins), "lock": list(row.lock)} for row in rows],
    }


def added(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A kept sweep with what a new one tells: rows of other versions stay, and so does what was not asked again."""
    if kept.get("package") != new["package"]:
        return new
    rows = {(row["version"], json.dumps(row["pins"])): row for row in kept["rows"]}
    for row in new["rows"]:
        key = (row["version"], json.dumps(row["pins"]))
        old = rows.get(key)
        if old and row["stopped"] in ("", "probes", "op") and old["lock"] == row["lock"]:
            # The same environment, asked something more.
            row = {**old, "probes": {**old["probes"], **row["probes"]}, "op": row["op"] or old["op"]}
            row |= _standing(row)
        rows[key] = row
    ordered = sorted(rows.values(), key=lambda row: (Version(row["version"]), json.dumps(row["pins"])))
    asked = list(dict.fromkeys([*kept["probes"], *new["probes"]]))
    return {**new, "case": new["case"] or kept["case"], "probes": asked, "rows": ordered}


def _standing(row: Mapping[str, Any]) -> dict[str, str]:
    """Where a row stands by what is in it."""
    changed = [name for name, one in row["probes"].items() if one["verdict"] == "changed"]
    if changed:
        return {"stopped": "probes", "message": f"changed: {', '.join(changed)}"}
    if row["op"] and row["op"]["state"] in ("fail", "error", "missing"):
        return {"stopped": "op", "message": row["op"]["reason"]}
    return {"stopped": "", "message": ""}


class _Silent:
    """Progress that the sweep says in its own words."""

    def job(self, job: str, text: str) -> None:
        """Nothing."""

    def case(self, job: str, outcome: str) -> None:
        """Nothing."""
