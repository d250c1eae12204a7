"""Start a script once more with the Python of .venv, where the present one lacks what it imports."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

OWN = Path(__file__).resolve().parent.parent / ".venv"


def needs(module: str) -> None:
    """Go on where the module is installed; else start again with .venv, or end with a sentence if that lacks it too."""
    if importlib.util.find_spec(module):
        return
    python = OWN / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != OWN.resolve():
        os.execv(python, [str(python), *sys.argv])  # noqa: S606 - the same script
    name = Path(sys.argv[0]).name
    print(f"ci/{name}: this Python has no {module}. `ci/nox -l` makes .venv, which has it.", file=sys.stderr)
    sys.exit(2)
