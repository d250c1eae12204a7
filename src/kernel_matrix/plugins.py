"""The distributions other than the core: the commands that they bring, and the parts that the core asks them for.

Each declares them as entry points. Where it is installed, its metadata has them; in a checkout, the pyproject.toml in
its folder next to this package has the same. To find them, none of them is imported.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from kernel_matrix.base import installation
from kernel_matrix.base.errors import UserError

COMMANDS = "kernel_matrix.commands"  # name -> module with ``arguments`` and ``main``
PARTS = "kernel_matrix.parts"  # name -> ``module:function``

# The extra of the core that installs a command, or a group of commands.
EXTRAS = {
    "launches": "launches",
    "bench": "bench",
    "calibrate": "calibrate",
    "caches": "caches",
    "fuzz": "fuzz",
    "sanitize": "sanitize",
    "serve": "serve",
    "toolchains": "probes",
    "send": "send",
    "take": "send",
    **dict.fromkeys(("init", "lock", "ci take-junit", "ci comment", "ci notify"), "adopt"),
    **dict.fromkeys(("ci again", "ci flaky", "ci history", "ci jobs", "ci labels", "ci plan"), "ci"),
    **dict.fromkeys(("shell", "ci image", "ci bundle"), "containers"),
}


@functools.cache
def declared(group: str) -> Mapping[str, str]:
    """Return what the distributions that are here declare in a group, by its name."""
    found = {point.name: point.value for point in entry_points(group=group)}
    for file in sorted(Path(__file__).parents[1].glob("kernel_matrix_*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        if all(_is_installed(name) for name in project["dependencies"]):
            found |= project.get("entry-points", {}).get(group, {})
    return found


def _is_installed(requirement: str) -> bool:
    """Return whether a library is installed that a requirement names, in any version; this core is here."""
    name = re.split(r"[^\w.-]", requirement)[0]
    if name == "kernel-matrix":
        return True
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def part(name: str) -> Any | None:
    """Return the function that a distribution brings under this name; nothing if none does."""
    value = declared(PARTS).get(name)
    if value is None:
        return None
    module, _, function = value.partition(":")
    return getattr(importlib.import_module(module), function)


def needed(name: str, extra: str) -> Any:
    """Return the function that a distribution brings under this name.

    Raises:
        UserError: that distribution is not installed.
    """
    function = part(name)
    if function is None:
        raise UserError(f"this needs a distribution that is not installed: {installing(extra)}")
    return function


def source_of(module: str) -> Path:
    """Return the file of a module, which is not imported."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"{module}: an installed distribution declares it, and does not have it.")
    return Path(spec.submodule_search_locations[0]).joinpath(*rest).with_suffix(".py")


def not_here(command: str) -> UserError:
    """Return the error for a command, or a group of commands, whose distribution is not installed."""
    return UserError(
        f"{command} is in a distribution of its own, which is not installed: {installing(EXTRAS[command])}"
    )


def installing(extra: str) -> str:
    """Return the command that installs here what an extra of the core names."""
    return installation.installing(f"kernel_matrix_{extra}")
