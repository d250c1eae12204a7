"""Run the probes in every environment of the project, and keep their results next to the jobs' results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from kernel_matrix.base.errors import unknown
from kernel_matrix.base.git import commit
from kernel_matrix.config.locks import lock_file, pins
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.plan import Job
from kernel_matrix.config.reads import Checkout
from kernel_matrix.diagnosis import diagnose, in_words
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.expected import Judged, described, judge_all
from kernel_matrix.probes.probe import Probe, select_probes
from kernel_matrix.probes.probing import run_probes
from kernel_matrix.run.executors import InstallError, Interpreter, Request, UnavailableError
from kernel_matrix.run.settings import load_executor
from kernel_matrix.store import write as store
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine


class Keeper(Protocol):
    """The protocol of what keeps the results of earlier runs."""

    def since(self, name: str, made_from: Sequence[str]) -> str:
        """Return when the results called ``name`` were made; nothing if they cannot be kept."""

    def remember(self, name: str, made_from: Sequence[str]) -> None:
        """Note what the results called ``name`` were made from."""


@dataclass(frozen=True)
class Probed:
    """The verdicts of the probes in one environment, and lines about them for people.

    ``broken``: the environment could not be made.
    """

    environment: str
    lines: tuple[str, ...]
    judged: tuple[Judged, ...] = field(default=())
    broken: bool = False

    @property
    def changed(self) -> bool:
        """True if somebody must look: a probe has changed, or the environment could not be made."""
        return self.broken or any(one.verdict == "changed" for one in self.judged)


def probe_toolchains(
    project: Project,
    probes: Sequence[Probe],
    toolchains: Sequence[str],
    machine: Machine,
    executor: str = "venv",
    workers: int = 1,
    say: Callable[[str], None] = print,
) -> Iterator[Probed]:
    """Run the probes in each environment of these toolchains, or of all when none is named.

    The records of an environment are written into the project's folder of results.

    Raises:
        UserError: there is no such toolchain.
    """
    for name in toolchains:
        if name not in project.matrix.toolchains:
            raise unknown("--toolchain", "toolchain", name, project.matrix.toolchains)
    chosen = [name for name in project.matrix.toolchains if not toolchains or name in toolchains]
    for environment, toolchain in environments(project.matrix, chosen).items():
        yield probe_environment(project, probes, environment, toolchain, machine, executor, workers, say)


def probe_environment(
    project: Project,
    probes: Sequence[Probe],
    environment: str,
    toolchain: str,
    machine: Machine,
    executor: str = "venv",
    workers: int = 1,
    say: Callable[[str], None] = print,
) -> Probed:
    """Run the probes in the environment of a toolchain, and write their records into the project's results."""
    try:
        with interpreter_of(project, toolchain, executor, say) as interpreter:
            return _probe(project, probes, environment, interpreter, machine, executor, workers)
    except UnavailableError as reason:
        return Probed(environment, (f"{environment}: not probed: {reason}",))
    except InstallError as error:
        cause = in_words(diagnose(str(error), "install", rules=project.rules), str(error))
        lines = (f"{environment}: its environment cannot be made", str(error), cause)
        return Probed(environment, lines, broken=True)


