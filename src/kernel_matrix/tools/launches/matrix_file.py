"""Write a matrix.yaml for what was recorded: a foreign repository has none, and the dashboard is made from one."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kernel_matrix.base.files import write_atomically
from kernel_matrix.job import defaults
from kernel_matrix.tools.launches.naming import DIRECTION, Kernel, case_axes, kernel_of, op_names, package_of, plain
from kernel_matrix.tools.launches.recording import Launch, Recording

_HEADER = """\
# Written by `kernel-matrix launches`, and written again each time: what was launched, and what it was compiled for.
# Each kernel is an operator, and each launch that was compiled is a case.
"""
_NO_NUMBERS = "Nothing is compared with a golden here: every launch is compiled, and none runs on a device."
_LOCK, _RULES = "lock.txt", "rules.yaml"
_VALID = timedelta(days=365)


@dataclass(frozen=True)
class Names:
    """The names of what was recorded: the toolchains, the operators by kernel, the axes of the cases by launch."""

    toolchains: Mapping[str, str]
    ops: Mapping[Kernel, str]
    axes: Mapping[str, Mapping[str, str]]


def names_of(recordings: Sequence[Recording]) -> Names:
    """Return the names of all that was compiled."""
    launches = [launch for recording in recordings for launch in recording.taken]
    kinds = dict.fromkeys(launch.toolchain for launch in launches)
    toolchains = {kind: "-".join(filter(None, (kind, plain_version(recordings, kind)))) for kind in kinds}
    return Names(toolchains, op_names(launches), case_axes(launches))


def plain_version(recordings: Sequence[Recording], toolchain: str) -> str:
    """Return the version of a toolchain's distribution as names have it; empty if it is no distribution."""
    version = _version(recordings, toolchain)
    return plain(version) if version else ""


