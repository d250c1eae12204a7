"""Probes: small programs that each ask one question of a toolchain, with what is expected of every version.

A probe is a file ``probes/FAMILY/NAME.py`` that runs by itself (``python NAME.py``). It ends well when what it asks for
holds. It ends with an exception, or its process dies, when that does not hold. A block of comments at its top,
``# /// probe``, holds TOML in the manner of Python's inline script metadata. The harness reads it as data; the program
never reads it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from kernel_matrix.base.errors import UserError, first_fault, unknown
from kernel_matrix.base.models import Strict
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.model.fields import Name, NeedName
from kernel_matrix.diagnosis.rule import Pattern
from kernel_matrix.probes.distributions import by_name, required

_HEADER = re.compile(r"^# /// probe\n((?:#.*\n)+?)# ///\n?", re.MULTILINE)


class Window(Strict):
    """The verdict that is expected of some versions, or of all versions if it names none."""

    versions: list[str] = Field(default_factory=list, description="Requirements that all hold (PEP 508).")
    verdict: Literal["works", "fails"]
    match: Pattern = Field(default="", description="What the exact error contains, as a regular expression.")

    @model_validator(mode="after")
    def _names_the_error_of_a_failure(self) -> Window:
        if (self.verdict == "fails") != bool(self.match):
            raise ValueError("a window that 'fails' says which error by 'match', and one that 'works' has none")
        return self


class Probe(Strict):
    """One question to a toolchain."""

    path: Path
    asks: str = Field(min_length=10, description="The question.")
    means: str = Field(min_length=10, description="What it means if the program ends well.")
    met: str = Field(min_length=5, description="Where the failure was met.")
    truth: str = Field(min_length=5, description="What it really was.")
    link: str = ""
    platforms: list[Name] = Field(default_factory=list, description="Platforms that it is a lesson of.")
    requires: list[str] = Field(min_length=1, description="What an environment must have for it to make sense.")
    needs: list[NeedName] = Field(default_factory=list, description="What the machine must also have.")
    seconds: float = Field(default=180, gt=0, description="The time limit.")
    expect: list[Window] = Field(min_length=1, description="The first window that holds for the versions counts.")

    @property
    def family(self) -> str:
        """The name of its folder."""
        return self.path.parent.name

    @property
    def id(self) -> str:
        """``FAMILY/NAME``."""
        return f"{self.family}/{self.path.stem}"

    @property
    def program(self) -> str:
        """Its text without the header."""
        return _HEADER.sub("", self.path.read_text(encoding="utf-8"))

    def makes_sense_with(self, versions: Mapping[str, str]) -> bool:
        """Return whether the environment has what the probe asks about."""
        return satisfies(self.requires, versions)

    def asked_about(self, versions: Mapping[str, str]) -> tuple[str | None, ...]:
        """Return the versions of the distributions that it requires; None for one that is not there."""
        present = by_name(versions)
        return tuple(present.get(name) for name in required(self.requires))

    def expected(self, versions: Mapping[str, str]) -> Window | None:
        """Return the window of these versions."""
        return next((window for window in self.expect if satisfies(window.versions, versions)), None)


def load_probes(folder: Path) -> tuple[Probe, ...]:
    """Read the headers of all probes below ``folder``.

    Raises:
        UserError: a file has no header or a faulty one.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*/*.py")))


def select_probes(matrix: Matrix, root: Path, names: Sequence[str] = ()) -> tuple[Probe, ...]:
    """Return the probes of the package, or only the named ones.

    Raises:
        UserError: the package has none, or not that one.
    """
    if matrix.package.probes is None:
        raise UserError("matrix.yaml: package.probes names no folder, so there is no probe to run.")
    probes = load_probes(root / matrix.package.probes)
    for probe in probes:
        for platform in probe.platforms:
            if platform not in matrix.platforms:
                raise unknown(f"{probe.path.relative_to(root)}: platforms", "platform", platform, matrix.platforms)
    known = {probe.id for probe in probes}
    for name in names:
        if name not in known:
            raise unknown("--probe", "probe", name, known)
    return tuple(probe for probe in probes if not names or probe.id in names)


def _read(path: Path) -> Probe:
    header = _HEADER.search(path.read_text(encoding="utf-8"))
    if not header:
        raise UserError(f"{path}: a probe begins with a block '# /// probe' of TOML; see docs/toolchains.md.")
    text = "".join(line.removeprefix("#").removeprefix(" ") for line in header[1].splitlines(keepends=True))
    try:
        return Probe.model_validate({"path": path, **tomllib.loads(text)})
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: its header is not TOML: {error}. Correct it there.") from None
    except ValidationError as error:
        raise UserError(f"{path}: header: {first_fault(error)}. Correct it there.") from None
