"""Check the workflow files against the rules that keep machines and results safe: python ci/workflow_policy.py [ROOT].

A pull request brings its own workflow files. So these rules help people who change the files in good faith, and their
reviewers. What a pull request may do is also decided in places that it cannot change: by the repository's settings and
by each machine itself (``ci/runner``).

Exit status: 0 every rule is kept, 1 a rule is broken (one line per place), 2 there are no workflow files.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipeline_policy
from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from kernel_matrix.base import git

TRIGGERS = {"pull_request", "push", "schedule", "workflow_dispatch", "workflow_call"}
AFTER = "workflow_run"  # the only trigger of a workflow that works on what other runs have left
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"
APPROVED = "own-machines"  # the environment whose reviewers approve a commit
RELEASE = "release"  # the environment whose reviewers approve what goes to the package index
ALWAYS = "${{ always() }}"
_HOSTED = re.compile(r"(?:ubuntu|windows|macos)-[\w.-]+")
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_LOCAL = re.compile(r"\./\.github/(?:workflows/[\w-]+\.yml|actions/[\w-]+)")
_HIDING = ("|| true", "|| :", "set +e", "--ignore", "--deselect", "continue-on-error", "exit 0")
_WRITES = {"pages", "id-token"}  # all that anything here may write, and only the publisher
_WRITES_AFTER = {"pull-requests"}  # what may be written after a run
_OF_PULL_REQUEST = "github.event.workflow_run.event == 'pull_request'"
_OF_MAIN = {
    "github.event.workflow_run.event != 'pull_request'",
    "github.event.workflow_run.head_branch == github.event.repository.default_branch",
}
_BELOW_BUILD = re.compile(r"build(/[\w-]+)+")
_READS = re.compile(r"ci/kernel-matrix ci (comment|notify) [^\n;&|<>`()\\]+")  # one command, and nothing in it
_FENCE = re.compile(r"^[ ]*```yaml\n(.*?)^[ ]*```$", re.DOTALL | re.MULTILINE)
_SECRET = re.compile(r"\bsecrets\b")

Job = Mapping[str, Any]


@dataclass(frozen=True)
class Workflow:
    """One file: a workflow, or an action of this repository."""

    path: str
    text: str
    document: Mapping[str, Any]
    main: str = "main"  # the branch that changes are merged into

    @property
    def triggers(self) -> Mapping[str, Any]:
        """The events that start it, in their long form."""
        on = self.document.get("on", {})
        if isinstance(on, str):
            return {on: {}}
        return {name: {} for name in on} if isinstance(on, list) else {k: v or {} for k, v in on.items()}

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Its jobs; an action has its steps in place of jobs, under one name."""
        if "runs" in self.document:
            return {"action": {"steps": self.document["runs"].get("steps", [])}}
        jobs: Mapping[str, Job] = self.document.get("jobs", {})
        return jobs

    @property
    def is_after(self) -> bool:
        """True if other runs start it, and nothing else does."""
        return not self.is_action and set(self.triggers) == {AFTER}

    @property
    def is_action(self) -> bool:
        """True if it is an action and no workflow."""
        return "runs" in self.document


Workflows = Mapping[str, Workflow]


def main(arguments: list[str]) -> int:
    """Print every place that breaks a rule, and return the exit status."""
    root = Path(arguments[0] if arguments else ".")
    files = read(root)
    if not files:
        print(f"{root / '.github'}: there are no workflow files. Name the repository's root.", file=sys.stderr)
        return 2
    sentences = [*violations(files, git.main_branch(root)), *violations(documented(root)), *of_other_services(root)]
    print("\n".join(sentences) or "the workflow files keep every rule", file=sys.stderr if sentences else sys.stdout)
    return int(bool(sentences))


def read(root: Path) -> dict[str, str]:
    """Return the text of the workflow files and of the repository's actions, by their paths."""
    folder = root / ".github"
    paths = [*folder.glob("workflows/*.y*ml"), *folder.glob("actions/**/action.y*ml")]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(paths)}


def documented(root: Path) -> dict[str, str]:
    """Return the workflows of the docs by their places, completed by what an example leaves to its reader."""
    head = "name: x\non: [pull_request]\npermissions: {}\nconcurrency: { group: x }\n"
    placeholder = "OWNER/kernel-matrix@COMMIT"
    pinned = f"owner/kernel-matrix@{'0' * 40} # v0.0.0"
    return {
        place: (text if "on" in example else head + text).replace(placeholder, pinned)
        for place, text, example in _examples(root)
        if "jobs" in example
    }


