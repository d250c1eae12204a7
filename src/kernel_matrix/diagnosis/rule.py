"""A rule of the diagnosis, and the files that hold rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.base.models import Strict
from kernel_matrix.base.patterns import fault_of
from kernel_matrix.base.versions import satisfies

if TYPE_CHECKING:
    from kernel_matrix.kit.misbehaviour import Kind

Stage = Literal["build", "install", "import", "lower", "compile", "launch", "timeout", "crash", "fail"]
STAGES: tuple[Stage, ...] = Stage.__args__  # type: ignore[attr-defined]


def _compiles(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(f"this is not a regular expression: {fault}")
    return text


Pattern = Annotated[str, AfterValidator(_compiles)]


class Rule(Strict):
    """One known error."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    match: Pattern = Field(min_length=5, description="A regular expression that the exact error contains.")
    stages: tuple[Stage, ...] = Field(default=(), description="Only at these stages; at any by default.")
    versions: tuple[str, ...] = Field(default=(), description="Only with these versions (PEP 508).")
    cause: str = Field(min_length=20)
    remedy: str = Field(min_length=5, description="A command or an edit.")
    link: str = ""
    general: bool = Field(default=False, description="It counts only where no rule without this mark knows the error.")
    no_device: bool = Field(default=False, description="It is raised because no GPU, or device of its kind, is here.")
    recorded: str = Field(pattern=r"^(here|https?://\S+)$", description="Where the example comes from.")
    example: str = Field(min_length=10, description="The real error, word for word.")
    example_stage: Stage | Literal[""] = ""
    example_versions: dict[str, str] = Field(default_factory=dict)

    def __hash__(self) -> int:
        """Return the hash of the name, so that diagnoses can be kept by their rules."""
        return hash(self.name)

    def holds(self, stage: str, versions: Mapping[str, str]) -> bool:
        """Return whether a stage and versions can have this error. Unknown ones can."""
        return (not self.stages or not stage or stage in self.stages) and (
            not versions or satisfies(self.versions, versions)
        )


class Layer(Strict):
    """One of those who speak in a log: a compiler, a driver, the CI service."""

    layer: str = Field(min_length=5, description="Its name, as a sentence has it.")
    match: Pattern = Field(min_length=5, description="A regular expression that a line of it contains.")


_SHARED = ("services.yaml", "rules.yaml", "general.yaml", "harness.yaml", "no_device.yaml")


@functools.cache
def layers() -> tuple[Layer, ...]:
    """Return the layers that may speak in a log."""
    text = files("kernel_matrix.diagnosis").joinpath("layers.yaml").read_text(encoding="utf-8")
    return tuple(Layer.model_validate(entry) for entry in YAML(typ="safe").load(text))


@functools.cache
def harness_rules() -> tuple[Rule, ...]:
    """Return the rules that every package shares: of toolchains, machines, services, any program, and the kit."""
    from kernel_matrix.kit.misbehaviour import KINDS  # NumPy takes long to import

    folder = files("kernel_matrix.diagnosis")
    toolchains = sorted(folder.joinpath("toolchains").iterdir(), key=lambda file: file.name)
    written = (
        rule
        for file in (*toolchains, *(folder.joinpath(name) for name in _SHARED))
        for rule in _parse(file.read_text(encoding="utf-8"))
    )
    return (*(_of_kit(code, kind) for code, kind in KINDS.items()), *written)


def _of_kit(code: str, kind: Kind) -> Rule:
    """Return the rule of what a check of the kit says: its sentence ends with the code."""
    example = f"{kind.example} [{code}]"
    return Rule(name=code, match=rf"\[{code}\]", cause=kind.cause, remedy=kind.remedy, recorded="here", example=example)


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a package.

    Raises:
        UserError: the file cannot be read, is not YAML, or holds something that is no rule.
    """
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}. package.rules of matrix.yaml names it.") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise UserError(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}. Correct the YAML there.") from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.title}: {first_fault(error)}. Correct it there.") from None


@functools.cache
def _parse(text: str) -> tuple[Rule, ...]:
    entries: list[Any] = YAML(typ="safe").load(text) or []
    return tuple(Rule.model_validate(entry) for entry in entries)
