"""Read flashinfer-bench's form: a definition and a solution as JSON; its inputs are drawn by their shapes."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from kernel_matrix.tools.verify.tasks.calls import Calls, Drawn, Step, loaded, named_in, of_values
from kernel_matrix.tools.verify.tasks.task import UndecidedError, UnusableError

GIVEN = "_with_given_outputs"
_GIVING = """

def {name}(*inputs):
    import torch

    sizes, device = dict({known}), next(one.device for one in inputs if isinstance(one, torch.Tensor))
    for one, shape in zip(inputs, {inputs}):
        sizes.update((name, size) for name, size in zip(shape, getattr(one, "shape", ())) if isinstance(name, str))
    outputs = [
        torch.empty([sizes.get(axis, axis) for axis in shape], dtype=getattr(torch, dtype), device=device)
        for shape, dtype in {outputs}
    ]
    {entry}(*inputs, *outputs)
    return outputs
"""
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
        if missing := [name for name in ("axes", "inputs", "outputs", "reference") if name not in self._told]:
            raise UnusableError(f"{definition.name} has no {', '.join(missing)}")
        spec, sources = dict(told.get("spec", {})), _sources(told)
        file, _, entry = str(spec.get("entry_point", "")).partition("::")
        if file not in sources or not file.endswith(".py"):
            raise UnusableError(f"{solution.name}: entry_point names no Python source of it: {file or 'nothing'}")
        self.source, entry = sources.pop(file), entry or "run"
        if _writes(spec, self.source, entry, len(self._told["inputs"]) + len(self._told["outputs"])):
            self.source, entry = self.source + self._giving(entry), GIVEN
        super().__init__(entry, {Path(path).stem: text for path, text in sources.items()}, self._told["reference"])
        (self._run,) = named_in(loaded(self._told["reference"], "reference"), ("run",))
        self._workloads = _workloads(workloads) if workloads else []

    def _giving(self, entry: str) -> str:
        """Return the text of a function that allocates the outputs, and has the solution write into them.

        Raises:
            UnusableError: an output has no shape.
        """
        outputs = {name: (one.get("shape"), one.get("dtype")) for name, one in self._told["outputs"].items()}
        if missing := [name for name, (shape, _) in outputs.items() if shape is None]:
            raise UnusableError(f"the output {', '.join(missing)} has no shape, and the solution writes into it")
        return _GIVING.format(
            name=GIVEN,
            entry=entry,
            known={name: int(one["value"]) for name, one in self._told["axes"].items() if one.get("type") == "const"},
            inputs=[one.get("shape") or [] for one in self._told["inputs"].values()],
            outputs=list(outputs.values()),
        )

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


def _writes(spec: Mapping[str, Any], source: str, entry: str, arguments: int) -> bool:
    """Return whether a solution writes into given outputs; where it does not say it, its parameters do."""
    if "destination_passing_style" in spec:
        return bool(spec["destination_passing_style"])
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name == entry:
                return len(node.args.posonlyargs) + len(node.args.args) == arguments
    return False


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
