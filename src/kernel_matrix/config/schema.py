"""The JSON Schema of matrix.yaml, and the faults that its model finds, in words."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.config.document import Fault, Place
from kernel_matrix.config.model import Matrix


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
