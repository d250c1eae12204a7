"""The nodes that ``sinfo`` lists, and whether they have what batches ask for. Pure functions of sinfo's text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.ci.engines import Fitted
from kernel_matrix.ci.engines.batches import parts
from kernel_matrix.ci.engines.state import Batch

FORMAT = "%N|%P|%a|%t|%c|%m|%G|%f|%l"
_GRES = re.compile(r"([\w.-]+)(?::([A-Za-z_][\w.+-]*))?(?::(\d+))?(?:\(.*)?")
_FEATURE = re.compile(r"[A-Za-z_][\w.+:-]*")
_OUT = ("down", "drain", "drng", "fail", "maint", "unk", "inval")  # how states begin
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}  # in MiB


@dataclass(frozen=True)
class Node:
    """A node of a partition, as sinfo lists it."""

    name: str
    partition: str
    is_default: bool
    is_out: bool  # or its partition
    cpus: int
    memory: float  # MiB
    gres: dict[tuple[str, str], int]  # by name and type
    features: frozenset[str]
    minutes: float | None  # the partition's limit


def parse(text: str) -> list[Node]:
    """Return the nodes of sinfo's lines in :data:`FORMAT`."""
    return [node for line in text.splitlines() if (node := _node(line.split("|")))]


def _node(fields: Sequence[str]) -> Node | None:
    if len(fields) != 9:
        return None
    name, partition, up, state, cpus, memory, gres, features, limit = (field.strip() for field in fields)
    found: Counter[tuple[str, str]] = Counter()
    for one in re.split(r",(?![^(]*\))", gres):
        if (match := _GRES.fullmatch(one.replace(":no_consume", ""))) and one != "(null)":
            found[match[1], match[2] or ""] += int(match[3] or 1)
    return Node(
        name=name,
        partition=partition.removesuffix("*"),
        is_default=partition.endswith("*"),
        is_out=up != "up" or state.startswith(_OUT) or state.endswith("*"),
        cpus=int(re.sub(r"\D.*", "", cpus) or 0),
        memory=float(re.sub(r"\D.*", "", memory) or 0),
        gres=dict(found),
        features=frozenset(_FEATURE.findall(features)) if features != "(null)" else frozenset(),
        minutes=limit_of(limit),
    )


def limit_of(text: str) -> float | None:
    """Return the minutes of a time limit, such as ``1-02:00:00``; None where there is none."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 1440 * days + 60 * hours + minutes + seconds / 60


def gres_of(asked: str) -> tuple[str, str, int]:
    """Return name, type and number of a device that is asked for; of one that names no number, one."""
    name, *rest = asked.removeprefix("gres:").split(":")
    number = int(rest.pop()) if rest and rest[-1].isdigit() else 1
    return name, rest[0] if rest else "", number


def fit(batches: Sequence[Batch], nodes: Sequence[Node], longest: int) -> Fitted:
    """Return the batches with times that their partitions allow, and a sentence for all that no node has.

    Each has at most ``longest`` rows: the cluster takes no longer array.
    """
    fitted: list[Batch] = []
    changed, lacking = [], []
    for batch in batches:
        fault, left = _left(batch, nodes)
        if fault:
            lacking.append(f"{_who(batch)}: {fault}")
            continue
        if all(node.is_out for node in left):
            names = ", ".join(sorted({node.name for node in left})[:5])
            changed.append(f"{_who(batch)}: every node for it is down or drained ({names}): its rows wait for one")
        limit = max((node.minutes for node in left if node.minutes), default=None)
        if limit and limit < batch.minutes and None not in {node.minutes for node in left}:
            why = "measured times ask for" if batch.measured else "the limits of matrix.yaml allow"
            changed.append(
                f"{_who(batch)}: {why} {batch.minutes} minutes, and the partition {limit:g}: it asks for these"
            )
            batch = batch.model_copy(update={"minutes": int(limit)})
        fitted += parts(batch, longest)
    return Fitted(tuple(fitted), tuple(changed), tuple(lacking))


def _who(batch: Batch) -> str:
    return f"ci.slurm.targets.{batch.target}" if batch.target else "ci.slurm"


def _left(batch: Batch, nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    """Return the nodes that have all that a batch asks for; or what none has, in a sentence."""
    ask = batch.ask
    left, fault = _of_partition(ask.partition, nodes)
    if fault:
        return fault, []
    for keep in (_with_gres, _with_features, _with_cores):
        fault, left = keep(batch, left)
        if fault:
            return fault, []
    return "", left


def _of_partition(named: str, nodes: Sequence[Node]) -> tuple[list[Node], str]:
    known = {node.partition for node in nodes}
    names = [name for name in named.split(",") if name]
    for name in names:
        if name not in known:
            return [], f"the cluster has no partition '{name}'.{did_you_mean(name, known)}"
    if not names and not any(node.is_default for node in nodes):
        return [], f"the cluster has no default partition: name one in 'partition'.{did_you_mean('', known)}"
    return [node for node in nodes if node.partition in names or (not names and node.is_default)], ""


def _with_gres(batch: Batch, nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    if not batch.ask.gres:
        return "", [*nodes]
    name, kind, number = gres_of(batch.ask.gres)

    def has(node: Node) -> bool:
        counts = [count for (one, of), count in node.gres.items() if one == name and kind in ("", of)]
        return sum(counts) >= number

    left = [node for node in nodes if has(node)]
    asked = ":".join(filter(None, (name, kind)))
    there = f"There are: {_devices(nodes)}." if any(node.gres for node in nodes) else "They have no devices at all."
    return ("" if left else f"no node of its partition has {number} of {asked}. {there}"), left


def _devices(nodes: Iterable[Node]) -> str:
    counts = Counter(":".join(filter(None, key)) for node in nodes for key in node.gres)
    return ", ".join(f"{name} ({count} node{'s' * (count > 1)})" for name, count in sorted(counts.items()))


def _with_features(batch: Batch, nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    """Keep the nodes that have all features, where they are joined by '&'; otherwise each must be somewhere."""
    asked = batch.ask.constraint
    words = set(_FEATURE.findall(asked))
    known = {feature for node in nodes for feature in node.features}
    if absent := sorted(words - known):
        return f"no such node has the feature '{absent[0]}'.{did_you_mean(absent[0], known)}", []
    left = [node for node in nodes if words <= node.features] if not set("|[!*(") & set(asked) else [*nodes]
    return ("" if left else f"no one node has all of '{asked}'."), left


def _with_cores(batch: Batch, nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    ask, needed = batch.ask, _mebibytes(batch.ask.memory)
    left = [node for node in nodes if node.cpus >= (ask.cpus or 1) and (node.memory >= needed or not node.memory)]
    if left:
        return "", left
    cpus, memory = max(node.cpus for node in nodes), max(node.memory for node in nodes)
    return f"the largest such node has {cpus} cores and {memory / 1024:.1f} GiB: 'cpus' and 'memory' ask for more.", []


def _mebibytes(text: str) -> float:
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    return float(match[1]) * _UNITS[match[2] or "M"] if match else 0.0


def unused(batches: Iterable[Batch], nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the kinds of devices that the cluster has and no batch asks for."""
    asked = {gres_of(batch.ask.gres)[:2] for batch in batches if batch.ask.gres}
    for key in sorted({key for node in nodes for key in node.gres if key[0] == "gpu"}):
        if key not in asked and (key[0], "") not in asked:
            yield ":".join(filter(None, key))