def probing(
    project: Project,
    toolchains: Sequence[str],
    machine: Machine,
    executor: str,
    say: Callable[[str], None],
    keeper: Keeper | None = None,
    *,
    tier: Tier = "full",
) -> list[Callable[[], None]]:
    """Return the work of probing these toolchains, one piece for each environment whose results cannot be kept.

    In the quick tier a probe is asked once of the same versions: of several environments that have them, the smallest.
    """
    if project.matrix.package.probes is None:
        return []
    by_environment = environments(project.matrix, toolchains)
    probes = _asked(project, select_probes(project.matrix, project.root), by_environment, once=tier == "quick")
    checkout = Checkout(project.matrix, project.root)

    def depends(environment: str) -> list[str]:
        toolchain = by_environment[environment]
        lock = lock_file(project.root, project.matrix.toolchains[toolchain].lock).read_text(encoding="utf-8")
        read = checkout.facts_of("", toolchain, executor, ())
        return [executor, repr(read), lock, _own_code(project), *(probe.id for probe in probes[environment])]

    def work(environment: str) -> None:
        toolchain = by_environment[environment]
        probed = probe_environment(project, probes[environment], environment, toolchain, machine, executor, say=say)
        say("\n".join(probed.lines))
        if keeper and probed.judged and not probed.changed:
            keeper.remember(f"probes.{environment}", depends(environment))

    # The environments with most probes first, so that no core waits for them at the end.
    return [
        partial(work, environment)
        for environment in sorted(probes, key=lambda environment: -len(probes[environment]))
        if probes[environment] and not (keeper and keeper.since(f"probes.{environment}", depends(environment)))
    ]


def _own_code(project: Project) -> str:
    """Return the hash of this room and of the programs of the probes: other code may find something else."""
    programs = project.root / (project.matrix.package.probes or "")
    files = [path for folder in (Path(__file__).parent, programs) for path in sorted(folder.rglob("*.py"))]
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def _asked(
    project: Project, probes: Sequence[Probe], by_environment: Mapping[str, str], *, once: bool
) -> dict[str, list[Probe]]:
    """Return for each environment the probes whose packages its lock pins; each of the same versions ``once``."""
    locks = {name: project.matrix.toolchains[toolchain].lock for name, toolchain in by_environment.items()}
    pinned = {name: pins(lock_file(project.root, lock)) for name, lock in locks.items()}
    asked: dict[str, list[Probe]] = {name: [] for name in pinned}
    for probe in probes:
        about: set[tuple[str | None, ...]] = set()
        for name in sorted(pinned, key=lambda name: (len(pinned[name]), name)):
            versions = probe.asked_about(pinned[name])
            if None not in versions and not (once and versions in about):
                about.add(versions)
                asked[name].append(probe)
    return asked


def _probe(
    project: Project,
    probes: Sequence[Probe],
    environment: str,
    interpreter: Interpreter,
    machine: Machine,
    executor: str,
    workers: int,
) -> Probed:
    facts = {"executor": executor, "commit": commit(project.root)}
    facts["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    variables, bytecode = project.matrix.package.environment, project.build / "cache" / "bytecode"
    records = run_probes(probes, environment, interpreter, machine, variables, workers, bytecode)
    write(project.results, environment, records, facts)
    judged = judge_all(probes, records, [environment])
    return Probed(environment, tuple(described(environment, judged, project.rules)), judged)


def environments(matrix: Matrix, toolchains: Sequence[str] | None = None) -> dict[str, str]:
    """Return the environments by name, each with one of the toolchains that it serves: two may share a lock file."""
    by_lock: dict[str, str] = {}
    for name in toolchains if toolchains is not None else matrix.toolchains:
        by_lock.setdefault(Path(matrix.toolchains[name].lock).stem, name)
    return by_lock


@contextmanager
def interpreter_of(
    project: Project, toolchain: str, executor: str, say: Callable[[str], None]
) -> Iterator[Interpreter]:
    """Give the interpreter of a toolchain's environment, which is made if need be.

    Raises:
        InstallError: the environment could not be made.
        UnavailableError: this machine cannot have it.
    """
    job = Job("", toolchain, ())  # of no platform: it runs no case
    request = Request(project.root, project.build, project.matrix, job, None, say)
    with load_executor(executor) as prepare:
        yield prepare(request)


def write(results: Path, environment: str, records: Sequence[Record], facts: dict[str, str]) -> Path:
    """Write the records of one environment next to the jobs' records, and return the file that stands for them."""
    job = {"job": f"probes.{environment}", "toolchain": environment, **facts}
    return store.replace(results, {**job, **(records[0].job if records else {})}, records)
