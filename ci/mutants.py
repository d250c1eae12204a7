"""Judge the mutants of the compiled kernels: run the suite on each, print what kills it, and keep the verdicts.

``ci/nox -s mutants`` does it for all tables of tests/package/mutants, ``ci/nox -s mutants -- triton`` for one, and
``--only TEXT`` for the mutants whose name holds a text. The verdicts are kept when all mutants were judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernel_matrix.base.errors import UserError, did_you_mean  # noqa: E402
from kernel_matrix.config.canary_cases import canary_cases  # noqa: E402
from kernel_matrix.config.load import load  # noqa: E402
from kernel_matrix.config.model import Matrix  # noqa: E402
from kernel_matrix.config.plan import Case, Job, plan  # noqa: E402
from kernel_matrix.run.environments import venv  # noqa: E402
from kernel_matrix.run.executors import Request  # noqa: E402
from kernel_matrix.vendors.registry import vendor_named  # noqa: E402

MUTANTS = ROOT / "tests" / "package" / "mutants"
BUILD = ROOT / "build"
KEPT = MUTANTS / "judged.tsv"  # the page of the documentation site is made from it
COLUMNS = ("table", "op", "direction", "mutant", "killed by")
MOST_TOKENS = 128  # of a case that judges mutants: more make no other kernel


def main(arguments: Sequence[str]) -> int:
    """Judge the mutants and return 1 if one survives; 2 if a table cannot be used."""
    parser = argparse.ArgumentParser(prog="ci/nox -s mutants --", description="Judge the mutants of the kernels.")
    parser.add_argument("tables", nargs="*", help="tables of tests/package/mutants; all of them by default")
    parser.add_argument("--only", action="append", default=[], help="judge the mutants whose name holds this text")
    options = parser.parse_args(arguments)
    known = sorted(path.stem for path in MUTANTS.glob("*.toml"))
    try:
        for name in options.tables:
            if name not in known:
                raise UserError(f"there is no table {name!r} of mutants.{did_you_mean(name, known)}")
        names = options.tables or known
        statuses = [judge(name, options.only) for name in names]
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if max(statuses) < 2 and names == known and not options.only:
        KEPT.write_text(kept(known), encoding="utf-8")
        print(f"wrote {KEPT.relative_to(ROOT)}")
    return max(statuses)


def judge(name: str, only: Iterable[str]) -> int:
    """Run one table in the environment of its toolchain, and return the status."""
    table = MUTANTS / f"{name}.toml"
    head = tomllib.loads(table.read_text(encoding="utf-8"))
    matrix = load(ROOT / "matrix.yaml")
    job = Job(head["platform"], head["toolchain"], ())
    entry = matrix.platforms[job.platform].by_toolchain[job.toolchain]
    python = venv.prepare(Request(ROOT, BUILD, matrix, job, None, print)).python
    folder = BUILD / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    specification = folder / f"{name}.job.json"
    specification.write_text(json.dumps(job_of(matrix, job, head["target"]), indent=1), encoding="utf-8")
    command = [str(python), str(MUTANTS / "run.py"), str(table), "--job", str(specification)]
    command += ["--out", str(verdicts_of(name)), *(word for text in only for word in ("--only", text))]
    path = os.pathsep.join(str(folder) for folder in (ROOT / "src", MUTANTS.parent))  # of the kernel's process too
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | entry.environment
    return subprocess.run(command, env=environment, check=False).returncode


def verdicts_of(name: str) -> Path:
    """Return the file with the verdicts on a table."""
    return BUILD / "mutants" / f"{name}.json"


def job_of(matrix: Matrix, job: Job, target: str) -> dict[str, Any]:
    """Return what the suite has to know of a job: its cases on the target, the cheapest and most telling first."""
    entry = matrix.platforms[job.platform].by_toolchain[job.toolchain]
    quick = {case.id for case in plan(matrix, "quick").cases}
    cases = [
        case
        for case in plan(matrix, "full").cases
        if (case.cell.platform, case.cell.toolchain, case.cell.target) == (job.platform, job.toolchain, target)
        if not case.timed and not case.exclusion and not case.expectations
    ]
    few = [case for case in cases if int(case.axes["tokens"]) <= MOST_TOKENS]
    with_canaries = canary_cases([case for case in few if case.id in quick])  # these are also called as users call
    vendor = vendor_named(matrix.platforms[job.platform].device)
    software = vendor.emulates or target in vendor.stood_in_for
    action = "emulate" if entry.emulated or software else "run"
    return {
        "job": job.id,
        "backend": matrix.toolchains[job.toolchain].backend,
        "device": "cpu",
        "interpreted": entry.emulated,
        "accuracy": matrix.accuracy.limits(),
        "cases": [
            {
                "id": case.id,
                "name": case.name,
                "op": case.cell.op,
                "direction": case.cell.direction,
                "target": target,
                "axes": dict(case.axes),
                "action": action,
                "tier": "quick" if case.id in quick else "full",
                "canary": case.id in with_canaries,
                "sums": matrix.ops[case.cell.op].sums,
            }
            for case in sorted(few, key=lambda case: (case.id not in quick, *_order(case, software)))
        ],
    }


def _order(case: Case, smallest_first: bool) -> tuple[Any, ...]:
    """Return the place of a case in its tier: several tokens at unit scale come first, then the smaller ones.

    With ``smallest_first``, for a device that takes seconds for a token, the smallest come first in any event.
    """
    tokens, streams, hidden = (int(case.axes.get(name, 1)) for name in ("tokens", "streams", "hidden"))
    usual = tokens == 7 and case.axes["scale"] == 1 and not smallest_first
    return not usual, tokens * streams * hidden, case.name


def kept(names: Iterable[str]) -> str:
    """Return the verdicts on all mutants as lines of values between tabs."""
    lines = [COLUMNS]
    for name in names:
        for verdict in json.loads(verdicts_of(name).read_text(encoding="utf-8")):
            tier = " (only in the tier full)" if verdict["tier"] == "full" else ""
            by = f"{words(verdict['killed_by'])}{tier}".replace("\t", " ").replace("\n", " ")
            lines.append((name, verdict["op"], verdict["direction"], verdict["name"], by))
    return "".join("\t".join(line) + "\n" for line in lines)


def words(killed_by: str | None) -> str:
    """Return what the suite said against a mutant, without its figures."""
    if killed_by is None:
        return "**nothing**"
    if match := re.match(r"(\w+): gpu_emulators\.common\.errors\.FoundError: \S+: (.*?) \(wave", killed_by):
        return re.sub(r"at 0x\w+", "at an address", f"{match[1]}: {match[2]}")  # the first finding of many
    outside: dict[str, list[str]] = {}
    for fault in killed_by.split("; "):
        if match := re.fullmatch(r"(\S+): (?:(max_abs|rel_fro) \S+ is over \S+|(\d+) NaN and (\d+) Inf .*)", fault):
            outputs = outside.setdefault("budget" if match[2] else "NaN", [])
            if match[1] not in outputs:
                outputs.append(match[1])
    if outside:
        return "; ".join(f"{kind}: {', '.join(outputs)}" for kind, outputs in sorted(outside.items()))
    return re.sub(r",? off by .*| by \d.*", "", killed_by)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
