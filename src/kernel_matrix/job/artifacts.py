"""The artifacts that a compiler made for one case, and what they are together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kernel_matrix.job import inputs


@dataclass
class Artifacts:
    """The artifacts of one case: one without a name, or several that have names."""

    named: dict[str, tuple[str, bytes, dict[str, float]]] = field(default_factory=dict)
    recorded: bool = False  # whether there is one, with or without a name

    def add(
        self, kind: str, data: bytes, resources: Mapping[str, float], name: str
    ) -> tuple[dict[str, str], dict[str, float]]:
        """Take one more artifact, and return the facts and the figures of the case with it.

        Raises:
            ValueError: it made nothing, or the name is none, or another artifact has it.
        """
        if not data:
            raise ValueError("the compiler returned an empty artifact")
        if name and not re.fullmatch(r"[a-z]\w*", name):
            raise ValueError(f"{name!r} is no name of an artifact: write small letters, digits and '_'")
        if name in self.named:
            raise ValueError(f"this case has an artifact {name!r} already: give each another name")
        if self.recorded and bool(name) != bool(self.named):
            raise ValueError("this case has several artifacts: give each a name")
        self.recorded = True
        figures, own = {"bytes": float(len(data)), **resources}, {}
        if name:
            self.named[name] = kind, data, figures
            own = {f"artifact.{name}_{key}": value for key, value in figures.items()}
            kind, data, figures = self._together()
        facts = {"artifact.kind": kind, "artifact.sha256": inputs.digest([np.frombuffer(data, np.uint8)])}
        return facts, own | {f"artifact.{key}": value for key, value in figures.items()}

    def _together(self) -> tuple[str, bytes, dict[str, float]]:
        """Return what all artifacts are together: source, if one of them is."""
        kinds, parts, each = zip(*self.named.values(), strict=True)
        kind = next((one for one in kinds if one.endswith("-source")), kinds[0])
        most = {key: max(one.get(key, 0.0) for one in each) for key in {key for one in each for key in one}}
        return kind, b"".join(parts), {**dict(sorted(most.items())), "bytes": sum(one["bytes"] for one in each)}
