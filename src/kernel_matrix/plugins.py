"""The parts of rooms above that the rooms below ask for, by a phrase."""

from __future__ import annotations

import importlib
from typing import Any

_PARTS = {
    "repeat of a name": "tools.fuzz.command:repeated",
    "toolchain_view": "tools.probes.toolchain_view:toolchain_view",
    "probing": "tools.probes.probe_toolchains:probing",
    "runner of commits": "tools.probes.commits:runner",
    "work tree": "tools.probes.commits:work_tree",
    "--sanitize": "tools.sanitize.program:sanitized",
}


def part(name: str) -> Any:
    """Return the function of this name."""
    module, _, function = _PARTS[name].partition(":")
    return getattr(importlib.import_module(f"kernel_matrix.{module}"), function)
