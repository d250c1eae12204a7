"""Read matrix.yaml, check it, and name the line of each fault; its JSON Schema."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.config.checks import plan_faults, reference_faults
from kernel_matrix.config.document import Document, Fault, Place
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.config.suite import Listed, with_tests

MATRIX_FILE = "matrix.yaml"  # unless the option --matrix names another file


@dataclass(frozen=True)
class Checked:
    """A matrix.yaml without a fault, and the plan of its full tier, which the checks needed."""

    matrix: Matrix
    full: Plan


def load(path: Path) -> Matrix:
    """Read and check ``path``; see :func:`load_and_plan`."""
    return load_and_plan(path).matrix


def load_and_plan(path: Path, tests: Listed | None = None) -> Checked:
    """Read and check ``path``, and keep the plan that was made for the checks.

    ``tests`` are the known tests of the package's suite, for a matrix without operators.

    Raises:
        UserError: one line per fault, each ``FILE:LINE: where: what. What to do.``
    """
    document = Document(path)
    matrix = with_tests(_model(document), tests or Listed())
    if faults := list(reference_faults(matrix, path.parent)):  # a plan needs names that exist
        raise document.error(faults)
    with many_objects_that_stay():
        full = plan(matrix, "full")
        if faults := list(plan_faults(matrix, path.parent, full)):
            raise document.error(faults)
    return Checked(matrix, full)


def load_unchecked(path: Path) -> Matrix:
    """Read ``path`` without looking for the files that it names: some of them may have to be made first.

    Raises:
        UserError: the file is not in the form of a matrix.yaml; one line per fault.
    """
    return _model(Document(path))


def _model(document: Document) -> Matrix:
    try:
        return Matrix.model_validate(document.root)
    except ValidationError as error:
        raise document.error(model_faults(error)) from None


def schema() -> str:
    """Return the JSON Schema of matrix.yaml, for editors."""
    document = Matrix.model_json_schema(mode="validation")
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "matrix.yaml"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def model_faults(error: ValidationError) -> Iterator[Fault]:
    """Yield the faults that the model found: unknown keys, missing keys and values of the wrong kind."""
    faults = error.errors()
    # A missing key is not a fault of its own where an unknown key is most likely its misspelling.
    misspelt = {
        (*place, key)
        for *place, unknown in (fault["loc"] for fault in faults if fault["type"] == "extra_forbidden")
        for key in difflib.get_close_matches(str(unknown), _known_keys(tuple(place)), n=1)
    }
    # A mapping with such a fault is meant to be one. The other branches of its union have faults that say nothing.
    mappings = {fault["loc"][:-2] for fault in faults if fault["type"] in ("extra_forbidden", "missing")}
    for fault in faults:
        place: Place = fault["loc"]
        if fault["type"] == "extra_forbidden":
            key = str(place[-1])
            yield place, f"unknown key '{key}'.{did_you_mean(key, _known_keys(place[:-1]))}"
        elif fault["type"] == "missing":
            if place not in misspelt:
                yield place, f"'{place[-1]}' is missing. Add it."
        elif not (isinstance(fault["input"], dict) and place[:-1] in mappings):
            text = fault["msg"].replace("Input should be", "this should be")
            yield place, f"{text}, and it is {fault['input']!r}." if "should" in text else f"{text}."


def _known_keys(place: Place) -> Iterable[str]:
    """Return the keys that the schema has at ``place``."""
    root = Matrix.model_json_schema(mode="validation")
    nodes = [root]
    for key in place:
        nodes = [child for node in nodes for child in _children(root, node, key)]
    return {name for node in nodes for name in _resolve(root, node).get("properties", {})}


def _resolve(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    return root["$defs"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node


def _children(root: dict[str, Any], node: dict[str, Any], key: str | int) -> Iterator[dict[str, Any]]:
    node = _resolve(root, node)
    if isinstance(key, int) and "items" in node:
        yield from node["items"].get("anyOf", [node["items"]])
    elif key in node.get("properties", {}):
        child = node["properties"][key]
        yield from child.get("anyOf", [child])
    elif isinstance(node.get("additionalProperties"), dict):
        yield node["additionalProperties"]
    elif isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"].values()
    else:  # the branch of a union, by its title
        yield node
