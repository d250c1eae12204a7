"""Kubernetes: one indexed Job for each kind of machine, whose pods have no container engine; and the report's Job.

The volume has the checkout with the plan, and gets the results. A pod that is evicted, or whose node fails, begins
again on another node and keeps what it had finished. A red row is no failure of its pod: its results say that.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from hashlib import sha256
from typing import Any

from kernel_matrix.base.commands import command
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.services import PLAN, block_style, command_of, minutes, started
from kernel_matrix.config.model import Kubernetes, Matrix, Pod
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.run.proven import KEY

_PLACE, _USER, _TRIES, _KEPT_SECONDS = "/work", 1000, 3, 7 * 86400
_SECRET = "kernel-matrix-key"  # noqa: S105  the name of the secret by which a pod believes what another one has finished
_UID = "metadata.labels['batch.kubernetes.io/controller-uid']"
_BEGUN = 'begun="build/pods/$JOB_UID-$JOB_COMPLETION_INDEX"; again=; if [ -e "$begun" ]; then again=--resume; fi'


def render(matrix: Matrix, row_plan: RowPlan) -> str:
    """Return the Jobs, as a List that kubectl applies.

    Raises:
        UserError: matrix.yaml does not say which image and which volume.
    """
    asked = matrix.ci.kubernetes
    if asked is None:
        raise UserError("ci.kubernetes: matrix.yaml has no such entry. It names the image and the claim of a volume.")
    kinds: dict[tuple[str, tuple[str, ...]], list[Row]] = defaultdict(list)
    for row in started(row_plan):
        target = next(case.cell.target for job in row.jobs for case in job.cases)
        if row.own and target not in asked.targets:
            raise UserError(
                f"ci.kubernetes.targets: '{target}' has a machine, and no entry here says what its pods ask for."
            )
        kinds[target if row.own else "", row.labels].append(row)
    name = f"kernel-matrix-{sha256(repr(sorted(row.id for row in started(row_plan))).encode()).hexdigest()[:8]}"
    jobs = [
        _rows(matrix, f"{name}-{number}", _pod_of(asked, target), asked.claim, rows)
        for number, ((target, _), rows) in enumerate(kinds.items())
    ]
    line = command(["report", "--plan", PLAN, "build/results"])
    report = _job(f"{name}-report", "report", asked.model_copy(update={"resources": {}}), asked.claim, line, 7200)
    report["spec"]["suspend"] = True  # until all rows have ended: a Job cannot wait for others
    return block_style({"apiVersion": "v1", "kind": "List", "items": [*jobs, report]})


def _pod_of(asked: Kubernetes, target: str) -> Pod:
    """Return what the rows of a target ask for; those without a target of their own ask for no device."""
    common = {name: getattr(asked, name) for name in Pod.model_fields}
    own = asked.targets[target].model_dump(exclude_unset=True) if target else {"resources": {}, "nodes": {}}
    pod = Pod(**{**common, **own})
    if not pod.image:
        raise UserError(f"ci.kubernetes{f'.targets.{target}' if target else ''}: 'image' is missing. Rows run in it.")
    return pod


def _rows(matrix: Matrix, name: str, pod: Pod, claim: str, rows: list[Row]) -> dict[str, Any]:
    """Return the Job of rows that ask for the same. Each index is a row."""
    commands = [shlex.quote(command_of(row, installed=True)) for row in rows]
    lines = [
        "rows=(",
        *commands,
        ")",
        _BEGUN,
        'mkdir -p build/pods && touch "$begun"',
        "${rows[JOB_COMPLETION_INDEX]} $again",
        "status=$?",
        "if [ $status -le 1 ]; then exit 0; else exit $status; fi",  # 1: something is red
    ]
    job = _job(name, "rows", pod, claim, "\n".join(lines), 60 * max(minutes(matrix, row) for row in rows))
    again = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    never = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2]}}  # the input cannot be used
    indexed = {"completionMode": "Indexed", "completions": len(rows), "parallelism": len(rows)}
    job["spec"] = {**indexed, "backoffLimitPerIndex": _TRIES - 1, "podFailurePolicy": {"rules": [again, never]}} | job[
        "spec"
    ]
    return job


def _job(name: str, part: str, pod: Pod, claim: str, line: str, seconds: int) -> dict[str, Any]:
    """Return a Job whose pods run lines of shell in the checkout."""
    labels = {"app.kubernetes.io/name": "kernel-matrix", "kernel-matrix/part": part}
    key = {"secretKeyRef": {"name": _SECRET, "key": "key", "optional": True}}
    container = {
        "name": part,
        "image": pod.image,
        "command": ["bash", "-c", line],
        "workingDir": _PLACE,
        "env": [
            {"name": "JOB_UID", "valueFrom": {"fieldRef": {"fieldPath": _UID}}},
            {"name": KEY, "valueFrom": key},
        ],
        "resources": {"limits": {**_size(pod), **pod.resources}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "work", "mountPath": _PLACE}]
        + [{"name": mount, "mountPath": path} for mount, path in (("tmp", "/tmp"), ("shm", "/dev/shm"))],  # noqa: S108
    }
    template = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": seconds,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER}
        | {"seccompProfile": {"type": "RuntimeDefault"}},
        **({"nodeSelector": dict(pod.nodes)} if pod.nodes else {}),
        "containers": [container],
        "volumes": [
            {"name": "work", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }
    pods = {"metadata": {"labels": {**labels}}, "spec": template}
    spec = {"ttlSecondsAfterFinished": _KEPT_SECONDS, "template": pods}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _size(pod: Pod) -> dict[str, str]:
    size = {"cpu": str(pod.cpus or ""), "memory": pod.memory}
    return {name: value for name, value in size.items() if value}
