"""What was compiled once is kept in the folder ``MHC_CACHE_DIR``, by everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import tvm

from mhc.backends.tvm import devices

Made = tuple[str, bytes, dict[str, int]]  # kind, bytes and resources


def kept(key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
    """What ``make`` returns, or returned for the same key when this code was the same."""
    folder = os.environ.get("MHC_CACHE_DIR")
    if not folder:
        return make()
    name = hashlib.sha256("\n".join((*map(repr, key), _compilers(str(key[-1])), _sources())).encode()).hexdigest()
    entry = Path(folder, f"{name}.tvm")
    if found := _read(entry):
        return found
    kind, data, resources = make()
    head = {"kind": kind, "resources": resources, "sha256": hashlib.sha256(data).hexdigest()}
    entry.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and moved there, so that no reader meets half of it.
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".part", delete=False) as file:
        file.write(json.dumps(head).encode() + b"\n" + data)
    Path(file.name).replace(entry)
    return kind, data, resources


def _read(entry: Path) -> Made | None:
    """The entry; None if it is not there, or not whole."""
    try:
        head, data = entry.read_bytes().split(b"\n", 1)
        told = json.loads(head)
        if told["sha256"] == hashlib.sha256(data).hexdigest():
            return told["kind"], data, told["resources"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


@cache
def _compilers(target: str) -> str:
    """What compiles for the target, by version."""
    if not target.startswith("sm_"):
        return str(tvm.__version__)
    said = subprocess.run([devices.find_nvcc(), "--version"], capture_output=True, text=True, check=True).stdout
    return f"{tvm.__version__} {said}"


@cache
def _sources() -> str:
    """The text of this backend and of the operators: a script depends on all of it."""
    here = Path(__file__).parent
    files = sorted((*here.glob("*.py"), *(here.parents[1] / "ops").glob("*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
