"""Check a pipeline of GitLab or Buildkite: it fails where what it tests failed, and where it could not plan.

People require its status for merging. ``workflow_policy.py`` asks the same of GitHub's workflows, and calls this for
the pipelines of the docs. The tests ask it of what ``ci plan`` renders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_RESERVED = {"stages", "variables", "workflow", "default", "include"}  # keys of GitLab that are no jobs
_HIDING = ("|| true", "|| :", "set +e", "exit 0")
_OPTIONAL = "buildkite-agent artifact download "  # of results there need be none, and the agent fails then


def violations(service: str, pipeline: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each place where a pipeline of ``gitlab`` or ``buildkite`` hides a failure."""
    return list({"gitlab": _gitlab, "buildkite": _buildkite}[service](pipeline))


def _gitlab(pipeline: Mapping[str, Any]) -> Iterator[str]:
    jobs = {name: job for name, job in pipeline.items() if name not in _RESERVED and not name.startswith(".")}
    for name, job in jobs.items():
        if job.get("allow_failure", False) is not False:
            yield f"{name}: allow_failure: its failure makes no pipeline red. Take it out."
        for key in sorted({"rules", "only", "except"} & job.keys()):
            yield f"{name}: {key}: a job that is left out counts as a success. Take it out."
        if job.get("when", "on_success") not in ("on_success", "always"):
            yield f"{name}: when: {job['when']}: a job that does not start counts as a success. Take it out."
        if any(isinstance(need, Mapping) and need.get("optional") for need in job.get("needs", [])):
            yield f"{name}: needs: what is optional may be missing. Take 'optional' out."
        if "trigger" in job and _mapping(job["trigger"]).get("strategy") not in ("depend", "mirror"):
            yield f"{name}: trigger: it is green before its child has ended. Write strategy: depend"
        yield from _hiding(name, job.get("script", []))
    report = jobs.get("report")
    if report is not None and (report.get("when") != "always" or "needs" in report):
        yield "report: it says what happened also where a job failed, and has all results: when: always, no 'needs'."


def _buildkite(pipeline: Mapping[str, Any]) -> Iterator[str]:
    before: Mapping[str, Any] = {}
    for step in pipeline["steps"]:
        name = str(step.get("label", "a step"))
        if step.get("soft_fail", False) is not False:
            yield f"{name}: soft_fail: its failure makes no build red. Take it out."
        for key in sorted({"if", "if_changed", "branches", "skip"} & step.keys()):
            yield f"{name}: {key}: a step that is left out counts as a success. Take it out."
        if step.get("async"):
            yield f"{name}: async: it is green before what it triggers has ended. Take it out."
        if name == "report" and before.get("continue_on_failure") is not True:
            yield "report: it says what happened also where a row failed: {wait: null, continue_on_failure: true}"
        yield from _hiding(name, step.get("command") or step.get("commands") or [])
        before = step


def _hiding(name: str, script: str | Iterable[str]) -> Iterator[str]:
    for line in script.splitlines() if isinstance(script, str) else script:
        for word in _HIDING:
            if word in line and not line.startswith(_OPTIONAL):
                yield f"{name}: '{word}' hides failures. Let it fail."


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
