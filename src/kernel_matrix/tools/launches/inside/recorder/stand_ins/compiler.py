"""Stand in for nvcc or a C++ compiler: write down the command, and leave an empty object in place of the real one.

``python compiler.py LOG KIND REAL ARGUMENTS...``. What makes no object, such as ``--version``, is asked of the
real compiler. This file runs alone, and imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

_SOURCES = {"nvcc": (".cu", ".cuh"), "c++": (".cpp", ".cc", ".cxx", ".c", ".cu")}
_MAKES = ("-c", "--compile", "-dc", "--device-c", "-dlink", "--device-link", "-shared", "--shared")
_DEPENDENCIES = ("-MF", "--dependency-output")
_VERSION = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.0"


def main() -> int:
    """Do what a build asks of its compiler, and return the exit status."""
    log, kind, real, *arguments = sys.argv[1:]
    words = list(_expanded(arguments))
    into = _after(words, ("-o", "--output-file"))
    if into is None and not any(word in _MAKES for word in words):
        return _ask(kind, real, arguments)
    entry = {"kind": kind, "directory": os.getcwd(), "arguments": words}  # noqa: PTH109  as compilers write it
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    sources = [word for word in words if word.endswith(_SOURCES[kind]) and not word.startswith("-")]
    if into is None:
        for source in sources:
            _make(Path(source).with_suffix(".o").name, shared=False)
    else:
        _make(into, shared="-shared" in words or "--shared" in words)
    if (dependencies := _after(words, _DEPENDENCIES)) is not None:
        Path(dependencies).write_text(f"{into or 'object'}:\n", encoding="utf-8")
    return 0


def _expanded(arguments: list[str]) -> list[str]:
    """Return the arguments, with the content of response files in the place of these."""
    words: list[str] = []
    for word in arguments:
        if word.startswith("@") and Path(word[1:]).is_file():
            words += Path(word[1:]).read_text(encoding="utf-8").split()
        else:
            words.append(word)
    return words


def _after(words: list[str], options: tuple[str, ...]) -> str | None:
    """Return what stands after an option; None where it is not there."""
    for index, word in enumerate(words[:-1]):
        if word in options:
            return words[index + 1]
    return None


def _ask(kind: str, real: str, arguments: list[str]) -> int:
    if real:
        return subprocess.run([real, *arguments], check=False).returncode
    if kind == "nvcc":
        print(_VERSION)  # noqa: T201  nvcc prints this
        return 0
    return 1


def _make(path: str, *, shared: bool) -> None:
    """Make an object file or a library without anything in it."""
    compiler = next((one for one in map(shutil.which, ("/usr/bin/c++", "g++", "gcc", "cc")) if one), None)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if compiler is None or path.endswith((".ptx", ".cubin", ".fatbin")):
        Path(path).write_bytes(b"")
        return
    options = ["-shared"] if shared else ["-c"]
    subprocess.run([compiler, *options, "-x", "c", "/dev/null", "-o", path], check=True)


if __name__ == "__main__":
    sys.exit(main())
