"""Say in which Python and on which machine a job's process runs. Needs the standard library only."""

from __future__ import annotations

import importlib.metadata
import platform


def environment_facts() -> dict[str, str]:
    """Return the Python and the machine of this process, and the version of every distribution that it can import."""
    system = " ".join((platform.system(), *platform.libc_ver())).strip()
    facts = {"python": platform.python_version(), "machine": platform.machine(), "system": system}
    for distribution in importlib.metadata.distributions():
        metadata = distribution.metadata  # which reads the file anew each time
        if name := metadata["Name"]:  # a distribution that was removed in part has none
            facts.setdefault(f"version.{name}", metadata["Version"])  # the first on the import path is imported
    return facts
