"""The parts of matrix.yaml that a job reads, and whose jobs read what differs between two texts. Pure functions.

A case needs no comparison: its name says the values of its axes, so another case has another name. Every part that
is not named here as unread concerns everything that it could concern.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.config.concern import Concerned
from kernel_matrix.config.model import Matrix

_NONE: Mapping[str, Any] = {}
# What no job gets to know: who runs what where, what people expect of results, and how reports show them.
_UNREAD = {
    # The last three are compared part by part.
    "": ("start", "ci", "expectations", "exclusions", "bench", "toolchains", "platforms", "ops"),
    "package": ("directions", "baseline", "probes", "rules", "sweeps", "distributions", "companions"),
    # The lock's content and the versions of an environment are held to the record itself.
    "toolchain": ("requires", "ops"),
    "platform": ("title", "runner", "targets", "machines", "toolchains"),
    "entry": ("targets", "ops", "cases", "quick", "needs"),
}


def differences(former: str, present: str, name: str) -> Concerned | None:
    """Return what concerns whom, where two texts of the file ``name`` differ; None where one cannot be read.

    The values of the result are names of parts, such as ``matrix.yaml (accuracy)``.
    """
    before, now = _read(former), _read(present)
    if before is None or now is None:
        return None
    toolchains, platforms = _named(before, now, "toolchains"), _named(before, now, "platforms")
    of_all = [*_of_everything(before, now), *_of_axes(before, now)]
    return Concerned(
        {
            key: f"{name} (toolchains.{key})"
            for key, (old, new) in toolchains.items()
            if _without(old, "toolchain") != _without(new, "toolchain")
        },
        {
            key: f"{name} (platforms.{key})"
            for key, (old, new) in platforms.items()
            if _without(old, "platform") != _without(new, "platform")
        },
        f"{name} ({of_all[0]})" if of_all else "",
        {
            (key, toolchain): f"{name} (platforms.{key}.toolchains)"
            for key, (old, new) in platforms.items()
            for toolchain in _entries_that_differ(old, new)
        },
    )


def read_by_job(matrix: Matrix, platform: str, toolchain: str) -> list[Any]:
    """Return all that a job of the toolchain on the platform reads of the matrix, but for the axes of operators.

    What stands at its default is left out, so that a new key of the model changes nothing.
    """
    content = matrix.model_dump(mode="json", exclude_defaults=True)
    return [
        {section: _read_section(content, section) for section in sorted(_without(content, ""))},
        _without(content["toolchains"].get(toolchain), "toolchain"),
        _without(content["platforms"].get(platform), "platform"),
        _entries(content["platforms"].get(platform)).get(toolchain),
    ]


@lru_cache(maxsize=8)  # the present text is compared with that of many commits
def _read(text: str) -> Mapping[str, Any] | None:
    """Return the content of a matrix.yaml; None if it is none."""
    try:
        content = YAML(typ="safe").load(text)
    except YAMLError:
        return None
    sections = ("toolchains", "platforms", "ops", "package", "accuracy")
    if not isinstance(content, dict) or not all(isinstance(content.get(name, {}), dict) for name in sections):
        return None
    return content


def _without(section: Any, kind: str) -> Any:
    """Return a section without the keys that no job reads."""
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if key not in _UNREAD[kind]}


def _named(before: Mapping[str, Any], now: Mapping[str, Any], section: str) -> dict[str, tuple[Any, Any]]:
    """Return by name the former and the present entry of all that a section has or had."""
    old, new = before.get(section, _NONE), now.get(section, _NONE)
    return {name: (old.get(name), new.get(name)) for name in {**old, **new}}


def _of_everything(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections that every job reads and that differ."""
    for section in sorted({**_without(before, ""), **_without(now, "")}):
        if _read_section(before, section) != _read_section(now, section):
            yield section


def _read_section(content: Mapping[str, Any], section: str) -> Any:
    """Return what every job reads of a section."""
    part = content.get(section)
    if section == "package":
        return _without(part, section)
    return _limits(part) if section == "accuracy" else part


def _limits(rules: Any) -> Any:
    """Return the rules of the accuracy without the texts that say where their limits come from."""
    if not isinstance(rules, dict):
        return rules
    return {key: _limits(value) for key, value in rules.items() if key != "source"}


def _of_axes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the operators that are in both and have other axes: a name of a case then means something else."""
    for name, (old, new) in _named(before, now, "ops").items():
        both = isinstance(old, dict) and isinstance(new, dict)
        if both and old.get("axes") != new.get("axes"):
            yield f"ops.{name}.axes"


def _entries_that_differ(old: Any, new: Any) -> Iterator[str]:
    """Yield the toolchains of a platform of which a job reads something else."""
    before, now = _entries(old), _entries(new)
    for toolchain in {**before, **now}:
        if before.get(toolchain) != now.get(toolchain):
            yield toolchain


def _entries(platform: Any) -> dict[str, Any]:
    """Return what jobs read of each toolchain of a platform, by its name."""
    listed = platform.get("toolchains") if isinstance(platform, dict) else None
    entries = [{"toolchain": entry} if isinstance(entry, str) else entry for entry in listed or ()]
    return {str(entry.get("toolchain")): _without(entry, "entry") for entry in entries if isinstance(entry, dict)}
