"""Find what a compiler has to say in all that it prints."""

from __future__ import annotations

import re

_HEAD, _TAIL = 3_500, 2_000  # characters that are kept of a log
_MODULE = re.compile(r"^(?:#\w+ = |module ).*?^#-\}$", re.MULTILINE | re.DOTALL)
_LONGEST = 500
_MLIR = re.compile(r"(?:^|[\w.]+:\d+:\d+: )error: (?!Failures have been detected)(.+)", re.MULTILINE)
_PASS = re.compile(r"Pipeline failed while executing \[`([^`]+)`")
_WARNING = re.compile(r"^\S+:\d+: (\w*Warning): (.+)$", re.MULTILINE)
_FATAL = re.compile(r"(Assertion `.+|^LLVM ERROR: .+|^fatal error: .+|^ptxas (?:fatal|error).+)", re.MULTILINE)


def message_of(error: str, log: str) -> str:
    """Return one line that says what is wrong: the exception, or what the compiler printed where that says more."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if lines and not _says_nothing(lines[0]):
        is_of_front_end = "CompilationError" in lines[0] or "AssertionFailure" in lines[0]
        return (_of_front_end(lines) if is_of_front_end and len(lines) > 1 else lines[0])[:_LONGEST]
    said = _MLIR.search(log) or _FATAL.search(log)
    failed = _PASS.search(log)
    parts = [said[1].strip() if said else (lines[0] if lines else ""), f"in {failed[1]}" if failed else ""]
    return ", ".join(part for part in parts if part)[:_LONGEST]


def _of_front_end(lines: list[str]) -> str:
    """Return an error of Triton's front end in one line: the place, the source with a caret below, what is wrong."""
    kind, last = lines[0].split(":")[0], lines[-1]
    if set(last) == {"^"} and len(lines) > 2:  # an assertion without words
        last = lines[-2]
    return f"{kind}: {last}"


def _says_nothing(line: str) -> bool:
    """Return whether an exception only says that something has failed."""
    return "PassManager::run failed" in line or line.startswith(("PTXASError", "RuntimeError: failed to translate"))


def shortened(log: str) -> str:
    """Return the beginning and the end of a log, without the module of MLIR that the compiler failed at."""
    log = _MODULE.sub("... the module ...", log)
    if len(log) <= _HEAD + _TAIL:
        return log
    return f"{log[:_HEAD]}\n... {len(log) - _HEAD - _TAIL} characters ...\n{log[-_TAIL:]}"


def warnings_of(log: str) -> list[str]:
    """Return each warning of Python in what a compiler printed, once: the kind and the text."""
    return list(dict.fromkeys(f"{kind}: {text.strip()[:_LONGEST]}" for kind, text in _WARNING.findall(log)))
