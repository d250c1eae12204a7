"""The findings that somebody has explained: a file of the package, ``sanitize.yaml`` in the folder of its probes."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.base.errors import UserError
from kernel_matrix.pipeline import Project

FILE = "sanitize.yaml"


class Explanation(BaseModel):
    """Why a finding is no fault of the kernel."""

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
    folder = project.matrix.package.probes
    file = project.root / folder / FILE if folder else Path(FILE)
    if not folder or not file.exists():
        return ()
    try:
        entries = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        return tuple(map(Explanation.model_validate, entries))
    except (OSError, UnicodeDecodeError, YAMLError, TypeError, ValidationError) as error:
        raise UserError(f"{file}: {' '.join(str(error).split())}") from None
