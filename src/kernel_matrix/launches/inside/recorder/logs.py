"""Find what a compiler has to say in all that it prints."""

from __future__ import annotations

import re

_HEAD, _TAIL = 8_000, 4_000  # characters that are kept of a log: a module of MLIR may stand between
_LONGEST = 500
_MLIR = re.compile(r"(?:^|[\w.]+:\d+:\d+: )error: (?!Failures have been detected)(.+)", re.MULTILINE)
_PASS = re.compile(r"Pipeline failed while executing \[`([^`]+)`")
_FATAL = re.compile(r"^((?:LLVM ERROR|fatal error|ptxas (?:fatal|error)\s*):? .+)", re.MULTILINE)


def message_of(error: str, log: str) -> str:
    """Return one line that says what is wrong: the exception, or what the compiler printed where that says more."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if lines and not _says_nothing(lines[0]):
        # The errors of Triton's front end begin with the place and the source line, and end with what is wrong.
        is_of_front_end = "CompilationError" in lines[0] or "AssertionFailure" in lines[0]
        return (f"{lines[0].split(':')[0]}: {lines[-1]}" if is_of_front_end and len(lines) > 1 else lines[0])[:_LONGEST]
    said = _MLIR.search(log) or _FATAL.search(log)
    failed = _PASS.search(log)
    parts = [said[1].strip() if said else (lines[0] if lines else ""), f"in {failed[1]}" if failed else ""]
    return ", ".join(part for part in parts if part)[:_LONGEST]


def _says_nothing(line: str) -> bool:
    """Return whether an exception only says that something has failed."""
    return "PassManager::run failed" in line or line.startswith(("PTXASError", "RuntimeError: failed to translate"))


def shortened(log: str) -> str:
    """Return the beginning and the end of a log."""
    if len(log) <= _HEAD + _TAIL:
        return log
    return f"{log[:_HEAD]}\n... {len(log) - _HEAD - _TAIL} characters ...\n{log[-_TAIL:]}"
