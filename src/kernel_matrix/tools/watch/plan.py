"""Read packages.yaml: which packages are watched, with which releases of Triton, for which targets."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatch
from pathlib import Path

from pydantic import Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.base.models import Strict


class Package(Strict):
    """A package: a version of its distribution or a checkout, and the program that calls it."""

    calls: Path = Field(description="The program that calls it, from the folder of this file on.")
    version: str = Field(default="", description="A version of the distribution; the newest where there is none.")
    path: Path | None = Field(default=None, description="A checkout of the package, in place of a distribution.")
    requires: tuple[str, ...] = Field(default=(), description="What is installed beside it: NAME or NAME==VERSION.")
    launches: int | None = Field(default=1, ge=1, description="Specialisations of each kernel; null for all.")
    told: str = Field(default="", description="What the program is told that it runs on.")
    targets: tuple[str, ...] = Field(default=(), description="Targets, in place of the targets of the whole file.")
    emulate: tuple[str, ...] = Field(default=(), description="Targets on whose emulator the launches run.")
    environment: dict[str, str] = Field(default_factory=dict, description="Variables of the program.")

    @model_validator(mode="after")
    def _has_one_source(self) -> Package:
        if self.version and self.path:
            raise ValueError("version and path: name one of them")
        return self


class Accepted(Strict):
    """A break that is known: it stands on the page, and makes it no longer red."""

    package: str
    kernel: str = "*"
    target: str = "*"
    since: str = Field(description="The release of Triton since which it is broken.")
    reason: str = Field(min_length=8)
    owner: str
    until: date

    def covers(self, package: str, kernel: str, target: str, since: str, today: date) -> bool:
        """Return whether it is about this cell, and has not ended."""
        is_meant = (package, since) == (self.package, self.since) and today <= self.until
        return is_meant and fnmatch(kernel, self.kernel) and fnmatch(target, self.target)


class Plan(Strict):
    """All of the file."""

    triton: tuple[str, ...] = Field(min_length=1, description="Releases, the oldest first; `newest` is resolved.")
    targets: tuple[str, ...] = Field(min_length=1)
    packages: dict[str, Package] = Field(min_length=1)
    accepted: tuple[Accepted, ...] = ()

    @model_validator(mode="after")
    def _names_its_packages(self) -> Plan:
        if unknown := [one.package for one in self.accepted if one.package not in self.packages]:
            raise ValueError(f"accepted: {unknown[0]} is none of the packages")
        return self


def read(path: Path) -> Plan:
    """Return the plan, with paths from the working directory on.

    Raises:
        UserError: the file cannot be read, or says something that is not known.
    """
    try:
        content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        plan = Plan.model_validate(content)
    except (OSError, YAMLError) as error:
        raise UserError(f"{path}: it cannot be read: {reason_of(error)}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}") from None
    folder = path.resolve().parent
    packages = {
        name: one.model_copy(update={"calls": folder / one.calls, "path": one.path and folder / one.path})
        for name, one in plan.packages.items()
    }
    for name, one in packages.items():
        if not one.calls.is_file():
            raise UserError(f"{path}: packages.{name}.calls: there is no file {one.calls}")
        if one.path and not one.path.is_dir():
            raise UserError(f"{path}: packages.{name}.path: there is no folder {one.path}")
    return plan.model_copy(update={"packages": packages})
