"""Compile what a program launches with several versions of one distribution, and name those that change something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.states import Verdict
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.tools.launches.words import largest

_FORM = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)=(?P<versions>[\w.+-]+(,[\w.+-]+)+)")
_MOST = 5

Results = Mapping[str, Sequence[Verdict] | str]  # by version; a text says why there are none


def parsed(text: str) -> tuple[str, list[str]]:
    """Return the distribution and its versions that ``triton=3.6.0,3.7.1`` means.

    Raises:
        UserError: the text is not of this form.
    """
    match = _FORM.fullmatch(text)
    if not match:
        raise UserError(f"--versions {text}: write NAME=VERSION,VERSION, such as triton=3.6.0,3.7.1.")
    return match["name"], match["versions"].split(",")


def installed(python: str, name: str, version: str, folder: Path) -> Path:
    """Install one version of a distribution, without what it requires, into a folder of its own, which is returned.

    Raises:
        UserError: it cannot be installed.
    """
    packages = folder / f"{name}-{version}"
    done = packages / ".complete"
    if not done.exists():
        try:
            uv("pip", "install", "--python", python, "--no-deps", "--target", str(packages), f"{name}=={version}")
        except InstallError as error:
            raise UserError(f"--versions: {name} {version} cannot be installed.\n{error}") from None
        done.touch()
    return packages


def rows(results: Results) -> dict[tuple[str, str], list[str]]:
    """Return for each kernel and target the states and the figures in each version."""
    cells = {
        (verdict.case.cell.op, verdict.case.cell.target): None
        for verdicts in results.values()
        for verdict in verdicts
        if isinstance(verdict, Verdict)
    }
    return {cell: [_text(verdicts, cell) for verdicts in results.values()] for cell in cells}


def _text(verdicts: Sequence[Verdict] | str, cell: tuple[str, str]) -> str:
    if isinstance(verdicts, str):
        return "nothing launched"
    of_cell = [one for one in verdicts if (one.case.cell.op, one.case.cell.target) == cell]
    states = Counter(verdict.state for verdict in of_cell)
    metrics = [one.record.metrics for one in of_cell if one.record and "artifact.registers" in one.record.metrics]
    words = [state if count == 1 else f"{count} {state}" for state, count in states.items()]
    return ", ".join([*words, *([" / ".join(largest(metrics))] if metrics else [])]) or "not launched"


def lines(name: str, results: Results) -> Iterator[str]:
    """Yield since which version something differs, with the first kernels of each."""
    found, versions = rows(results), [*results]
    for version, why in results.items():
        if isinstance(why, str):
            yield f"{name} {version}: {why.splitlines()[0][:300]}"
    for index, (old, new) in enumerate(pairwise(versions)):
        changed = {cell: texts for cell, texts in found.items() if texts[index] != texts[index + 1]}
        yield f"{name} {new} ({old} before): {len(changed)} of {len(found)} kernels on a target differ"
        for (kernel, target), texts in [*changed.items()][:_MOST]:
            yield f"  {kernel} on {target}: {texts[index]} -> {texts[index + 1]}"


def page(name: str, program: str, results: Results) -> str:
    """Return all of it as Markdown; a cell is in bold where it differs from the version before."""
    head = ["kernel", "target", *(f"{name} {version}" for version in results)]
    text = [
        f"# `{program}` with versions of {name}", "",
        "States, and the largest registers / spills / shared memory / threads / bytes of code.", "",
        *(f"- {line}" for line in lines(name, results) if not line.startswith(" ")), "",
        f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |",
    ]  # fmt: skip
    for cell, texts in rows(results).items():
        marked = [new if new == old else f"**{new}**" for old, new in pairwise(texts)]
        text.append(f"| {' | '.join([*cell, texts[0], *marked])} |")
    return "\n".join([*text, ""])
