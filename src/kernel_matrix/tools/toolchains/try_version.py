"""Try one version of a package in an environment of its own: resolve, install, import, probe, and run cases."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from packaging.utils import canonicalize_name

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.selection import Selection
from kernel_matrix.doctor.environment import examine, process
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.attempts import Attempt, Stage
from kernel_matrix.probes.changes import FIGURES
from kernel_matrix.probes.distributions import by_name
from kernel_matrix.probes.expected import judge_all
from kernel_matrix.probes.probe_toolchains import interpreter_of
from kernel_matrix.probes.probing import last_exception, run_probes
from kernel_matrix.report.toolchains import SweptCase, SweptProbe
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.noise import ratios
from kernel_matrix.results.states import Verdict
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError, Interpreter
from kernel_matrix.run.settings import Settings
from kernel_matrix.run.supervise import death
from kernel_matrix.store.record import Sample, versions_of
from kernel_matrix.tools.toolchains.subject import Subject

# Run in the environment: it imports the module of a distribution, whose name may be written in several ways.
IMPORT = """
import importlib, importlib.metadata, re, sys
def canonical(name): return re.sub("[-_.]+", "-", name).lower()
name = canonical(sys.argv[1])
owners = importlib.metadata.packages_distributions()
modules = sorted(module for module in owners if name in map(canonical, owners[module]))
modules = [module for module in modules if module.isidentifier() and not module.startswith("_")]
if not modules:
    raise ModuleNotFoundError(f"the distribution {sys.argv[1]} brings no module that could be imported")
importlib.import_module(next((module for module in modules if canonical(module) == name), modules[0]))
"""


class Silent:
    """Progress that nobody watches."""

    def job(self, job: str, text: str) -> None:
        """Do nothing."""

    def case(self, job: str, outcome: str) -> None:
        """Do nothing."""


def try_version(subject: Subject, version: str, pins: Mapping[str, str]) -> Attempt:
    """Resolve, install, import, probe and run one version, as far as it gets."""
    label = "-".join([subject.package, version, *(f"{name}-{value}" for name, value in pins.items())])
    (subject.folder / "envs").mkdir(parents=True, exist_ok=True)
    lock = subject.folder / f"{label}.txt"
    attempt = Attempt(version=version, pins=dict(pins))
    subject.say(f"{label}: resolving")
    try:
        lock.write_text(_resolve(subject, version, pins, lock.with_suffix(".in")), encoding="utf-8")
    except InstallError as error:
        return _stopped(attempt, "resolve", subject.portable(str(error)))
    lines = lock.read_text(encoding="utf-8").splitlines()
    attempt = attempt.model_copy(update={"lock": tuple(line for line in lines if line and line.lstrip()[0] != "#")})
    toolchain = subject.toolchain_with(lock)
    matrix = subject.project.matrix.model_copy(update={"toolchains": {label: toolchain}})
    project = Project(matrix, subject.project.root, subject.folder)
    try:
        with interpreter_of(project, label, "venv", lambda text: subject.say(f"{label}: {text}")) as interpreter:
            return _try_environment(subject, attempt, label, lock, interpreter)
    except InstallError as error:
        return _stopped(attempt, "install", subject.portable(str(error)))
    finally:
        if subject.discard:
            for environment in (subject.folder / "envs").glob(f"{lock.stem}-[cg]pu-*"):
                shutil.rmtree(environment, ignore_errors=True)


def of_results(subject: Subject, folder: Path) -> tuple[Attempt, list[str]]:
    """Return the results of a folder as an attempt of the version that they say, and the devices that they ran on.

    Raises:
        UserError: they are of no version, or of several.
    """
    assert subject.toolchain
    selected = pipeline.select(subject.project, Selection(toolchains=(subject.toolchain,), cases=subject.cases))
    with judging.judged(subject.project, selected.part, [folder]) as judged:
        cases, records = _cases_of(judged), [one.record for one in judged.verdicts() if one.record]
    found = [versions_of(record.job) for record in records]
    numbers = {by_name(versions).get(canonicalize_name(subject.package), "none") for versions in found}
    if len(numbers) != 1 or "none" in numbers:
        named = ", ".join(sorted(numbers)) or "none"
        raise UserError(
            f"{folder}: the results of {subject.toolchain} must be of one version of {subject.package}: {named}."
        )
    versions = found[0]
    lock = tuple(f"{name}=={version}" for name, version in sorted(versions.items()))
    tried = {one.case: cases[one.case] for one in records if one.case in cases}
    devices = sorted({one.job["device"] for one in records if one.job.get("device")})
    return Attempt(version=numbers.pop(), versions=versions, lock=lock, cases=tried).with_stop(), devices


def _resolve(subject: Subject, version: str, pins: Mapping[str, str], source: Path) -> str:
    """Return a lock of this version, the pins, and the companions; the rest is what the installer picks.

    It leaves a version that the file to be written has already, unless another version is needed. Where versions are an
    axis, all that the toolchain's locks ask for stays if it can.
    """
    with suppress(InstallError):
        if subject.is_axis:
            return _compiled(subject, {**subject.asked([*pins]), subject.package: version, **pins}, pins, source)
    return _compiled(subject, {subject.package: version, **pins, **subject.companions([*pins])}, pins, source)


def _compiled(subject: Subject, wanted: Mapping[str, str], pins: Mapping[str, str], source: Path) -> str:
    source.write_text("".join(f"{name}=={value}\n" for name, value in wanted.items()), encoding="utf-8")
    text = source.with_suffix(".resolved")
    kept = subject.preferred([*pins]) if subject.keeps_the_rest else {}
    text.write_text("".join(f"{name}=={value}\n" for name, value in kept.items()), encoding="utf-8")
    uv("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-emit-find-links", "--no-emit-index-url",
       "--output-file", str(text), str(source))  # fmt: skip
    return text.read_text(encoding="utf-8").replace("+cpu", "")


def _try_environment(subject: Subject, attempt: Attempt, label: str, lock: Path, interpreter: Interpreter) -> Attempt:
    """Import, probe and run a version whose environment could be made."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
        versions = dict(sorted(examine(interpreter, Path(scratch)).versions.items()))
        status, output, _ = process(interpreter, ["-c", IMPORT, subject.package], {}, Path(scratch), seconds=180)
    packages = next((subject.folder / "envs").glob(f"{lock.stem}-[cg]pu-*/lib/python*/site-packages"))
    subject.say(f"{label}: {'imports' if status == 0 else 'does not import'}")
    # Where the import fails, all other probes fail alike and show nothing more.
    probes = [probe for probe in subject.probes if status == 0 or probe.path.stem == "imports"]
    variables = subject.project.matrix.package.environment
    records = run_probes(probes, label, interpreter, subject.machine, variables)
    results = {
        judged.probe.id: SweptProbe(
            verdict=judged.verdict,
            outcome=judged.record.outcome if judged.record else "missing",
            stage=judged.record.stage if judged.record else "",
            reason=judged.reason[:500],
        )
        for judged in judge_all(probes, records, [label])
    }
    attempt = attempt.model_copy(update={"versions": versions, "probes": results})
    if status != 0:
        output = subject.portable(output)
        message = last_exception(output) or ("no end after 180 s" if status is None else death(status, "import"))
        return attempt.model_copy(update={"stopped": "import", "message": message, "detail": output[-3000:]})
    if subject.cases:
        attempt = attempt.model_copy(update={"cases": _run_cases(subject, label, lock, packages)})
        states = Counter(case.state for case in attempt.cases.values())
        subject.say(f"{label}: {', '.join(f'{count} {state}' for state, count in states.items())}")
    return attempt.with_stop()


