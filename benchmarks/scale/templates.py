"""Real results -> the text of made-up ones, as the harness writes it, with a mark where the cell stands."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record, outputs_of

_CELL = "@CELL@"
_VARIANTS = 4  # of each result: with other errors and times
_ERRORS = ("max_abs", "mean_abs", "rel_fro", "noise_ratio")
_CASE = re.compile(r"\t\t<testcase .*?\t\t</testcase>\n", re.DOTALL)
_COUNTS = re.compile(r'tests="\d+" errors="\d+" failures="\d+" skipped="\d+" time="[^"]*"')
_END = "\t\t\t</properties>\n"
_CANARIES = "".join(f'\t\t\t\t<property name="metric.canary.{name}" value="6.0"/>\n' for name in ("injected", "caught"))
_KNOWN = "no such function in this compiler"
_Operator = tuple[str, str]


@dataclass(frozen=True)
class Templates:
    """The texts by kind, operator and name; ``outputs`` are those that every result of an operator has."""

    outputs: Mapping[_Operator, Sequence[str]]
    names: Sequence[str]
    seeds: int
    known: str
    texts: Mapping[tuple[str, _Operator, str], Sequence[str]]

    def choose(self, random: Random, kind: str, operator: _Operator, name: str) -> str:
        """Return one of the texts of a kind of result. What was emulated, and what carries canaries, differs little."""
        action, carries, _ = kind.partition(" with canaries")
        text = random.choice(self.texts["run" if action == "emulate" else action, operator, name])
        if action == "emulate":
            text = text.replace('"action" value="run"', '"action" value="emulate"', 1)
        return text.replace(_END, f"{_CANARIES}{_END}", 1) if carries else text

    def write(self, path: Path, job: str, facts: Mapping[str, str], cases: Sequence[str]) -> None:
        """Write the file of a job, as :func:`kernel_matrix.store.junit.write` does it of records."""
        junit.write(path, job, [Record("@", "pass")], facts)
        text = path.read_text(encoding="utf-8")
        elements = ("error", "failure", "skipped")
        counts = [len(cases), *(sum(f"<{element}" in case for case in cases) for element in elements)]
        named = zip(("tests", "errors", "failures", "skipped"), counts, strict=True)
        text = _COUNTS.sub(" ".join(f'{name}="{count}"' for name, count in named) + ' time="364.7"', text, count=1)
        head, _, end = re.split(f"({_CASE.pattern})", text, flags=re.DOTALL)
        write_atomically(path, "".join((head, *cases, end)))


def templates_of(
    operators: Iterable[_Operator], names: Sequence[str], seeds: int, like: Sequence[Record], random: Random
) -> Templates:
    """Return the texts that results are made of.

    Raises:
        UserError: no result of an operator ran.
    """
    outputs: dict[_Operator, Sequence[str]] = {}
    texts: dict[tuple[str, _Operator, str], Sequence[str]] = {}
    compiled = [r for r in like if r.outcome == "pass" and r.action == "compile" and r.metrics.get("artifact.bytes")]
    wrong = [r for r in like if r.outcome == "error" and r.message]
    if not compiled or not wrong:
        raise UserError("--like: the results must have some that compiled, and some errors.")
    for operator in operators:
        ran = {dtype: _that_ran(like, operator, dtype) for dtype in ("fp32", "bf16")}
        plain = [_plain(r) for r in (*ran["fp32"], *ran["bf16"])]
        if not plain:
            raise UserError(f"--like: no result of {'.'.join(operator)} ran and passed.")
        outputs[operator] = plain[0]
        pools = {dtype: [r for r in ran[dtype] or ran["fp32"] if _plain(r) == plain[0]] for dtype in ran}
        records = []
        for name in names:
            base = random.choice(pools[name.split("-")[1]] or pools["fp32"])
            records += _records(name, base, random.choice(compiled), random.choice(wrong), random)
        blocks = _blocks([record for _, record in records])
        for (kind, record), block in zip(records, blocks, strict=True):
            texts[kind, operator, record.case.rpartition("/")[2]] = [
                *texts.get((kind, operator, record.case.rpartition("/")[2]), ()),
                block,
            ]
    return Templates(outputs, names, seeds, _KNOWN, texts)


def _that_ran(like: Sequence[Record], operator: _Operator, dtype: str) -> list[Record]:
    """Return real results of an operator whose figures are in order."""
    part = f"/{'.'.join(operator)}/"
    return [
        record
        for record in like
        if record.outcome == "pass" and record.action == "run" and part in record.case and f"-{dtype}-" in record.case
    ]


def _plain(record: Record) -> Sequence[str]:
    """Return the outputs of a record without those of variants."""
    return sorted(name for name in outputs_of(record.metrics) if "@" not in name)


def _records(name: str, base: Record, compiled: Record, wrong: Record, random: Random) -> list[tuple[str, Record]]:
    """Return all kinds of results of one name, several of each."""
    case, facts = f"{_CELL}/{name}", {"inputs.sha256": sha256(name.encode()).hexdigest()[:16], "process": "own"}
    metrics = {key: value for key, value in base.metrics.items() if not key.startswith(("canary.", "time."))}
    made: list[tuple[str, Record]] = []
    for _ in range(_VARIANTS):
        figures = _with_other_errors(metrics, random.uniform(0.6, 1.0))
        ran = Record(case, "pass", "run", seconds=random.uniform(0.2, 5.0), metrics=figures, facts=facts)
        made += [("run", ran)]
        made += [("compile", replace(compiled, case=case, seconds=random.uniform(1.0, 30.0)))]
    ran = replace(ran, metrics=metrics)
    over = "out: max_abs 1 is over its limit"
    made += [
        ("error", replace(wrong, case=case)),
        ("known", Record(case, "error", "compile", "lower", f"ValueError: {_KNOWN}", wrong.detail)),
        ("fail", replace(ran, outcome="fail", message=over)),
        ("flaky", replace(ran, attempts=("error:launch",))),
        ("unavailable", Record(case, "unavailable", message="this machine has no device for it")),
        ("excluded", Record(case, "excluded", message="It is too large.")),
        ("other inputs", replace(ran, facts={**facts, "inputs.sha256": "0" * 16})),
    ]
    return made


def _with_other_errors(metrics: Mapping[str, float], factor: float) -> dict[str, float]:
    return {k: v * factor if k.rpartition(".")[2] in _ERRORS else v for k, v in metrics.items()}


def _blocks(records: Sequence[Record]) -> list[str]:
    """Return the text of each record, as the harness writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.xml")
        blocks = []
        for place in range(0, len(records), 25):  # the writer's statistics take longer the more cases a suite has
            junit.write(path, "texts", records[place : place + 25], {"job": "texts"})
            blocks += _CASE.findall(path.read_text(encoding="utf-8"))
        return blocks
