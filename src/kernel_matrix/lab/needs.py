"""What toolchains need of the machine beside their environment, as matrix.yaml says it (``needs``)."""

from __future__ import annotations

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix, Platform


def purpose_of(matrix: Matrix, program: str) -> str:
    """Return what is not to be had without a program, on which platform."""
    texts = [
        f"{name}: {text}" for name, platform in matrix.platforms.items() if (text := _without(platform, program)[1])
    ]
    return "; ".join(texts) or "no toolchain of matrix.yaml needs it of this machine"


def evidence_without(platform: Platform, program: str) -> tuple[Evidence, str]:
    """Return the evidence that all toolchains of the platform reach without a program, and what it is needed for."""
    evidence, text = _without(platform, program)
    others = len([entry for entry in platform.entries if program not in entry.needs])
    return evidence, f"{program} ({text}{'; the others need none' if others else ''})"


def programs_needed(platform: Platform) -> tuple[str, ...]:
    """Return the programs that any toolchain of the platform needs."""
    return tuple(dict.fromkeys(program for entry in platform.entries for program in entry.needs))


def _without(platform: Platform, program: str) -> tuple[Evidence, str]:
    by_evidence: dict[Evidence, list[str]] = {}
    for entry in platform.entries:
        if program in entry.needs:
            by_evidence.setdefault(entry.needs[program], []).append(entry.toolchain)
    texts = [
        f"{', '.join(names)} stay{'s' if len(names) == 1 else ''} at '{evidence}' without it"
        for evidence, names in by_evidence.items()
    ]
    return min(by_evidence, key=EVIDENCE.index, default="ran"), ", ".join(texts)
