"""The state of each case, by counting over the raw results: the second opinion on the judge."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

from kernel_matrix.audit.code_limits import state_by_code
from kernel_matrix.audit.peers import far_off, has_impossible_samples, lacking
from kernel_matrix.audit.plan import Facts, holds
from kernel_matrix.audit.raw import Raw, is_asserted
from kernel_matrix.audit.untrusted_jobs import faulty
from kernel_matrix.base import git
from kernel_matrix.base.patterns import is_found
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.reads import Checkout
from kernel_matrix.vendors.registry import vendor_named

_ACTIONS = ("", "compile", "emulate", "run")
_OUTCOMES = ("excluded", "unavailable", "missing", "pass", "error", "fail")
_MADE_FROM = ("floor_max_abs", "floor_rel_fro", "conditioning_max_abs", "conditioning_rel_fro", "unit", "steps",
              "largest", "itemsize")  # fmt: skip
_OWED = ("elements", "nan", "inf", "max_abs", "rel_fro", "limit_max_abs", "limit_rel_fro", *_MADE_FROM)


class Now(NamedTuple):
    """The present: the time, the digests of the locks by platform and toolchain, what jobs read."""

    time: datetime
    locks: Mapping[tuple[str, str], Collection[str]]
    checkout: Checkout | None = None


class Judge:
    """Say which states the page may give to a case, and which of its raw results may decide it."""

    def __init__(
        self,
        matrix: Mapping[str, Any],
        cases: Mapping[str, Facts],
        raws: Mapping[str, list[Raw]],
        now: Now,
        told: Mapping[str, list[Raw]] | None = None,
    ) -> None:
        """Take matrix.yaml's plain content, the planned cases, raw results, the present, and results of others."""
        self.matrix, self.cases, self.now = matrix, cases, now
        self.raws = {case: raws.get(case, []) for case in cases}
        of_jobs: dict[tuple[str, str, bool], bool] = {}  # every result of a job is as fresh as the others
        self.fresh: dict[int, bool] = {}
        for raw in (raw for group in self.raws.values() for raw in group):
            key = raw.run, raw.case.split("/")[2], _has_environment(raw)
            if raw.outcome in ("pass", "fail", "error") and key not in of_jobs:
                of_jobs[key] = self._fresh(raw)
            self.fresh[id(raw)] = of_jobs[key] if raw.outcome in ("pass", "fail", "error") else True
        self.inputs = self._common_inputs()
        self.faulty = faulty(raws, cases, lambda case, raw: not self._has_other_inputs(case, raw), self.fresh)
        self.medians = self._medians()
        self.unlike = self._unlike()
        self.others = Judge(matrix, cases, told, now) if told else None  # a result counts among its like alone
        self.fresh |= self.others.fresh if self.others else {}

    def shown_as(self, case: str, _result: Mapping[str, Any]) -> list[tuple[str, Raw | None]]:
        """Return the states that a case may have, each with the raw result that gives it.

        What the page shows counts only where not all results are known (:class:`.job_sample.SampleJudge`).
        """
        own = self.allowed(case)
        words = self.others.allowed(case) if self.others and any(map(_says_less, own)) else []
        ran = [raw for state, raw in words if raw and raw.action == "run" and state in ("pass", "held")]
        told = [raw for raw in ran if not self._has_other_inputs(case, raw)]
        if told and len(told) == len(words):  # a row plan may say that a case is missing
            own = [pair for pair in own if pair[0] == "missing" or not _says_less(pair)]
        return [*own, *(("told", raw) for raw in told)]

    def is_fresh(self, case: str, raw: Raw) -> bool:
        """Return whether a case is not stale that is shown by this result.

        A case whose result is refused for its inputs is missing, and what is missing is never stale.
        """
        return True if self._has_other_inputs(case, raw) else self.fresh[id(raw)]

    def allowed(self, case: str) -> list[tuple[str, Raw | None]]:
        """Return the state of a case, with each raw result that may give it: several may weigh the same."""
        facts = self.cases[case]
        if any(holds(rule["where"], facts) for rule in self.matrix["exclusions"]):
            return [("excluded", None)]
        group = self.raws[case]
        if not group:
            return [("missing", None), ("unavailable", None)]
        taken = [raw for raw in group if not self._has_other_inputs(case, raw)]
        if not taken:
            return [("missing", group[0])]
        return [(self._state(case, raw), raw) for raw in self._deciding(taken)]

    def _deciding(self, taken: list[Raw]) -> list[Raw]:
        """Return the results that may decide a case: those that tried most.

        A stale one decides only if it tried more than all fresh ones, and the worst of these did not go wrong. A fresh
        emulation that went wrong counts as a run.
        """
        now = _heaviest([raw for raw in taken if self.fresh[id(raw)]], _counts_as_run)
        before = _heaviest([raw for raw in taken if not self.fresh[id(raw)]])
        if not now or not before:
            return now or before
        is_wrong = now[0].outcome in ("fail", "error")
        return now if is_wrong or _weight(now[0])[0] >= _weight(before[0])[0] else before

    def _state(self, case: str, raw: Raw) -> str:
        if raw.outcome in ("excluded", "missing"):
            return "missing"
        if raw.outcome == "unavailable":
            return "unavailable"
        versions = {key[8:]: value for key, value in raw.job.items() if key.startswith("version.")}
        expected = [rule for rule in self.matrix["expectations"]
                    if holds(rule["where"], self.cases[case]) and satisfies(rule["versions"], versions)
                    and not self._is_over(rule["until"], versions)]  # fmt: skip
        if raw.outcome == "pass":
            platform, _, toolchain = case.split("/")[:3]
            lane, job = f"{platform}.{toolchain}".split("."), raw.job.get("job", "").split(".")
            if raw.stage or raw.message or (raw.action and job != [""] and job[: len(lane)] != lane):
                good = "error"
            elif raw.action == "compile":
                kind = raw.facts.get("artifact.kind")
                level = "lowered" if kind and kind.endswith("-source") else "compiled"
                good = level if kind and raw.metrics.get("artifact.bytes") else "error"
            else:
                proven = "held" if _only_asserts(raw) else "pass"
                good = "error" if self._is_doubtful(case, raw) else proven
            good = good if good == "error" else self._by_code(case, raw) or good
            return good if good in ("error", "fail") else "fixed" if expected else "flaky" if raw.attempts else good
        for rule in expected:
            same = (rule["outcome"], rule["stage"] or "") == (raw.outcome, raw.stage)
            if same and is_found(rule["match"], raw.text):
                return "known"
        return raw.outcome

    def _by_code(self, case: str, raw: Raw) -> str:
        """Return the state that the limits of resources give to a case that passes; empty where it stays as it is."""
        if not self.matrix.get("resources"):
            return ""
        taken = [one for one in self.raws[case] if not self._has_other_inputs(case, one)]
        now = [one for one in taken if self.fresh[id(one)]]
        of_past = [] if self.fresh[id(raw)] else taken
        root = self.now.checkout.root if self.now.checkout else None
        return state_by_code(self.matrix["resources"], case, self.cases[case], now, of_past, root)

    def _is_over(self, until: str, versions: Mapping[str, str]) -> bool:
        """Return whether an expectation has ended: after a day, or with a version."""
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", until):
            return self.now.time.date().isoformat() > until
        return satisfies([until], versions)

    def _is_doubtful(self, case: str, raw: Raw) -> bool:
        """Return whether a result that says pass is no proof."""
        platform, target, toolchain, operator, _ = case.split("/")
        job, facts, outputs = raw.job, self.cases[case], raw.outputs
        entry = self._entry(platform, toolchain)
        vendor = vendor_named(device := self.matrix["platforms"][platform]["device"])
        instead = raw.action == "emulate" and target in vendor.stood_in_for  # less than the plan asks for, and true
        action = "emulate" if entry.get("emulated") or vendor.emulates or instead else "run"
        if not entry.get("runs", True):
            action = "emulate" if entry.get("emulator") else "compile"
        place = job.get("platform"), job.get("toolchain"), job.get("device.vendor"), raw.action
        if place != (platform, toolchain, device, action):
            return True
        if target not in job.get("device.targets", "").split() or raw.run in self.faulty:
            return True
        if _only_asserts(raw):
            return False
        if not outputs or (is_asserted(raw) and not raw.metrics.get("canary.injected")):
            return True
        owed = self._owed(operator, facts)
        for variant in {"", *(name[name.index("@") :] for name in outputs if "@" in name)}:
            if any(f"{name}{variant}" not in outputs for name in owed):
                return True
        if owed and any(name.split("@")[0] not in owed for name in outputs):
            return True
        if raw.metrics.get("elements") != sum(figures.get("elements", 0) for figures in outputs.values()):
            return True
        sums = self.matrix["ops"][operator.rpartition(".")[0]]["sums"]
        if any(self._grows(figures, is_sum=name.split("@")[0] in sums) for name, figures in outputs.items()):
            return True
        if has_impossible_samples(raw):
            return True
        wrong = any(self._is_wrong(operator, facts, name, figures) for name, figures in outputs.items())
        return wrong or self._is_out_of_line(case, raw)

    def _grows(self, figures: Mapping[str, float], *, is_sum: bool) -> bool:
        """Return whether the error of an output grows faster with the number of tokens than it may."""
        rules = self.matrix["accuracy"].get("growth")
        limit = rules["sums" if is_sum else "others"] if rules else figures.get("limit_growth", 0.0)
        return not figures.get("growth", 0.0) <= limit

    def _is_wrong(self, operator: str, facts: Facts, output: str, figures: Mapping[str, float]) -> bool:
        """Return whether the figures of an output are incomplete, impossible, or outside the limits made anew."""
        if any(not (math.isfinite(figures.get(name, math.nan)) and figures[name] >= 0) for name in _OWED):
            return True
        f = {name: figures[name] for name in _OWED}
        whole = all(f[name] == int(f[name]) for name in ("elements", "steps", "itemsize"))
        if not whole or min(f["elements"], f["steps"], f["unit"]) <= 0 or f["itemsize"] not in (1, 2, 4, 8):
            return True
        rules = self._rules(operator.rpartition(".")[0], facts["direction"], output.split("@")[0])
        top = f["largest"]
        step = rules["ulps"] * (2.0 ** (math.floor(math.log2(top)) - 23) if top else 0)
        noise = max(f["floor_max_abs"], f["conditioning_max_abs"], step)
        relative = max(f["floor_rel_fro"], f["conditioning_rel_fro"], rules["ulps"] * 2.0**-23)
        root = math.sqrt(f["steps"])
        cap = max(rules["cap"] * f["unit"], 0.125 * top if f["itemsize"] == 1 else 0.0)
        limit = min(cap, max(rules["factor"] * noise, root * f["conditioning_max_abs"]))
        factor = rules["rounded"] if f["itemsize"] < 4 else rules["factor"]
        other = max(factor * relative, root * f["conditioning_rel_fro"])
        if facts["direction"] == ASSERTED and "declared_max_abs" in figures:
            limit, other = min(cap, figures["declared_max_abs"]), figures.get("declared_rel_fro", 0.0)
        edited = abs(f["limit_max_abs"] - limit) > 1e-9 * limit or abs(f["limit_rel_fro"] - other) > 1e-9 * other
        over = f["max_abs"] > limit or f["rel_fro"] > other or f["nan"] + f["inf"] > 0
        norm = f["max_abs"] * math.sqrt(f["elements"])
        unlike = bool(top) and not norm / f["elements"] * 0.999999 <= f["rel_fro"] * top <= norm * 1.000001
        return edited or over or unlike or bool(top and other >= 1) or self._is_misrounded(facts, figures)

    def _is_misrounded(self, facts: Facts, figures: Mapping[str, float]) -> bool:
        """Return whether more elements are misrounded than may be, or a share of them that cannot be."""
        shares = [figures[name] for name in ("misrounded", "floor_misrounded") if name in figures]
        if not all(0 <= share <= 1 for share in shares):
            return True
        most = self._most_misrounded(facts, figures)
        if most is None:
            return False
        if len(shares) < 2:
            return True
        usual = figures["elements"] * max(most, 2 * figures["floor_misrounded"])
        return figures["misrounded"] * figures["elements"] > _by_luck(usual)

    def _rules(self, op: str, direction: str, output: str) -> dict[str, float]:
        """Return the limits of an output: its operator's own entries, each over the earlier ones, over the general."""
        limits = self.matrix["accuracy"]
        rules = {name: limits[name] for name in ("factor", "rounded", "ulps")} | {"cap": limits["caps"][direction]}
        for entry in limits.get("budgets", []):
            others = [entry["direction"] not in (None, direction), entry["output"] not in (None, output)]
            if entry["op"] == op and not any(others):
                rules.update({name: entry[name] for name in rules if name in entry})
        return rules

    def _owed(self, operator: str, facts: Facts) -> list[str]:
        op, _, direction = operator.rpartition(".")
        entries = (self.matrix["ops"][op].get("outputs") or {}).get(direction, [])
        pairs = [pair for entry in entries for pair in (entry.items() if isinstance(entry, dict) else [(entry, {})])]
        return [name for name, where in pairs if holds(where, facts)]

    def _entry(self, platform: str, toolchain: str) -> Mapping[str, Any]:
        entries = self.matrix["platforms"][platform]["toolchains"]
        return next((e for e in entries if isinstance(e, dict) and e["toolchain"] == toolchain), {})

    def _fresh(self, raw: Raw) -> bool:
        """Return whether a job is of the present."""
        platform, _, toolchain = raw.case.split("/")[:3]
        try:
            started = datetime.fromisoformat(raw.job.get("started", ""))
        except ValueError:
            return False
        started = started if started.tzinfo else started.replace(tzinfo=UTC)
        versions = {key[8:]: value for key, value in raw.job.items() if key.startswith("version.")}
        locks, lock = self.now.locks.get((platform, toolchain), ()), raw.job.get("lock.sha256", "")
        has_none = not lock and raw.job.get("executor") in ("current", "another tool")
        requires = self.matrix["toolchains"][toolchain]["requires"]
        if started > self.now.time + timedelta(minutes=10) or (locks and lock not in locks and not has_none):
            return False
        root, commit = self.now.checkout and self.now.checkout.root, raw.job.get("commit", "").split("+")[0]
        if root and (made := git.made(root, commit)) and (made - started).total_seconds() > 600:
            return False
        if _has_environment(raw) and requires and (not versions or not satisfies(requires, versions)):
            return False
        return not (self.now.checkout and self.now.checkout.difference(platform, toolchain, raw.job))

    def _of_all_cells(self) -> dict[tuple[str, ...], list[Raw]]:
        """Return the raw results of the same inputs: the results of an operator's case in all cells."""
        groups: dict[tuple[str, ...], list[Raw]] = {}
        for case, raws in self.raws.items():
            groups.setdefault(_inputs(case), []).extend(raws)
        return groups

    def _common_inputs(self) -> dict[tuple[str, ...], str]:
        common = {}
        for inputs, raws in self._of_all_cells().items():
            for pool in ([raw for raw in raws if self.fresh[id(raw)]], raws):
                votes = Counter(d for raw in pool if (d := raw.facts.get("inputs.sha256"))).most_common(2)
                if votes:
                    tied = len(votes) == 2 and votes[0][1] == votes[1][1]
                    common[inputs] = "" if tied else votes[0][0]
                    break
        return common

    def _has_other_inputs(self, case: str, raw: Raw) -> bool:
        digest = raw.facts.get("inputs.sha256")
        common = self.inputs.get(_inputs(case))
        return bool(digest) and common is not None and digest != common

    def _medians(self) -> dict[tuple[Any, ...], dict[str, float]]:
        groups: dict[tuple[Any, ...], list[dict[str, float]]] = {}
        for case, raws in self.raws.items():
            for raw in raws:
                if raw.action not in ("run", "emulate") or self._has_other_inputs(case, raw) or _draws_alone(raw):
                    continue
                whole = {
                    name: f
                    for name, f in raw.outputs.items()
                    if all(math.isfinite(f.get(k, math.nan)) for k in _MADE_FROM)
                    and math.isfinite(f.get("elements", 0) + f.get("floor_misrounded", 0))
                }
                for name in dict.fromkeys(name.split("@")[0] for name in whole):
                    chosen = whole.get(name) or next(f for other, f in whole.items() if other.split("@")[0] == name)
                    groups.setdefault((_inputs(case), name, not self.fresh[id(raw)]), []).append(chosen)
        keys = ("elements", "floor_misrounded", *_MADE_FROM)
        return {k: {n: median(f.get(n, 0) for f in fs) for n in keys} for k, fs in groups.items() if len(fs) >= 3}

    def _unlike(self) -> set[int]:
        """Return the identities of the results that lack what others of their case have, or have far samples."""
        groups: dict[tuple[Any, ...], list[Raw]] = {}
        for case, raws in self.raws.items():
            for raw in raws:
                ran = raw.outcome == "pass" and raw.action in ("run", "emulate")
                if ran and not self._has_other_inputs(case, raw):
                    groups.setdefault((_inputs(case), not self.fresh[id(raw)]), []).append(raw)
        every = groups.values()
        without = {one for group in every if not is_asserted(group[0]) for one in lacking(group)}
        return without | {one for group in every for one in far_off(group)}

    def _is_out_of_line(self, case: str, raw: Raw) -> bool:
        if id(raw) in self.unlike:
            return True
        for name, figures in raw.outputs.items() if not _draws_alone(raw) else ():
            usual = self.medians.get((_inputs(case), name.split("@")[0], not self.fresh[id(raw)]))
            if usual and (_differs(figures, usual, self.matrix["accuracy"]["ulps"])
                          or self._rounds_otherwise(case, figures, usual)):  # fmt: skip
                return True
        return False

    def _rounds_otherwise(self, case: str, figures: Mapping[str, float], usual: Mapping[str, float]) -> bool:
        """Return whether the baseline has more misrounded elements than the other results' baselines let it have."""
        most = self._most_misrounded(self.cases[case], figures)
        if most is None or "floor_misrounded" not in figures:
            return False
        elements = figures["elements"]
        return figures["floor_misrounded"] * elements > _by_luck(elements * max(most, 2 * usual["floor_misrounded"]))

    def _most_misrounded(self, facts: Facts, figures: Mapping[str, float]) -> float | None:
        """Return the share of elements that may be misrounded; None where there is no such limit."""
        declared = facts["direction"] == ASSERTED and "declared_max_abs" in figures
        narrow = figures["itemsize"] < 4
        return self.matrix["accuracy"].get("misrounded") if narrow and not declared else None


