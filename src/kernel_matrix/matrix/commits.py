"""Find the commit that changed the state of a case or a cell: git chooses commits, and a work tree runs each."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model.limits import Limits
from kernel_matrix.config.selection import Selection, ids
from kernel_matrix.pipeline import Project
from kernel_matrix.results.states import STATES, Verdict
from kernel_matrix.run.progress import Lines
from kernel_matrix.run.settings import Settings
from kernel_matrix.vendors.machine import Machine

_FIRST = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit$", re.MULTILINE)
_LEFT = re.compile(r"^([0-9a-f]{40,64})$", re.MULTILINE)  # the candidates, where only skipped commits are left

State = Callable[[Path], str]  # of a checkout; empty where it cannot be tried
# Of a work tree, or of the checkout itself; none where nothing can be tried.
Verdicts = Callable[[Path | None], tuple[Verdict, ...]]


@dataclass(frozen=True)
class ChangedIn:
    """The first commits in the new state: one, or several between which only commits lie that cannot be tried."""

    commits: tuple[str, ...]
    old: str
    new: str
    tried: int


def bisect_commits(root: Path, work: Path, good: str, bad: str, state: State) -> ChangedIn:
    """Return the first commit from ``good`` to ``bad`` that is in the state of ``bad``.

    A commit in a third state, or that cannot be tried, is skipped. ``work`` is a folder for the work tree.

    Raises:
        UserError: git does not know a commit, an end cannot be tried, or both are in the same state.
    """
    with work_tree(root, work) as tree:
        ends = [_git(root, "rev-parse", "--verify", f"{name}^{{commit}}").strip() for name in (good, bad)]
        old, new = (_state_at(tree, commit, state) for commit in ends)
        if old == new:
            raise UserError(f"{good} and {bad} are in the same state: {old}.")
        said, tried = _git(tree, "bisect", "start", *reversed(ends)), 2
        while not (found := _FIRST.findall(said) or ("only 'skip'ped" in said and _LEFT.findall(said))):
            word = {old: "good", new: "bad"}.get(state(tree), "skip")
            said, tried = _git(tree, "bisect", word, expect=(0, 2)), tried + 1
        return ChangedIn(tuple(found), old, new, tried)


def subject_of(tree: Path, commit: str) -> str:
    """Return the abbreviation and the subject of a commit."""
    return _git(tree, "log", "-1", "--format=%h %s", commit).strip()


def state_of_case(project: Project, case: str, machine: Machine, executor: str, build: Path) -> State:
    """Return a function that runs a case or cell of a checkout and returns its worst state, with the stage."""
    verdicts_at = runner(project, (case,), machine, executor, build)

    def state(tree: Path) -> str:
        verdicts = verdicts_at(tree)
        if not verdicts:
            return ""
        worst = min(verdicts, key=lambda verdict: STATES.index(verdict.state))
        stage = worst.record.stage if worst.record else ""
        return f"{worst.state}{f' in {stage}' if stage else ''}"

    return state


def runner(
    project: Project,
    cases: Sequence[str],
    machine: Machine,
    executor: str,
    build: Path,
    limited: Callable[[Limits], Limits] = lambda limits: limits,
) -> Verdicts:
    """Return a function that runs the cases or cells that a checkout has, within limits, and judges them."""
    root = Path(_git(project.root, "rev-parse", "--show-toplevel").strip())
    file = ((project.file or project.root / project.name).resolve()).relative_to(root.resolve())

    def verdicts(tree: Path | None) -> tuple[Verdict, ...]:
        try:
            own = pipeline.load((tree or root) / file, build)
            settings = Settings(own.root, build, executor)
            own = pipeline.collect_tests(own, Selection(), machine, settings, Lines())
            known = ids(pipeline.plan(own, "full"))
            selection = Selection(cases=tuple(name for name in cases if "*" in name or name in known))
            if not selection.cases:
                return ()
            limits = limited(own.matrix.limits)
            if limits != own.matrix.limits:
                own = replace(own, matrix=own.matrix.model_copy(update={"limits": limits}), checked=None)
            selected = pipeline.select(own, selection)
        except UserError:  # the case or the toolchain is not there yet, or matrix.yaml has another form
            return ()
        files = pipeline.run_selected(own, selected, machine, settings, Lines())
        with judging.judged(own, selected.part, files) as judged:
            return tuple(judged.verdicts())

    return verdicts


def _state_at(tree: Path, commit: str, state: State) -> str:
    _git(tree, "checkout", "--quiet", "--detach", commit)
    if not (found := state(tree)):
        raise UserError(f"{commit}: it cannot be tried: its matrix.yaml does not have the case, or cannot be read.")
    return found


@contextmanager
def work_tree(root: Path, folder: Path, commit: str = "HEAD") -> Iterator[Path]:
    """Give a work tree of its own at a commit, which has a bisection of its own too."""
    shutil.rmtree(folder, ignore_errors=True)
    _git(root, "worktree", "prune")
    _git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        _git(root, "worktree", "remove", "--force", str(folder))


def _git(folder: Path, *words: str, expect: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    if done.returncode not in expect:
        raise UserError(f"git {' '.join(words)}: {' '.join((done.stderr or done.stdout).split())[:300]}")
    return done.stdout
