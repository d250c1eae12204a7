"""The jobs whose comparison is not trusted: they missed a canary, or lack canaries that they owe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kernel_matrix.audit.plan import Facts
from kernel_matrix.audit.raw import Raw, is_asserted

_Group = tuple[str, str]  # a cell and a dtype


def faulty(
    every: Mapping[str, list[Raw]],
    cases: Mapping[str, Facts],
    taken: Callable[[str, Raw], bool],
    fresh: Mapping[int, bool],
) -> set[str]:
    """Return the runs of the jobs that are not trusted.

    Canaries are counted in ``every`` result of a case. They are owed by the results of the planned ``cases`` that are
    ``taken``. A job whose results are stale owes one in any result: which cases carried them then nobody knows. What is
    ``fresh`` is by the identity of a result.
    """
    counted: dict[str, list[Raw]] = {}
    for case, raws in every.items():
        for raw in raws if not case.startswith(("probe/", "bench:")) else ():
            counted.setdefault(raw.run, []).append(raw)
    with_canaries = {run for run, raws in counted.items() if any(map(_injected, raws))}
    owing: dict[str, list[tuple[_Group, Raw]]] = {}
    for case, facts in cases.items():
        group = case.rpartition("/")[0], str(facts.get("dtype"))
        for raw in every.get(case, ()):
            is_stale = not fresh[id(raw)] and raw.run in with_canaries
            if not is_stale and taken(case, raw):
                owing.setdefault(raw.run, []).append((group, raw))
    missing = {run for run, raws in counted.items() if _missed(raws)}
    return missing | {run for run, members in owing.items() if _lacks(members)}


def _injected(raw: Raw) -> bool:
    return raw.metrics.get("canary.injected", 0) > 0


def _missed(raws: Iterable[Raw]) -> bool:
    """Return whether the results of a job say that a canary was missed, or other counts than the job says."""
    total = caught = 0
    told: dict[str, str] = {}
    for raw in raws:
        mine = raw.metrics.get("canary.injected", 0), raw.metrics.get("canary.caught", 0)
        if not 0 <= mine[1] <= mine[0] or mine[0] != int(mine[0]) or mine[1] != int(mine[1]):
            return True
        total += int(mine[0])
        caught += int(mine[1])
        told = {key: raw.job[key] for key in ("canary.injected", "canary.caught") if key in raw.job}
    differs = total and told and told != {"canary.injected": str(total), "canary.caught": str(caught)}
    return caught < total or bool(differs)


def _lacks(members: Iterable[tuple[_Group, Raw]]) -> bool:
    """Return whether a group of results of a job passed, and none of them carried a canary."""
    carrying, passed, wrong = set(), set(), set()
    for group, raw in members:
        if _injected(raw):
            carrying.add(group)
        if raw.outcome not in ("pass", "excluded"):
            wrong.add(group)
        elif raw.outcome == "pass" and raw.action in ("run", "emulate") and not is_asserted(raw):
            passed.add(group)
    return bool(passed - wrong - carrying)
