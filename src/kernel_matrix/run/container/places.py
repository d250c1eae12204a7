"""The places of the Pythons in an image. It needs no library of an engine: doctor asks it inside an image too."""

from __future__ import annotations

from pathlib import Path

PYTHON = "/usr/bin/python3.11"  # in every image, for its environments

MADE_FROM = "made-from"  # the file of an environment with the kind of its builds, and its lock


def python_of(lock: Path) -> str:
    """Return the interpreter, inside the image, of the environment that was made from ``lock``."""
    return f"/opt/kernel-matrix/{lock.stem}/bin/python"
