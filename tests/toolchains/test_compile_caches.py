"""Compile caches that are warm, shared, old, cut short, read-only or full: what each toolchain makes of them.

``compile_caches.yaml`` has whose fault a difference is. Each difference has to be there, and nothing else is different.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import disks
import pytest
from common import COPY, ROOT, Doubles, environments_of, share
from compile_caches import KINDS, NEED_MOUNTS, Lane, differences
from ruamel.yaml import YAML

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Case, plan

HERE = Path(__file__).parent
TOKENS = {
    "sound": 1,
    "shared": 2,
    "cold": 3,
    "warm": 4,
    "other-version": 5,
    "cut-short": 6,
    "read-only, empty": 7,
    "full": 8,
}
KNOWN = YAML(typ="safe").load((HERE / "compile_caches.yaml").read_text(encoding="utf-8"))
LANES = {
    "cpp": ("cpu-llvm", "x86-64-v3", ""),
    "inductor": ("cpu-llvm", "x86-64-v3", ""),
    "tilelang-0.1.15": ("cpu-llvm", "x86-64-v3", "tilelang-0.1.8"),
    "triton-3.7": ("cuda", "sm_90", ""),
    "tvm-0.27": ("opencl", "pocl", ""),
}


@pytest.fixture
def lane(here: Doubles) -> Lane:
    """Return cases whose kernels are compiled by two versions of the small compiler in ``cached``."""
    shutil.copy(HERE / "cached" / "kernel_side.py", here.root / "suite")
    (here.root / "lock-2.txt").write_text((here.root / "lock.txt").read_text() + "# the second version\n")
    here.edit(
        "environment: {", f'environment: {{ DOUBLES_CACHE: "{{cache}}/doubles", DOUBLES_COUNT: {here.root}/count,'
    )
    here.edit("  good: {", "  old: { backend: good, lock: lock-2.txt, requires: [numpy] }\n  good: {")
    with_versions = [
        f"{{ toolchain: {name}, environment: {{ DOUBLES_VERSION: '{number}' }} }}"
        for name, number in (("good", 1), ("old", 2))
    ]
    here.edit("toolchains: [good,", f"toolchains: [{', '.join(with_versions)},")
    here.edit("tokens: [1, 2, 3]", f"tokens: {[*TOKENS.values()]}")
    matrix = load(here.root / "matrix.yaml")
    good, old = (next(job for job in plan(matrix, "quick").jobs if job.toolchain == name) for name in ("good", "old"))
    return Lane(here.root, matrix, good, old, here.root / "build", lambda build: share(build, COPY), "current")


@pytest.mark.nightly
def test_each_kind_of_cache_finds_the_compiler_that_mishandles_it_and_no_other(lane: Lane):
    if why_not := no_mounts():
        pytest.skip(why_not)
    found = differences(lane)
    names = {f"tokens{number}": name for name, number in TOKENS.items()}
    by_kind = {kind: {names[case.rpartition("/")[2]] for of, case in found if of == kind} for kind in KINDS}
    by_kind["shared"].discard("warm")  # one of the two processes may read what the other one has just written
    wanted = {kind: {kind} for kind in KINDS if kind != "read-only, filled"}
    assert by_kind == {**wanted, "read-only, filled": {"warm"}}, found
    texts = {(kind, names[case.rpartition("/")[2]]): text for (kind, case), text in found.items()}
    assert texts["warm", "warm"] == "other bits of out"
    assert texts["read-only, empty", "read-only, empty"].startswith("error in stage import: OSError: [Errno 30]")
    assert texts["full", "full"].startswith("error in stage import: OSError: [Errno 28]")
    assert "No such file" in texts["shared", "shared"]


def test_a_machine_that_gives_no_mounts_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disks, "_OWN_MOUNTS", (("sh", "-c", "echo no mounts >&2; exit 1"),))
    disks._unshare.cache_clear()
    with pytest.raises(disks.NoMountsError, match="this machine allows a process no mounts of its own: no mounts"):
        disks.read_only(HERE)
    disks._unshare.cache_clear()


@pytest.mark.nightly
@pytest.mark.environments
@pytest.mark.parametrize("toolchain", LANES)
def test_a_toolchain_does_with_each_kind_of_cache_what_is_known_of_it(toolchain: str, tmp_path: Path):
    why_not = no_mounts()
    kinds = [kind for kind in KINDS if not (why_not and kind in NEED_MOUNTS)]
    found = {(kind, text) for (kind, _), text in differences(lane_of(toolchain, tmp_path), kinds).items()}
    known = {(entry["kind"], entry["finding"]) for entry in KNOWN if entry["toolchain"] == toolchain}
    known = {(kind, begin) for kind, begin in known if kind in kinds}
    assert [f"{kind}: {text}" for kind, text in found if not any(is_known(kind, text, each) for each in known)] == []
    gone = [each for each in known if not any(is_known(kind, text, each) for kind, text in found)]
    assert gone == [], "what is known is still so"
    if why_not:
        pytest.skip(f"{', '.join(sorted(NEED_MOUNTS))}: {why_not}")


def is_known(kind: str, text: str, known: tuple[str, str]) -> bool:
    return kind == known[0] and text.startswith(known[1])


def no_mounts() -> str:
    """Return why this machine allows a process no mounts of its own; empty if it does."""
    try:
        disks.read_only(HERE)
    except disks.NoMountsError as reason:
        return str(reason)
    return ""


def lane_of(toolchain: str, folder: Path) -> Lane:
    """Return the first case of each of two cells of a toolchain, and the same cases of another version."""
    platform, target, other = LANES[toolchain]
    matrix = load(ROOT / "matrix.yaml")
    jobs = {job.id: job for job in plan(matrix, "quick").jobs}
    job, of_other = jobs[f"{platform}.{toolchain}"], jobs[f"{platform}.{other}"].cases if other else ()
    asked = {question(case) for case in of_other}
    cases = [case for case in job.cases if case.cell.target == target and not case.exclusion and not case.timed]
    firsts = {case.cell: case for case in reversed(cases) if question(case) in asked or not other}
    few = list(firsts.values())[::-1][:2]
    others = [case for case in of_other if question(case) in {question(each) for each in few}]
    same = replace(job, toolchain=other, cases=tuple(others)) if others else None
    return Lane(ROOT, matrix, replace(job, cases=tuple(few)), same, folder, environments_of)


def question(case: Case) -> tuple[str, str, str, str]:
    """Return what a case asks of any toolchain."""
    return case.cell.target, case.cell.op, case.cell.direction, case.name
