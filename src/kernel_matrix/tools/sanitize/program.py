"""Run any program under compute-sanitizer, one tool after the other, and say what each finds in its kernels."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.files import write_atomically
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, Finding
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.vendors.machine import detect

_CHARACTERS, _LINES = 2000, 4  # of a finding's text: kept, and printed
_END = "SUMMARY: "  # in the last line about a process that was watched


def sanitized(words: Sequence[str], names: Sequence[str], folder: Path, say: Callable[[str], None]) -> int:
    """Run the program under the tools, all where none is named. 1: something was found, or it came to no good end.

    Raises:
        UserError: there is no program or no compute-sanitizer, or a tool has another name.
    """
    if not words or shutil.which(words[0]) is None:
        raise UserError(
            f"{words[0]}: there is no such command." if words else "there is no program: write it after --."
        )
    for name in names:
        if name not in tools.OF_NVIDIA:
            raise unknown("--sanitize", "tool", name, tools.OF_NVIDIA)
    path, found = tools.program(), list[Check]()
    for name in names or tools.OF_NVIDIA:
        found.append(_watched(words, name, path, folder / "sanitized"))
        say("\n".join(_lines(found[-1])))
        checks.write(found[-1], folder)
    page = folder / "sanitized.md"
    write_atomically(page, _page(found))
    say(f"written: {page}")
    return int(any(check.findings or check.unfinished for check in found))


def _watched(words: Sequence[str], name: str, path: str, folder: Path) -> Check:
    """Run the program under one tool; its output comes to this terminal."""
    program, log = shlex.join(words), folder / f"{name}.log"
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    began, devices = time.gmtime(), [device.name for device in detect().of("nvidia")]
    command = [shutil.which(words[0]) or words[0], *words[1:]]
    done = subprocess.run(
        [*tools.command(path, name, str(log)), *command], env={**os.environ, **tools.ENVIRONMENT}, check=False
    )
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    faults = [f"{program}: it ended with status {done.returncode}"] if done.returncode else []
    if _END not in text:
        faults.append(f"{program}: {name} watched nothing: no process used the GPU up to its end")
    return Check(
        name=name,
        program=f"{tools.PROGRAM} {tools.version(path)}",
        sees=tools.TOOLS[name].sees,
        machine=", ".join(devices) or "no NVIDIA GPU",
        commit="",
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", began),
        note=f"Program: {program}.",
        cells=(),
        findings=tuple(_finding(program, name, one) for one in tools.findings_in(name, text)),
        unfinished=tuple(faults),
    )


def _finding(program: str, name: str, text: str) -> Finding:
    place = tools.place(name, text)
    return Finding(case=program, kernel=place.kernel, line=place.line, text=text[:_CHARACTERS])


def _lines(check: Check) -> list[str]:
    """Return what a person reads of one tool."""
    text = [f"{check.name} ({check.program}) on {check.machine}: {len(check.findings)} findings"]
    for one in check.findings:
        text.append(f"  {one.kernel or 'a kernel without a name'}{f', {one.line}' if one.line else ''}")
        text += [f"    {line}" for line in one.text.splitlines()[:_LINES]]
    return [*text, *(f"  no good end: {line}" for line in check.unfinished)]


def _page(found: Sequence[Check]) -> str:
    """Return the findings as Markdown."""
    rows = [
        f"| {check.name} | `{one.kernel}` | {one.line} | {one.text.splitlines()[0].strip('= ')} |"
        for check in found
        for one in check.findings
    ]
    table = (
        ["| tool | kernel | line | what it found |", "| --- | --- | --- | --- |", *rows]
        if rows
        else ["Nothing was found."]
    )
    faults = [f"- {check.name}: {line}" for check in found for line in check.unfinished]
    head = [f"- {check.name}: {check.sees}. {check.program}, {check.machine}, {check.when}" for check in found]
    return "\n".join(["# Sanitizers", "", found[0].note, "", *head, *faults, "", *table, ""])
