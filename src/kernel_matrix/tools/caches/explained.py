"""The differences that somebody has explained: a file of the package, ``caches.yaml`` in the folder of its probes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks

FILE = "caches.yaml"


class Explanation(BaseModel):
    """Name whose fault a difference is, and where it is told to its maintainers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = Field(description="The kind of cache.")
    toolchain: str = Field(description="The toolchain, by its name in matrix.yaml.")
    finding: str = Field(description="The beginning of the finding.")
    reason: str = Field(description="Whose fault it is, with the probe that shows it.", min_length=20)

    def holds(self, kind: str, toolchain: str, text: str) -> bool:
        """Return whether this is about a finding."""
        return (kind, toolchain) == (self.kind, self.toolchain) and text.startswith(self.finding)


def explanations(project: Project) -> tuple[Explanation, ...]:
    """Return the package's explanations; none where it has no such file.

    Raises:
        UserError: the file cannot be used.
    """
    return checks.explanations(project.root, project.matrix.package.probes, FILE, Explanation)