def _run_cases(subject: Subject, label: str, lock: Path, packages: Path) -> dict[str, SweptCase]:
    """Run the chosen cases through the pipeline, in the environment of the attempt."""
    assert subject.toolchain  # there are no cases without one
    build = subject.folder / "attempts" / label
    project = Project(subject.matrix_with(lock, packages), subject.project.root, build)
    selected = pipeline.select(project, Selection(toolchains=(subject.toolchain,), cases=subject.cases))
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    (build / "envs").symlink_to(subject.folder / "envs")
    settings = Settings(project.root, build, "venv")
    files = pipeline.run_selected(project, selected, subject.machine, settings, Silent())
    with judging.judged(project, selected.part, files) as judged:
        return _cases_of(judged)


def _cases_of(judged: Judged) -> dict[str, SweptCase]:
    samples = {case.id: record.samples for case, record in judged.sampled()}
    return {one.case.id: _swept(one, samples.get(one.case.id, {})) for one in judged.verdicts()}


def _swept(verdict: Verdict, samples: Mapping[str, Sample]) -> SweptCase:
    """Return the result of a case as a sweep keeps it."""
    record, figures = verdict.record, dict[str, float]()
    if record:
        figures = {name: value for name in FIGURES if (value := record.metrics.get(f"artifact.{name}")) is not None}
        figures |= [("noise", float(f"{ratio:.4g}")) for ratio in ratios(record).values()][:1]
    outputs = "".join(f"{name} {sample.sha256}\n" for name, sample in sorted(samples.items()))
    return SweptCase(
        state=verdict.state,
        evidence=verdict.evidence,
        stage=record.stage if record else "",
        reason=verdict.reason.splitlines()[0][:500] if verdict.reason else "",
        bits=sha256(outputs.encode()).hexdigest()[:16] if outputs else "",
        figures=figures,
    )


def _stopped(attempt: Attempt, stage: Stage, text: str) -> Attempt:
    """Return the attempt as stopped by an error of the installer."""
    lines = [line.strip(" ×╰─▶") for line in text.splitlines() if line.strip() and not line.startswith("$ ")]
    cause = next((line for line in lines if line.startswith("cause: ")), lines[0] if lines else stage)
    message = cause.removeprefix("cause: ")[:500]
    return attempt.model_copy(update={"stopped": stage, "message": message, "detail": text})
