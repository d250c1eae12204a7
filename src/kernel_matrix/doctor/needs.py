"""The programs that toolchains need beside their environment, as ``needs`` in matrix.yaml names them."""

from __future__ import annotations

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix, Platform


def programs_needed(platform: Platform) -> tuple[str, ...]:
    """Return the programs that any toolchain of the platform needs."""
    return tuple(dict.fromkeys(program for entry in platform.entries for program in entry.needs))


def purpose_of(matrix: Matrix, program: str) -> str:
    """Return which toolchains of which platforms need a program."""
    uses = [
        f"{name}: {_cost(platform, program)}"
        for name, platform in matrix.platforms.items()
        if program in programs_needed(platform)
    ]
    return "; ".join(uses) or "no toolchain of matrix.yaml needs it of this machine"


def targets_needing(platform: Platform, program: str) -> set[str]:
    """Return the targets for which some toolchain of the platform needs a program."""
    return {
        target for entry in platform.entries if program in entry.needs for target in entry.targets or platform.targets
    }


def evidence_without(platform: Platform, program: str) -> tuple[Evidence, str]:
    """Return the evidence that all toolchains of the platform reach without a program, and which of them need it."""
    least = min((entry.needs[program] for entry in platform.entries if program in entry.needs), key=EVIDENCE.index)
    others = any(program not in entry.needs for entry in platform.entries)
    return least, f"{program} ({_cost(platform, program)}{'; the others do not need it' if others else ''})"


def _cost(platform: Platform, program: str) -> str:
    """Return which toolchains stay at which evidence without a program; the targets, where others do without it."""
    toolchains: dict[Evidence, dict[str, list[str]]] = {}
    all_targets: dict[str, int] = {}
    for entry in platform.entries:
        targets = entry.targets or platform.targets
        all_targets[entry.toolchain] = all_targets.get(entry.toolchain, 0) + len(targets)
        if program in entry.needs:
            toolchains.setdefault(entry.needs[program], {}).setdefault(entry.toolchain, []).extend(targets)
    parts = []
    for evidence, by_name in toolchains.items():
        names = [
            name if len(targets) == all_targets[name] else f"{name} ({', '.join(targets)})"
            for name, targets in by_name.items()
        ]
        parts.append(f"{', '.join(names)} stay{'s' if len(names) == 1 else ''} at '{evidence}' without it")
    return ", ".join(parts)
