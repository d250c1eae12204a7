"""The cause and the remedy of an exact error, from rules that are data. The last error of a text decides.

A diagnosis is shown together with the raw error, never instead of it. An error that no rule matches is "not known".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.patterns import last_lines
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis.plain import decoded, plain
from kernel_matrix.diagnosis.rule import STAGES, Rule, Stage, harness_rules, layers, read_rules
from kernel_matrix.diagnosis.whole import cut, of_exception
from kernel_matrix.store.record import versions_of

__all__ = [
    "NOT_KNOWN",
    "STAGES",
    "Diagnosis",
    "Error",
    "Rule",
    "Rules",
    "Stage",
    "decoded",
    "diagnose",
    "diagnose_all",
    "in_words",
    "not_known",
    "rules_of",
    "says_no_device",
    "with_cause",
]

Versions = tuple[tuple[str, str], ...]  # of distributions, by name
Error = tuple[str, str, Versions]  # the text, the stage, and what was there
Rules = Callable[[], tuple[Rule, ...]]  # reads them, which takes long, where an error asks for them
NOT_KNOWN = "not known: no rule of the diagnosis matches this error"
_LONGEST = 400  # of a line that is shown
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)(?::|$)")
_CHAINED = "The above exception was the direct cause of the following exception"
_FOLLOWS = re.compile(
    r"Error building extension|CalledProcessError|non-zero exit|ChildFailedError|exit(?:ed with)? code"
)


@dataclass(frozen=True)
class Diagnosis:
    """The cause and the remedy of an error, and the name of the rule that matched."""

    rule: str
    cause: str
    remedy: str
    link: str
    general: bool = False


def rules_of(matrix: Matrix, root: Path) -> tuple[Rule, ...]:
    """Return the rules of the files that matrix.yaml names, in its order, and then those that every package shares.

    Of rules that match the same line, the first counts. The package's rules are the more particular ones.

    Raises:
        UserError: a file of rules cannot be used, or gives a rule a name that another one has.
    """
    rules: list[Rule] = []
    names = {rule.name for rule in harness_rules()}
    for file in matrix.package.rule_files:
        for rule in read_rules(root / file):
            if rule.name in names:
                raise UserError(f"{root / file}: another rule is called '{rule.name}' too. Give it another name.")
            names.add(rule.name)
            rules.append(rule)
    return (*rules, *harness_rules())


def diagnose(
    text: str, stage: str = "", job: Mapping[str, str] | None = None, rules: tuple[Rule, ...] | None = None
) -> Diagnosis | None:
    """Return the diagnosis of an error; None when no rule matches.

    Args:
        text: the exact error, or the log that ends with it.
        stage: where it happened; empty when that is not known.
        job: the facts of the job; only the ``version.NAME`` entries count.
        rules: the project's rules (:func:`rules_of`); by default the harness's own.
    """
    return _diagnose(text, stage, tuple(sorted(versions_of(job or {}).items())), rules or harness_rules())


@functools.lru_cache(maxsize=4096)  # a broken toolchain gives the same error for hundreds of cases
def _diagnose(text: str, stage: str, versions: Versions, rules: tuple[Rule, ...]) -> Diagnosis | None:
    return diagnose_all([(text, stage, versions)], rules)[0]


def diagnose_all(errors: Sequence[Error], rules: tuple[Rule, ...]) -> list[Diagnosis | None]:
    """Return the diagnosis of each error, as :func:`diagnose` does of one."""
    by_text: dict[str, list[int]] = {}
    for number, (text, *_) in enumerate(errors):
        by_text.setdefault(text, []).append(number)
    best: list[tuple[bool, int, Rule | None]] = [(False, 0, None)] * len(errors)
    texts, numbers = [*map(plain, by_text)], [*by_text.values()]
    found = last_lines([rule.match for rule in rules], texts)
    for of_rule, place, line in found:
        for number in numbers[place]:
            _, stage, versions = errors[number]
            rule = rules[of_rule]
            counts = rule.holds(stage, dict(versions)) and not (rule.general and line < _last_exception(texts[place]))
            if counts and (not rule.general, line) > best[number][:2]:
                best[number] = not rule.general, line, rule
    diagnoses = [_of_rule(rule) if rule else None for *_, rule in best]
    # Where no rule knows an error that was raised from another one, that one is its cause.
    again = [n for n, (text, *_) in enumerate(errors) if diagnoses[n] is None and _CHAINED in text]
    before = [(errors[n][0].rpartition(_CHAINED)[0], *errors[n][1:]) for n in again]
    for number, found_before in zip(again, diagnose_all(before, rules) if again else (), strict=True):
        diagnoses[number] = found_before
    return diagnoses


def _of_rule(rule: Rule) -> Diagnosis:
    return Diagnosis(rule.name, rule.cause, rule.remedy, rule.link, general=rule.general)


@functools.lru_cache(maxsize=256)
def _last_exception(text: str) -> int:
    """Return the last line with an exception of Python that says more than that another program failed."""
    numbered = [*enumerate(text.splitlines(), 1)]
    return next((n for n, line in reversed(numbered) if _EXCEPTION.match(line) and not _FOLLOWS.search(line)), 0)


def says_no_device(text: str, stage: str, rules: tuple[Rule, ...]) -> bool:
    """Return whether the rule that knows an error says: no GPU, or device of its kind, is here."""
    found = diagnose(text, stage, rules=rules)
    return found is not None and any(rule.no_device for rule in rules if rule.name == found.rule)


def not_known(texts: Sequence[str]) -> list[str]:
    """Return the sentence for each error that no rule matches: who speaks last in it, and the line that decides."""
    lines = [plain(text).split("\n") for text in texts]
    last = [(0, "")] * len(texts)
    for of_layer, place, line in last_lines([one.match for one in layers()], ["\n".join(one) for one in lines]):
        if line > last[place][0]:
            last[place] = line, layers()[of_layer].layer
    return [
        f"{NOT_KNOWN}. It comes from {layer}: {cut(of_exception(text, of_text[line - 1].strip()), _LONGEST)}"
        if layer
        else NOT_KNOWN
        for text, of_text, (line, layer) in zip(texts, lines, last, strict=True)
    ]


def in_words(diagnosis: Diagnosis | None, text: str) -> str:
    """Return a diagnosis as one or two lines for people. ``text`` is the error itself."""
    if diagnosis is None:
        return f"cause: {not_known([text])[0]}"
    return f"cause: {diagnosis.cause} [{diagnosis.rule}]\n  remedy: {diagnosis.remedy}"


def with_cause(text: str, stage: str, rules: tuple[Rule, ...] | None = None) -> str:
    """Return an error, and its cause in words below it."""
    return f"{text}\n{in_words(diagnose(text, stage, rules=rules), text)}"