def _by_luck(usual: float) -> float:
    """Return how many elements there may be where so many are usual."""
    return usual + 4 * math.sqrt(usual) + 2


def _has_environment(raw: Raw) -> bool:
    """Return whether the environment of a job was made, and a case begun in it: it has versions then."""
    return raw.outcome != "error" or (raw.stage != "install" and raw.action != "")


def _says_less(pair: tuple[str, Raw | None]) -> bool:
    """Return whether a state gives way to the word of a person outside the project: nothing red, and no run."""
    return pair[0] in ("unavailable", "lowered", "compiled") or pair == ("missing", None)


def evidence_of(state: str, raw: Raw) -> str:
    """Return the evidence of a case in a state that a raw result gives it."""
    if state == "told":
        return "told"
    if state in ("missing", "unavailable", "excluded", "error") or raw.outcome == "error":
        return "planned"
    if raw.action == "compile":
        kind = raw.facts.get("artifact.kind")
        if not kind or not raw.metrics.get("artifact.bytes"):
            return "planned"
        return "lowered" if kind.endswith("-source") else "compiled"
    if _only_asserts(raw) and raw.action:
        return "held"
    return {"run": "ran", "emulate": "emulated"}.get(raw.action, "planned")


def _differs(figures: Mapping[str, float], usual: Mapping[str, float], ulps: float) -> bool:
    exact = any(figures[name] != usual[name] for name in ("elements", "steps", "itemsize"))
    near = {"unit": 1e-6, "largest": 1e-3, "conditioning_max_abs": 1e-3, "conditioning_rel_fro": 1e-3}
    if exact or any(abs(figures[name] - usual[name]) > part * usual[name] for name, part in near.items()):
        return True
    top = usual["largest"]
    step = ulps * (2.0 ** (math.floor(math.log2(top)) - 23) if top else 0)
    noise = max(usual["floor_max_abs"], usual["conditioning_max_abs"], step)
    relative = max(usual["floor_rel_fro"], usual["conditioning_rel_fro"], ulps * 2.0**-23)
    return figures["floor_max_abs"] > 4 * noise or figures["floor_rel_fro"] > 4 * relative


def _only_asserts(raw: Raw) -> bool:
    return is_asserted(raw) and not raw.outputs and "elements" not in raw.metrics


def _draws_alone(raw: Raw) -> bool:
    """Return whether other results of the case need not have had the same inputs."""
    return is_asserted(raw) and "inputs.sha256" not in raw.facts


def _inputs(case: str) -> tuple[str, ...]:
    return tuple(case.split("/")[3:])


def _heaviest(raws: list[Raw], is_run: Callable[[Raw], bool] = lambda _: False) -> list[Raw]:
    """Return the results that tried most, and of these the worst. What ``is_run`` says of counts as a run."""
    weights = [(_ACTIONS.index("run"), _weight(raw)[1]) if is_run(raw) else _weight(raw) for raw in raws]
    return [raw for raw, weight in zip(raws, weights, strict=True) if weight == max(weights)]


def _counts_as_run(raw: Raw) -> bool:
    """Return whether a result is an emulation that went wrong."""
    return raw.action == "emulate" and raw.outcome in ("error", "fail")


def _weight(raw: Raw) -> tuple[int, int]:
    action = _ACTIONS.index(raw.action) if raw.action in _ACTIONS else 0
    return action, _OUTCOMES.index(raw.outcome)
