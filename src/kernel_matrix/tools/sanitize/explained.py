"""The findings that somebody has explained: a file of the package, ``sanitize.yaml`` in the folder of its probes."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks

FILE = "sanitize.yaml"


class Explanation(BaseModel):
    """Hold why a finding is no fault of the kernel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str = Field(description="The tool that finds it.")
    kernel: str = Field(description="The kernel, by its whole name.")
    finding: str = Field(description="The beginning of the finding's first line.")
    reason: str = Field(description="Why it is no fault.", min_length=20)

    def holds(self, tool: str, kernel: str, first_line: str) -> bool:
        """Return whether this is about a finding."""
        name = re.split(r"[(<]", kernel)[0]
        return (tool, name) == (self.tool, self.kernel) and first_line.startswith(self.finding)


def explanations(project: Project) -> tuple[Explanation, ...]:
    """Return the package's explanations; none where it has no such file.

    Raises:
        UserError: the file cannot be used.
    """
    return checks.explanations(project.root, project.matrix.package.probes, FILE, Explanation)
