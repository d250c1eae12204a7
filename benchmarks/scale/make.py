"""Make a matrix and results of any size, to measure how the harness copes with them.

The operators, the limits and the results are real ones, of the project and of a folder of its results: every made-up
result is a copy of a real one whose errors are multiplied by a factor at random. Platforms, targets, toolchains and
names of cases are made up.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from ruamel.yaml import YAML
from templates import Templates, templates_of

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.reads import Checkout
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record
from kernel_matrix.vendors import registry

_TARGETS = ("first", "second")
_MOST_TOOLCHAINS = 20
_KINDS = ("run", "emulate", "compile", "run", "compile")  # what the platforms do, in turn
_OF_GPUS = [name for name, vendor in registry.vendors().items() if vendor.gpu]
_VENDORS = {"run": _OF_GPUS[0], "emulate": "cpu", "compile": _OF_GPUS[1]}
_TOKENS = (1, 7, 64, 1000, 4096)
_DTYPES = ("fp32", "bf16")
# How often a case ends in each way, in per mille. The first one stands for what the platform does.
_ENDS = {
    "done": 938,
    "error": 30,
    "fail": 8,
    "flaky": 4,
    "unavailable": 10,
    "other inputs": 5,
    "absent": 5,
}
_STALE = 0.03  # of the jobs
_EXECUTOR = "container"


@dataclass(frozen=True)
class Scale:
    """The size of a made-up matrix, and the number from which all chance follows."""

    cases: int
    jobs: int
    seed: int = 0

    @property
    def toolchains(self) -> int:
        """The number of toolchains: every platform has all."""
        divisors = (n for n in range(1, _MOST_TOOLCHAINS + 1) if self.jobs % n == 0 and n * n <= self.jobs)
        return max(divisors)


@dataclass(frozen=True)
class Made:
    """The files that were written, and the numbers of their results and of the cases that are planned."""

    matrix: Path
    results: Path
    files: int
    cases: int
    planned: int


def make(matrix: Matrix, like: Sequence[Record], scale: Scale, into: Path, *, tables: bool = False) -> Made:
    """Write a matrix and its results into a folder; with ``tables`` as Parquet too.

    Raises:
        UserError: the size is not possible, or the results to copy are too few.
    """
    templates = _templates(matrix, like, scale)
    into.mkdir(parents=True, exist_ok=True)
    _write_matrix(matrix, templates, scale, into)
    results = into / "results"
    results.mkdir(exist_ok=True)
    jobs = list(_jobs(scale))
    shared = _Shared(templates, scale, into, tables, _read(into, jobs, matrix.ops))
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), _share, (shared,)) as pool:
        counts = list(pool.map(_write_job, jobs, chunksize=8))
    planned = len(jobs) * len(list(_cells(jobs[0], templates))) * len(templates.names)
    return Made(into / "matrix.yaml", results, len(jobs), sum(counts), planned)


def _read(into: Path, jobs: Sequence[_Job], ops: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return by the name of each job the facts that say what it read."""
    checkout = Checkout(load(into / "matrix.yaml"), into)
    return {job.name: checkout.facts_of(job.platform, job.toolchain, _EXECUTOR, ops) for job in jobs}


@dataclass(frozen=True)
class _Job:
    platform: str
    toolchain: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.platform}.{self.toolchain}"


@dataclass(frozen=True)
class _Shared:
    """The data that every process that writes needs. It is sent to each of them once."""

    templates: Templates
    scale: Scale
    into: Path
    tables: bool
    read: dict[str, dict[str, str]]


_SHARED: list[_Shared] = []


def _share(shared: _Shared) -> None:
    _SHARED[:] = [shared]