def write(folder: Path, recordings: Sequence[Recording], names: Names, package: str) -> Path:
    """Write matrix.yaml, and next to it the lock and the empty folders that it names. Return its path."""
    for name in ("source", "suite"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    versions = {name: version for recording in recordings for name, version in recording.versions.items()}
    pins = "".join(
        f"{name}=={version}\n" for name, version in sorted(versions.items(), key=lambda pair: pair[0].lower())
    )
    write_atomically(folder / _LOCK, f"# the distributions of the environment that the program ran in\n{pins}")
    stream = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.representer.ignore_aliases = lambda _: True
    yaml.dump(_content(recordings, names, package), stream)
    write_atomically(folder / _RULES, files("kernel_matrix.tools.launches").joinpath(_RULES).read_bytes())
    path = folder / "matrix.yaml"
    write_atomically(path, _HEADER + stream.getvalue())
    return path


def _content(recordings: Sequence[Recording], names: Names, package: str) -> dict[str, Any]:
    is_emulated = any(one.without is not None for recording in recordings for one in recording.compiled)
    compilers = [name for recording in recordings for name, _ in recording.compilers.values()]
    return {
        "package": {
            "name": package,
            "source": "source",
            "suite": "suite",
            "directions": [DIRECTION],
            "rules": _RULES,
            "distributions": list(dict.fromkeys([package_of(recordings)[0], *names.toolchains, *compilers, "torch"])),
        },
        "limits": {"case": 600, "job": 86400},
        "accuracy": _accuracy(is_emulated=is_emulated),
        "toolchains": {
            name: {
                "backend": kind,
                "lock": _LOCK,
                "requires": [f"{kind}=={version}"] if (version := _version(recordings, kind)) else [],
                "ahead_of_time": True,
            }
            for kind, name in names.toolchains.items()
        },
        "platforms": {recording.vendor.platform: _platform(recording, recordings, names) for recording in recordings},
        "ops": {op: _op(op, recordings, names, is_emulated=is_emulated) for op in dict.fromkeys(names.ops.values())},
        "exclusions": list(_exclusions(recordings, names)),
    }


def _accuracy(*, is_emulated: bool) -> dict[str, Any]:
    """Return the limits of what ran on the emulator; where nothing ran, numbers that nothing is compared with."""
    if not is_emulated:
        amount = {"limit": 1, "source": _NO_NUMBERS}
        return {"factor": amount, "rounded": amount, "ulps": amount, "caps": {DIRECTION: amount}}
    limits = defaults.accuracy(DIRECTION, {})
    general = {name: {"limit": limits[name], "source": defaults.SOURCE} for name in ("factor", "rounded", "ulps")}
    return {**general, "caps": {DIRECTION: {"limit": limits["caps"][DIRECTION], "source": defaults.SOURCE}}}


def _offered(recording: Recording, recordings: Sequence[Recording]) -> list[Launch]:
    """Return the vendor's launches; if it has none, all vendors' launches, so that the dashboard says why."""
    return recording.taken or [launch for other in recordings for launch in other.taken]


def _platform(recording: Recording, recordings: Sequence[Recording], names: Names) -> dict[str, Any]:
    ops: dict[str, dict[str, None]] = {}
    for launch in _offered(recording, recordings):
        ops.setdefault(names.toolchains[launch.toolchain], {})[names.ops[kernel_of(launch)]] = None
    triton = names.toolchains.get("triton")
    ran = any(one.without is not None for one in recording.compiled)
    runs = {"runs": True} if recording.card else {"emulated": True} if ran else {"runs": False}
    return {
        "title": recording.vendor.title,
        "device": recording.vendor.name,
        "runner": ["ubuntu-24.04"],
        "targets": [target.name for target in recording.targets],
        "toolchains": [
            {
                "toolchain": name,
                **(runs if name == triton else {"runs": False}),
                "ops": list(own),
            }
            for name, own in ops.items()
        ],
    }


def _op(op: str, recordings: Sequence[Recording], names: Names, *, is_emulated: bool) -> dict[str, Any]:
    cases = {launch.identity: dict(names.axes[launch.identity]) for launch in _of_op(op, recordings, names)}
    return {
        "directions": [DIRECTION],
        "axes": ["types", "options", DIRECTION],
        "cases": {"quick": list(cases.values())},
        **({} if is_emulated else {"outputs": {DIRECTION: ["object"]}}),
    }


def _of_op(op: str, recordings: Sequence[Recording], names: Names) -> list[Launch]:
    every = (launch for recording in recordings for launch in recording.taken)
    return [launch for launch in every if names.ops[kernel_of(launch)] == op]


def _exclusions(recordings: Sequence[Recording], names: Names) -> list[dict[str, Any]]:
    """Return an entry for the launches of an operator that one vendor's recording does not have."""
    until = (datetime.now(UTC) + _VALID).date().isoformat()
    entries = []
    for recording in recordings:
        taken = {launch.identity for launch in recording.taken}
        seen = {launch.identity for launch in recording.launches}
        ops = dict.fromkeys(names.ops[kernel_of(launch)] for launch in _offered(recording, recordings))
        fault = f", and does not end well: {' '.join(recording.fault.split())[:300]}" if recording.fault else ""
        for op in ops:
            absent = dict.fromkeys(
                launch.identity for launch in _of_op(op, recordings, names) if launch.identity not in taken
            )
            for reason, identities in (
                (
                    f"the program does not launch this when it is told that it runs on {recording.told.name}{fault}",
                    [one for one in absent if one not in seen],
                ),
                ("launched as well, and not in the sample that is compiled", [one for one in absent if one in seen]),
            ):
                if identities:
                    launches = [names.axes[identity][DIRECTION] for identity in identities]
                    where = {"platform": recording.vendor.platform, "op": op, DIRECTION: launches}
                    entries.append(
                        {
                            "where": where,
                            "reason": reason,
                            "owner": "who runs the command launches",
                            "link": _LOCK,
                            "until": until,
                        }
                    )
    return entries


def _version(recordings: Sequence[Recording], distribution: str) -> str:
    return next((one.versions[distribution] for one in recordings if distribution in one.versions), "")
