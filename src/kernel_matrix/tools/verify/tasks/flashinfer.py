"""Read flashinfer-bench's form: a definition and a solution as JSON; its inputs are drawn by their shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kernel_matrix.tools.verify.tasks.calls import Calls, Drawn, Step, loaded, named_in, of_values
from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError

_VARIABLE = (7, 3, 1, 33, 130)  # sizes of a variable axis; the first has all values
_WORKLOADS = 4


class FlashInfer(Calls):
    """A definition: axes, inputs, and a reference as text."""

    form = "flashinfer-bench"

    def __init__(self, definition: Path, solution: Path, workloads: Path | None) -> None:
        """Read the definition, what the solution is called, and the workloads where they are named.

        Raises:
            UnusableError: one cannot be read.
        """
        self._told, told = _document(definition), _document(solution)
        if missing := [name for name in ("axes", "inputs", "reference") if name not in self._told]:
            raise UnusableError(f"{definition.name} has no {', '.join(missing)}")
        file, _, entry = str(told.get("spec", {}).get("entry_point", "")).partition("::")
        modules = {Path(path).stem: text for path, text in _sources(told).items() if path != file}
        super().__init__(entry or "run", modules)
        (self._run,) = named_in(loaded(self._told["reference"], "reference"), ("run",))
        self._workloads = _workloads(workloads) if workloads else []

    def right(self, *arguments: Any, **words: Any) -> Any:
        """Return what the reference gives."""
        return self._run(*arguments, **words)

    def steps(self) -> tuple[list[Step], list[str]]:
        """Return small axes with other values, other axes, and the workloads whose inputs are random.

        Raises:
            UndecidedError: an input is no random number.
        """
        whole = [n for n, one in self._told["inputs"].items() if one.get("shape") and "int" in str(one.get("dtype"))]
        if whole:
            raise UndecidedError(f"{', '.join(whole)}: whole numbers whose meaning the definition does not say")
        names = [name for name, one in self._told["axes"].items() if one.get("type") == "var"]
        own = {name: int(one["value"]) for name, one in self._told["axes"].items() if one.get("type") == "const"}
        several = [
            {n: size + place for place, n in enumerate(names)} for size in (_VARIABLE if names else _VARIABLE[:1])
        ]
        steps = list(of_values(self._draw(own | several[0], {})))
        steps += [Step(f"axes {_words(axes)}", self._draw(own | axes, {})) for axes in several[1:]]
        usable = [one for one in self._workloads if all(i.get("type") != "safetensors" for i in one["inputs"].values())]
        for one in usable[:_WORKLOADS]:
            steps.append(Step(f"workload {_words(one['axes'])}", self._draw(own | one["axes"], one["inputs"])))
        left = len(self._workloads) - min(len(usable), _WORKLOADS)
        return steps, [f"{left} workloads"] if left else []

    def _draw(self, axes: Mapping[str, int], given: Mapping[str, Any]) -> Any:
        def drawn(_: int) -> Drawn:
            return [self._input(name, one, axes, given.get(name, {})) for name, one in self._told["inputs"].items()], {}

        return drawn

    def _input(self, name: str, told: Mapping[str, Any], axes: Mapping[str, int], given: Mapping[str, Any]) -> Any:
        if told.get("shape") is None:
            return given.get("value", 1e-6 if "eps" in name else 1.0)
        shape = [axes[one] if isinstance(one, str) else int(one) for one in told["shape"]]
        return torch.randn(shape).to(getattr(torch, str(told["dtype"])))


def main_source(path: Path) -> str:
    """Return the text of a solution that has its entry point.

    Raises:
        UnusableError: it is not there, or is no Python.
    """
    told = _document(path)
    spec, sources = told.get("spec", {}), _sources(told)
    file = str(spec.get("entry_point", "")).partition("::")[0]
    if spec.get("destination_passing_style"):
        raise UnusableError(f"{path.name}: it writes into given outputs (destination_passing_style), which is not read")
    if file not in sources or not file.endswith(".py"):
        raise UnusableError(f"{path.name}: entry_point names no Python source of it: {file or 'nothing'}")
    return sources[file]


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableError(f"{path.name} is no JSON that can be read: {error}") from error
    if not isinstance(found, dict):
        raise UnusableError(f"{path.name} is no JSON object")
    return found


def _sources(told: Mapping[str, Any]) -> dict[str, str]:
    return {str(one.get("path")): str(one.get("content")) for one in told.get("sources", []) if isinstance(one, dict)}


def _workloads(path: Path) -> list[dict[str, Any]]:
    """Return the workloads of a file of traces, one JSON object a line.

    Raises:
        UnusableError: it cannot be read.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [
            {"axes": dict(one["axes"]), "inputs": dict(one["inputs"])} for one in (line["workload"] for line in lines)
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableError(f"{path.name} has no workloads that can be read: {error}") from error


def _words(axes: Mapping[str, int]) -> str:
    return " ".join(f"{name} {one}" for name, one in axes.items())
