"""The states of Slurm's jobs and the reasons why they wait -> the status of a row. Pure functions."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kernel_matrix.machines.job_status import JobStatus

_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_CONCLUSIONS = {
    "COMPLETED": "success",
    "FAILED": "failure",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timed_out",
    "DEADLINE": "never_started",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
}
# What no time mends. Other reasons end by themselves, or when somebody repairs a node or a limit is free again.
_FOR_EVER = re.compile(
    r"BadConstraints|InvalidAccount|InvalidQOS|(Account|Qos|QOS)NotAllowed|DependencyNeverSatisfied|"
    r"Partition(Node|Time)Limit|MaxMemPerLimit|BurstBufferStageIn|"
    r"(Assoc|QOS)(Max|Grp)\w*(PerJob|WallDuration)\w*|(Assoc|QOS)MaxWall\w*|"
    r"launch[ _]failed[ _]requeued[ _]held|AccountingPolicy"
)


def status_of(row: str, state: str, *, submitted: str, start: str, end: str, nodes: str, reason: str) -> JobStatus:
    """Return the status of a row's job. The times are seconds since 1970."""
    word = state.split()[0].rstrip("+")  # sacct: CANCELLED by 1000
    if word in _WAITING:
        why = "" if reason in ("None", "(null)") else reason
        return JobStatus(row=row, status="queued", created=_time(submitted), why=why[:300])
    machine = "" if nodes in ("", "(null)", "None assigned", "n/a") else nodes
    facts = {"created": _time(submitted), "started": _time(start) if machine else "", "machine": machine[:200]}
    if word not in _CONCLUSIONS:  # RUNNING, COMPLETING, SUSPENDED and others of a job that has a node
        return JobStatus(row=row, status="running", **facts)
    return JobStatus(row=row, status="completed", conclusion=_CONCLUSIONS[word], ended=_time(end), **facts)


def never_starts(reason: str) -> bool:
    """Return whether a job that waits for this reason waits for ever."""
    return bool(_FOR_EVER.search(reason))


def _time(seconds: str) -> str:
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds.isdigit() else ""