def _jobs(scale: Scale) -> Iterator[_Job]:
    for place in range(scale.jobs // scale.toolchains):
        for toolchain in range(scale.toolchains):
            yield _Job(f"platform-{place:02}", f"toolchain-{toolchain:02}", _KINDS[place % len(_KINDS)])


def _templates(matrix: Matrix, like: Sequence[Record], scale: Scale) -> Templates:
    operators = [(name, direction) for name, op in matrix.ops.items() for direction in op.directions]
    per_name = scale.jobs * len(_TARGETS) * len(operators) * len(_TOKENS) * len(_DTYPES)
    seeds = round(scale.cases / per_name)
    if not seeds:
        raise UserError(f"--cases {scale.cases}: {scale.jobs} jobs have at least {per_name} cases. Ask for fewer jobs.")
    names = [f"tokens{n}-{dtype}-seed{seed}" for n in _TOKENS for dtype in _DTYPES for seed in range(seeds)]
    return templates_of(operators, names, seeds, like, Random(scale.seed))  # noqa: S311  nothing secret


def _write_matrix(matrix: Matrix, templates: Templates, scale: Scale, into: Path) -> None:
    """Write matrix.yaml, and the files that it names."""
    text = StringIO()
    YAML().dump(_content(matrix, templates, scale), text)
    for folder in ("src", "suite", "locks"):
        (into / folder).mkdir(exist_ok=True)
    (into / "lock.txt").write_text("", encoding="utf-8")
    for job in _jobs(scale):
        (into / "locks" / f"{job.toolchain}.txt").write_text(_lock(job.toolchain), encoding="utf-8")
    (into / "matrix.yaml").write_text(text.getvalue(), encoding="utf-8")


def _content(matrix: Matrix, templates: Templates, scale: Scale) -> dict[str, Any]:
    """Return the sections of matrix.yaml."""
    directions = list(dict.fromkeys(direction for _, direction in templates.outputs))
    platforms: dict[str, Any] = {}
    for job in _jobs(scale):
        platform = platforms.setdefault(
            job.platform,
            {
                "title": f"made-up {job.platform}",
                "device": _VENDORS[job.kind],
                "runner": ["self-hosted", "linux"],
                "targets": [*_TARGETS],
                "toolchains": [],
            },
        )
        entry = {"toolchain": job.toolchain, "runs": job.kind != "compile", "emulated": job.kind == "emulate"}
        platform["toolchains"].append(entry)
    end = {"owner": "nobody", "link": "lock.txt", "until": "2099-12-31"}
    return {
        "package": {"name": "made-up", "source": "src", "suite": "suite", "directions": directions},
        "limits": {"case": 60, "job": 3600},
        "accuracy": matrix.accuracy.model_dump(),
        "toolchains": {
            job.toolchain: {"backend": job.toolchain, "lock": f"locks/{job.toolchain}.txt", "requires": ["compiler>=1"]}
            for job in _jobs(scale)
        },
        "platforms": platforms,
        "ops": dict(_ops(templates)),
        "expectations": [
            {
                "where": {"toolchain": "toolchain-01", "tokens": 64},
                "outcome": "error",
                "stage": "lower",
                "match": templates.known,
                "reason": "It is known of this toolchain.",
                **end,
            }
        ],
        "exclusions": [{"where": {"toolchain": "toolchain-00", "tokens": 4096}, "reason": "It is too large.", **end}],
    }


def _ops(templates: Templates) -> Iterator[tuple[str, dict[str, Any]]]:
    for op in dict.fromkeys(op for op, _ in templates.outputs):
        outputs = {direction: [*names] for (name, direction), names in templates.outputs.items() if name == op}
        axes = {"tokens": [*_TOKENS], "dtype": [*_DTYPES], "seed": [*range(templates.seeds)]}
        yield op, {"directions": [*outputs], "axes": [*axes], "outputs": outputs, "cases": {"quick": [axes]}}


def _lock(toolchain: str) -> str:
    return f"compiler==1.5  # of {toolchain}\n"


def _write_job(job: _Job) -> int:
    """Write the results of a job, and return the number of its cases."""
    [shared] = _SHARED
    templates, into = shared.templates, shared.into
    random = Random(f"{shared.scale.seed} {job.name}")  # noqa: S311
    blocks = [block for cell in _cells(job, templates) for block in _blocks(random, job, *cell, templates)]
    path = into / "results" / f"{job.name}.xml"
    templates.write(path, job.name, {**_facts(random, job), **shared.read[job.name]}, blocks)
    if shared.tables:
        from kernel_matrix.store.write import write

        records = junit.read(path)
        write(into / "tables", records[0].job, records)
    return len(blocks)


def _cells(job: _Job, templates: Templates) -> Iterator[tuple[str, tuple[str, str]]]:
    for target in _TARGETS:
        for operator in templates.outputs:
            yield f"{job.platform}/{target}/{job.toolchain}/{'.'.join(operator)}", operator


def _blocks(random: Random, job: _Job, cell: str, operator: tuple[str, str], templates: Templates) -> Iterator[str]:
    """Yield the test cases of a cell. The first one of a dtype carries canaries."""
    ends = random.choices([*_ENDS], [*_ENDS.values()], k=len(templates.names))
    carried: set[str] = set()
    for name, end in zip(templates.names, ends, strict=True):
        kind = job.kind if end == "done" else end
        dtype = name.split("-")[1]
        if dtype not in carried and job.kind != "compile":
            carried.add(dtype)
            kind = f"{job.kind} with canaries"
        elif job.toolchain == "toolchain-00" and name.startswith("tokens4096-"):
            kind = "excluded"
        elif job.toolchain == "toolchain-01" and name.startswith("tokens64-"):
            kind = "known"
        elif job.kind == "compile" and kind in ("fail", "flaky", "other inputs"):
            kind = "compile"
        if kind != "absent":
            yield templates.choose(random, kind, operator, name).replace("@CELL@", cell)


def _facts(random: Random, job: _Job) -> dict[str, str]:
    lock = sha256(_lock(job.toolchain).encode()).hexdigest()
    ran = job.kind != "compile"
    return {
        "job": job.name,
        "platform": job.platform,
        "toolchain": job.toolchain,
        "executor": _EXECUTOR,
        "device": "a made-up device" if ran else "none",
        "driver": "1.0" if ran else "",
        "device.vendor": _VENDORS[job.kind] if ran else "",
        "device.targets": " ".join(_TARGETS) if ran else "",
        "commit": sha256(b"made up").hexdigest()[:12],
        "lock.sha256": "0" * 64 if random.random() < _STALE else lock,
        "started": "2026-11-22T11:26:40Z",
        "seconds": "377.0",
        "python": "3.11.7",
        "machine": "x86_64",
        **{f"version.library-{number}": f"1.{number}" for number in range(30)},
        "version.compiler": "1.5",
    }