def of_other_services(root: Path) -> list[str]:
    """Return a sentence for each place of a pipeline in the docs where a failure is hidden."""
    return [
        f"{place}: {sentence}"
        for place, _, example in _examples(root)
        for service, key in (("gitlab", "stages"), ("buildkite", "steps"))
        if key in example
        for sentence in pipeline_policy.violations(service, example)
    ]


def _examples(root: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the place, the text and the content of each YAML example of the docs that has keys."""
    for path in sorted(root.glob("docs/**/*.md")):
        for number, text in enumerate(_FENCE.findall(path.read_text(encoding="utf-8")), 1):
            content = YAML(typ="safe", pure=True).load(textwrap.dedent(text))
            if isinstance(content, Mapping):
                yield f"{path.relative_to(root)}: example {number}", textwrap.dedent(text), content


def parse(files: Mapping[str, str], main: str = "main") -> dict[str, Workflow]:
    """Return the workflows by the paths of their files, from the repository's root; ``main`` is its main branch."""
    return {path: Workflow(path, text, YAML(typ="safe", pure=True).load(text), main) for path, text in files.items()}


def violations(files: Mapping[str, str], main: str = "main") -> list[str]:
    """Return a sentence for each place that breaks a rule: ``FILE: JOB: what. What to do.``"""
    workflows = parse(files, main)
    return [
        f"{workflow.path}: {sentence}"
        for workflow in workflows.values()
        for rule in _RULES
        for sentence in rule(workflow, workflows)
    ]


def _triggers(workflow: Workflow, _: Workflows) -> Iterator[str]:
    if workflow.is_action:
        return
    for name in workflow.triggers.keys() - TRIGGERS - ({AFTER} if workflow.is_after else set()):
        yield f"on: '{name}' runs with this repository's rights on what others wrote. Use one of {sorted(TRIGGERS)}."
    if workflow.triggers.get("push", {"tags": ["v*"]}) not in ({"branches": [workflow.main]}, {"tags": ["v*"]}):
        yield f"on: push: name the branch {workflow.main}, or the tags of versions, and nothing else."
    if set(workflow.triggers) != {"workflow_call"} and "concurrency" not in workflow.document:
        yield "concurrency is missing. Give the group that runs one at a time."


def _permissions(workflow: Workflow, workflows: Workflows) -> Iterator[str]:
    if workflow.is_action:
        return
    if workflow.document.get("permissions") != {}:
        yield "permissions: write 'permissions: {}' at the top, and in each job what it needs."
    for name, job in workflow.jobs.items():
        permissions = job.get("permissions")
        if not isinstance(permissions, Mapping):
            yield f"{name}: permissions: say each one that the job needs, or '{{}}'."
            continue
        writes = {key for key, value in permissions.items() if value == "write"}
        if rest := writes - (_WRITES_AFTER if workflow.is_after else _WRITES):
            yield f"{name}: nothing here may write {sorted(rest)}. Take it out."
        own = _callee(job, workflows) is None and not workflow.is_after
        if (
            writes
            and own
            and any(_is_checkout(s) or ("run" in s and _environment(job) != RELEASE) for s in _steps(job))
        ):
            yield f"{name}: a job that may write runs no code of the repository. Let the publisher alone do it."
        if writes and {"pull_request", "workflow_dispatch"} & set(workflow.triggers):
            yield f"{name}: only what runs on main publishes. Take the write permission out."
        if "uses" not in job and not _is_hosted(job) and set(permissions) - {"contents"}:
            yield f"{name}: a job on the project's own machines needs no permission but 'contents: read'."


def _pins(workflow: Workflow, _: Workflows) -> Iterator[str]:
    for match in re.finditer(r"^\s*(?:- )?uses:\s*(\S+)[ \t]*(#.*)?$", workflow.text, re.MULTILINE):
        used, comment = match[1], match[2] or ""
        if _LOCAL.fullmatch(used):
            continue
        if not _PINNED.fullmatch(used):
            yield f"uses: {used}: pin it by the whole commit id; a tag can be moved to other code."
        elif not re.fullmatch(r"# v\d+\.\d+\.\d+", comment):
            yield f"uses: {used}: say the version beside the commit id: # v1.2.3"


def _after_runs(workflow: Workflow, _: Workflows) -> Iterator[str]:
    """Yield a sentence for each place after a run where code of a change could be executed, or gets a secret.

    These jobs have rights that the run of a fork's pull request does not get. They run main's code, and what the run
    left is data below build/.
    """
    for name, job in workflow.jobs.items() if workflow.is_after else ():
        terms = _conjunction(job.get("if"))
        if _OF_PULL_REQUEST not in terms and not terms >= _OF_MAIN:
            yield f"{name}: say whose runs it follows: if: {_OF_PULL_REQUEST}, or {' && '.join(sorted(_OF_MAIN))}"
        if _SECRET.search(str(job)) and not terms >= _OF_MAIN:
            yield f"{name}: what a pull request left comes to no secret. Use it after runs of main alone."
        if "uses" in job or not _is_hosted(job):
            yield f"{name}: it runs on a hosted machine, and by itself."
        for step in _steps(job):
            label = f"{name}: {step.get('name') or step.get('uses') or 'a step'}"
            given = step.get("with", {})
            if _is_checkout(step) and {"ref", "repository"} & set(given):
                yield f"{label}: it checks out main's newest commit and no other. Take 'ref' and 'repository' out."
            if "download-artifact@" in str(step.get("uses", "")) and not _BELOW_BUILD.fullmatch(str(given.get("path"))):
                yield f"{label}: what a run left could replace code that is run. Give it a path below build/."
            if "run" in step and not _READS.fullmatch(step["run"].strip()):
                yield f"{label}: only ci/kernel-matrix ci comment, or notify, reads what a run left."


def _forks(workflow: Workflow, workflows: Workflows) -> Iterator[str]:
    """Yield a sentence for each job that a fork's pull request starts on a machine of the project's own."""
    if "pull_request" in workflow.triggers:
        for where, job in _reachable(workflow, workflows, closed=False):
            if not _is_hosted(job):
                yield (
                    f"{where}: a fork's pull request gets here, and runs-on is {job.get('runs-on')!r}. Write a hosted "
                    f"label there, or guard the job by: {SAME_REPOSITORY}"
                )


def _approval(workflow: Workflow, workflows: Workflows) -> Iterator[str]:
    """Yield a sentence for each job that a person starts on the project's own machines without approval."""
    if "workflow_dispatch" not in workflow.triggers:
        return
    for name, job in workflow.jobs.items():
        inside = _callee(job, workflows)
        own = not _is_hosted(job) if inside is None else _truth(job.get("with", {}).get("machines")) is not False
        if not own:
            continue
        before = _needed(workflow, name)
        gates = [other for other in before if _environment(workflow.jobs[other]) == APPROVED]
        if not gates:
            yield f"{name}: it gets to the project's own machines without the environment '{APPROVED}' before it."
        for gate in gates:
            text = str([workflow.jobs[other].get("steps") for other in _needed(workflow, gate)])
            if "^[0-9a-f]{40}$" not in text or "required_reviewers" not in text:
                yield f"{gate}: nothing before it insists on a whole commit id and on an environment with reviewers."


def _steps_are_safe(workflow: Workflow, _: Workflows) -> Iterator[str]:
    for name, job in workflow.jobs.items():
        for step in _steps(job):
            label = f"{name}: {step.get('name') or step.get('uses') or 'a step'}"
            if "${{" in str(step.get("run", "")):
                yield f"{label}: an expression in a script is code that others may write. Pass it by 'env'."
            if "script" in step.get("with", {}):
                yield f"{label}: no scripts in an action's inputs. Put it into a file of the repository."
            if _is_checkout(step) and step.get("with", {}).get("persist-credentials") is not False:
                yield f"{label}: it leaves the token in the checkout. Set persist-credentials: false."
            if "actions/cache" in str(step.get("uses", "")) or "cache" in step.get("with", {}):
                yield f"{label}: a cache that one run writes is code that another runs. Make environments anew."
            if "github.token" in str(step) and not _is_hosted(job):
                yield f"{label}: no token on the project's own machines, nor in an action that may run there."


def _nothing_hides(workflow: Workflow, _: Workflows) -> Iterator[str]:
    for number, line in enumerate(workflow.text.splitlines(), 1):
        for word in _HIDING:
            if word in line.partition(" # ")[0] and not line.lstrip().startswith("#"):
                yield f"line {number}: '{word}' hides failures. Let it fail."
        if "docker.sock" in line or "--privileged" in line:
            yield f"line {number}: whoever has the Docker socket has the machine. Take it out."
        if _SECRET.search(line.partition(" # ")[0]) and not line.lstrip().startswith("#") and not workflow.is_after:
            yield f"line {number}: no job here needs a secret. Take it out."
    for name, job in workflow.jobs.items():
        for key in ("container", "services"):
            if key in job:
                yield f"{name}: '{key}': the harness starts containers itself, the same on a laptop. Take it out."
        if not workflow.is_action and "uses" not in job and "timeout-minutes" not in job:
            yield f"{name}: timeout-minutes is missing; the default is six hours."


def _matrix_is_thin(workflow: Workflow, _: Workflows) -> Iterator[str]:
    """Yield a sentence if a row runs more than the command that a person types, or something can stop the report."""
    rows = {name: job for name, job in workflow.jobs.items() if "strategy" in job}
    for name, job in rows.items():
        if not _makes_image(job) and not _is_row(job):
            yield f"{name}: a row is run by ./.github/actions/row, the same for all."
        if job["strategy"].get("fail-fast") is not False:
            yield f"{name}: one red row must not cancel the others. Set fail-fast: false."
    if rows:
        report = workflow.jobs.get("report", {})
        text = str(_steps(report))
        if "ci/kernel-matrix ci jobs" not in text or "--statuses" not in text:
            yield "report: it has to ask what became of the jobs (ci/kernel-matrix ci jobs) and take it (--statuses)."
        if set(_list(report.get("needs"))) & {name for name, job in rows.items() if not _makes_image(job)}:
            yield "report: it must not need the rows: a machine that never comes would hold it back."
    if workflow.path.endswith("actions/row/action.yml"):
        if 'ci/kernel-matrix run --platform "$PLATFORM"' not in str(_steps(workflow.jobs["action"])):
            yield "the row is to be run by the command that a person types: ci/kernel-matrix run."
        upload = [step for step in _steps(workflow.jobs["action"]) if "upload-artifact@" in step.get("uses", "")]
        if not upload or any(step.get("if") != ALWAYS for step in upload):
            yield f"results are sent also when the row is red or was cancelled: if: {ALWAYS}"


def _merging(workflow: Workflow, workflows: Workflows) -> Iterator[str]:
    """Yield a sentence for each job of a pull request that may be skipped: GitHub counts its status as a success.

    People require the status of such a job for merging. A row's job may be skipped, because the report names it.
    """
    if "pull_request" not in workflow.triggers:
        return
    for where, job, inside in _started(workflow, workflows):
        needed = [name for name in _list(job.get("needs")) if not _makes_image(inside.jobs.get(name, {}))]
        if "strategy" in job or job.get("if", ALWAYS) != ALWAYS:
            yield f"{where}: where it is skipped it counts as a success. Let it always run: if: {ALWAYS}"
        elif job.get("needs") and "if" not in job:
            yield f"{where}: where what it needs fails it is skipped, and counts as a success. Write if: {ALWAYS}"
        elif not _asks_first(job) >= set(needed):
            terms = " || ".join(f"needs.{name}.result != 'success'" for name in needed)
            yield f"{where}: it goes on where what it needs failed. Fail in the first step: if: ${{{{ {terms} }}}}"


def _started(workflow: Workflow, workflows: Workflows, depth: int = 0) -> Iterator[tuple[str, Job, Workflow]]:
    """Yield the jobs that a workflow starts, also by calls, and the workflow of each; no row and no image."""
    for name, job in workflow.jobs.items():
        called = _callee(job, workflows)
        if not _is_row(job) and not _makes_image(job):
            yield f"{workflow.path}: {name}", job, workflow
        if called is not None and depth < 4:
            yield from _started(called, workflows, depth + 1)


def _asks_first(job: Job) -> set[str]:
    """Return the jobs without whose success the first step of a job fails."""
    first = (_steps(job) or [{}])[0]
    text = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", str(first.get("if", "")).strip())
    terms = [re.fullmatch(r"needs\.([\w-]+)\.result != 'success'", term.strip()) for term in text.split("||")]
    fails = str(first.get("run", "")).rstrip().endswith("exit 1")
    return {term[1] for term in terms if term} if fails and all(terms) else set()


def _is_row(job: Job) -> bool:
    return "strategy" in job and any(step.get("uses") == "./.github/actions/row" for step in _steps(job))


def _makes_image(job: Job) -> bool:
    """Return whether a hosted job makes images and runs no row, so that it ends within its time limit."""
    return (
        _is_hosted(job)
        and "ci/kernel-matrix ci image" in str(_steps(job))
        and "row" not in job.get("strategy", {}).get("matrix", {"row": ""})
    )


def _calls_fit(workflow: Workflow, workflows: Workflows) -> Iterator[str]:
    for name, job in workflow.jobs.items():
        if (called := _callee(job, workflows)) is not None:
            inputs = _inputs(called)
            given = set(job.get("with", {}))
            required = {key for key, value in inputs.items() if value.get("required")}
            if given - inputs.keys() or required - given:
                yield f"{name}: {called.path} takes {sorted(inputs)}, and is given {sorted(given)}."
        elif "uses" in job:
            yield f"{name}: {job['uses']}: a called workflow lies in this repository. Bring it here."


_RULES = (
    _triggers,
    _permissions,
    _pins,
    _after_runs,
    _forks,
    _approval,
    _steps_are_safe,
    _nothing_hides,
    _matrix_is_thin,
    _merging,
    _calls_fit,
)


def _reachable(workflow: Workflow, workflows: Workflows, *, closed: bool, depth: int = 0) -> Iterator[tuple[str, Job]]:
    """Yield the jobs that a fork's pull request starts. ``closed``: no job gets the project's own machines."""
    for name, job in workflow.jobs.items():
        terms = _conjunction(job.get("if"))
        if SAME_REPOSITORY in terms or (closed and "inputs.machines" in terms):
            continue
        called = _callee(job, workflows)
        if called is None:
            yield f"{workflow.path}: {name}", job
        elif depth < 4:
            default = _inputs(called).get("machines", {}).get("default", False)
            inside = _truth(job.get("with", {}).get("machines", default)) is False
            yield from _reachable(called, workflows, closed=inside, depth=depth + 1)


def _conjunction(condition: object) -> set[str]:
    """Return the terms of ``a && b``, and no term of a condition with an 'or', a 'not' or brackets around terms."""
    text = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", str(condition or "").strip()).strip()
    return set() if "||" in text or text.startswith(("!", "(")) else {term.strip() for term in text.split("&&")}


def _truth(value: object) -> bool | None:
    """Return what ``machines`` is for a fork's pull request: false if it says so or asks for the same repository."""
    if isinstance(value, bool):
        return value
    return False if SAME_REPOSITORY in _conjunction(value) else None


def _is_hosted(job: Job) -> bool:
    return "uses" in job or bool(_HOSTED.fullmatch(str(job.get("runs-on", ""))))


def _callee(job: Job, workflows: Workflows) -> Workflow | None:
    return workflows.get(str(job.get("uses", "")).removeprefix("./"))


def _inputs(called: Workflow) -> Mapping[str, Any]:
    inputs: Mapping[str, Any] = called.triggers.get("workflow_call", {}).get("inputs", {})
    return inputs


def _needed(workflow: Workflow, name: str) -> set[str]:
    """Return the jobs that must have succeeded before this one starts."""
    needed: set[str] = set()
    todo = _list(workflow.jobs[name].get("needs"))
    while todo:
        if (other := todo.pop()) not in needed and other in workflow.jobs:
            needed.add(other)
            todo += _list(workflow.jobs[other].get("needs"))
    return needed if "if" not in workflow.jobs[name] else set()  # a condition may ask for less than success


def _environment(job: Job) -> str:
    environment = job.get("environment", "")
    return str(environment.get("name", "") if isinstance(environment, Mapping) else environment)


def _steps(job: Job) -> list[Mapping[str, Any]]:
    steps: list[Mapping[str, Any]] = job.get("steps") or []
    return steps


def _is_checkout(step: Mapping[str, Any]) -> bool:
    return str(step.get("uses", "")).startswith("actions/checkout@")


def _list(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
