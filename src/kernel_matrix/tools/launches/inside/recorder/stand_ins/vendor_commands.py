"""Stand in for the commands that programs start to learn which GPU is here: nvidia-smi, and AMD's rocm-smi."""

from __future__ import annotations

import os
from pathlib import Path

from ..settings import Target
from .questions import assume

_NAMES = {"cuda": ("nvidia-smi",), "hip": ("rocm-smi", "amd-smi", "rocminfo")}
_ASKED = "asked"
# It writes down what it was asked, and names the device whatever that was.
_SCRIPT = """\
#!/bin/sh
echo "{name} $*" >> '{asked}'
echo '{answer}'
"""


def install(target: Target, folder: Path) -> None:
    """Put the commands of the vendor before all others on PATH."""
    place = folder / "bin"
    place.mkdir(parents=True, exist_ok=True)
    answer = target.name if target.backend == "hip" else f"{target.facts['device']}, {target.arch / 10}"  # type: ignore[operator]
    for name in _NAMES[target.backend]:
        path = place / name
        path.write_text(_SCRIPT.format(name=name, asked=folder / _ASKED, answer=answer), encoding="utf-8")
        path.chmod(0o755)
    os.environ["PATH"] = f"{place}{os.pathsep}{os.environ.get('PATH', '')}"


def note_what_was_asked(folder: Path) -> None:
    """Count what the commands have been asked as answered without knowing."""
    path = folder / _ASKED
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            assume(f"the command `{line.strip()}` names the device that the program is told of, and nothing else")
