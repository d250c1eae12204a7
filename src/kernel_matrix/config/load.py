"""matrix.yaml -> Matrix: read it, and say what is wrong with it by line."""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.config.model import Matrix, Scalar, ScalarOrList, as_list
from kernel_matrix.config.plan import expand, plan

Where = tuple[str | int, ...]

CELL_KEYS = ("platform", "target", "toolchain", "op", "direction")


def load(path: Path) -> Matrix:
    """Read and validate ``path``.

    Raises:
        UserError: one line per fault, each ``FILE:LINE: where: what. What to do.``
    """
    document = _Document(path)
    try:
        matrix = Matrix.model_validate(document.root)
    except ValidationError as error:
        raise document.error(*_pydantic_faults(error)) from None
    # Planning needs what the references' check has found whole.
    faults = list(_reference_faults(matrix, path.parent)) or list(_plan_faults(matrix))
    if faults:
        raise document.error(*faults)
    return matrix


def schema() -> str:
    """The JSON Schema of matrix.yaml, for editors."""
    document = Matrix.model_json_schema(mode="validation")
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "matrix.yaml"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


class _Document:
    """The YAML text with its line numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}. It is the matrix's only configuration.") from None
        try:
            self.root: Any = YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f"{mark.line + 1}" if mark else "1"
            what = (error.problem or "not YAML").splitlines()[0].split(" with value ")[0]
            raise UserError(f"{path.name}:{line}: {what}. Correct the YAML at this line.") from None
        if not isinstance(self.root, CommentedMap):
            raise UserError(f"{path.name}:1: this is not a mapping of sections; see matrix.schema.json.")

    def line(self, where: Where) -> int:
        """The line of the deepest part of ``where`` that the text has."""
        node, line = self.root, 1
        for key in where:
            try:
                if isinstance(node, CommentedMap) and key in node:
                    line = node.lc.key(key)[0] + 1
                elif isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node):
                    line = node.lc.item(key)[0] + 1
                else:
                    continue  # a part that the model adds, such as the branch of a union
            except (KeyError, AttributeError):  # flow style keeps fewer marks
                continue
            node = node[key]
        return int(line)

    def error(self, *faults: tuple[Where, str]) -> UserError:
        lines = sorted({(self.line(where), _dotted(self.root, where), what) for where, what in faults})
        return UserError("\n".join(f"{self.path.name}:{line}: {place}{what}" for line, place, what in lines))


def _dotted(root: Any, where: Where) -> str:
    """``platforms.rocm.targets[1]: `` for the parts of ``where`` that the text has."""
    node, text = root, ""
    for key in where:
        if isinstance(node, CommentedMap) and key in node:
            text += f".{key}" if text else str(key)
        elif isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node):
            text += f"[{key}]"
        else:
            continue
        node = node[key]
    return f"{text}: " if text else ""


def _pydantic_faults(error: ValidationError) -> Iterator[tuple[Where, str]]:
    faults = error.errors()
    misspelt = {
        (fault["loc"][:-1], close)
        for fault in faults
        if fault["type"] == "extra_forbidden"
        for close in difflib.get_close_matches(str(fault["loc"][-1]), _known_keys(fault["loc"][:-1]), n=1)
    }
    mappings = {fault["loc"][:-2] for fault in faults if fault["type"] in ("extra_forbidden", "missing")}
    for fault in faults:
        where: Where = fault["loc"]
        if fault["type"] == "extra_forbidden":
            key = str(where[-1])
            yield where, f"unknown key '{key}'.{did_you_mean(key, _known_keys(where[:-1]))}"
        elif fault["type"] == "missing":
            if (where[:-1], where[-1]) not in misspelt:  # it is there, under another spelling
                yield where, f"'{where[-1]}' is missing. Add it."
        elif not (isinstance(fault["input"], dict) and where[:-1] in mappings):  # a union's branch that was not meant
            text = fault["msg"].replace("Input should be", "this should be")
            yield where, f"{text}, and it is {fault['input']!r}." if "should" in text else f"{text}."


def _known_keys(where: Where) -> Iterable[str]:
    """The keys that the schema has at ``where``."""
    root = Matrix.model_json_schema(mode="validation")
    nodes = [root]
    for key in where:
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


def _plan_faults(matrix: Matrix) -> Iterator[tuple[Where, str]]:
    """What only the plan shows: the same case twice, and rules that hold for nothing."""
    for name, op in matrix.ops.items():
        for direction in op.directions:
            names = [case for case, _ in expand(op, "full", direction)]
            for case in sorted({case for case in names if names.count(case) > 1}):
                yield ("ops", name, "cases"), f"the case '{case}' is here twice. Take it out of one group."
    cases = plan(matrix, "full").cases
    cells = {case.cell.id for case in cases} if matrix.ci.sentinels else set()
    for index, pattern in enumerate(matrix.ci.sentinels):
        if not fnmatch.filter(cells, pattern):
            yield ("ci", "sentinels", index), f"no cell is called '{pattern}'. Correct it; '*' stands for anything."
    excluded = [case.exclusion for case in cases]
    expected = [rule for case in cases for rule in case.expectations]
    for section, rules, used in (
        ("exclusions", matrix.exclusions, excluded),
        ("expectations", matrix.expectations, expected),
    ):
        for index, rule in enumerate(rules):
            if not any(rule is other for other in used):
                yield (section, index), "this holds for no case of the plan. Correct 'where', or take the entry out."


def _reference_faults(matrix: Matrix, root: Path) -> Iterator[tuple[Where, str]]:
    """What the model alone cannot see: references, files, duplicates."""
    for key in ("source", "suite"):
        folder = getattr(matrix.package, key)
        if not (root / folder).is_dir():
            yield ("package", key), f"the folder '{folder}' does not exist. Correct the path."
    if matrix.package.backends and not (root / matrix.package.backends).is_dir():
        yield ("package", "backends"), f"the folder '{matrix.package.backends}' does not exist. Correct the path."
    if matrix.package.preflight and not (root / matrix.package.preflight).is_file():
        yield ("package", "preflight"), f"the script '{matrix.package.preflight}' does not exist. Correct the path."
    for index, direction in enumerate(matrix.package.directions):
        if direction not in matrix.accuracy.caps:
            yield ("package", "directions", index), f"accuracy.caps has no cap for '{direction}'. Add it there."
    for name, toolchain in matrix.toolchains.items():
        here: Where = ("toolchains", name)
        if not (root / toolchain.lock).is_file():
            locks = sorted(str(p.relative_to(root)) for p in (root / toolchain.lock).parent.glob("*.txt"))
            yield (
                (*here, "lock"),
                f"the lock file '{toolchain.lock}' does not exist.{did_you_mean(toolchain.lock, locks)}",
            )
        yield from _requirement_faults((*here, "requires"), toolchain.requires)
        yield from _op_faults((*here, "ops"), toolchain.ops or (), matrix)
    for name, platform in matrix.platforms.items():
        here = ("platforms", name)
        if platform.container and not (root / platform.container).is_file():
            yield (*here, "container"), f"the Dockerfile '{platform.container}' does not exist. Correct the path."
        yield from _duplicates((*here, "targets"), platform.targets)
        hosted = [label for label in platform.runner if re.match(r"(ubuntu|windows|macos)-", label)]
        if hosted and platform.runner != [matrix.ci.hosted]:
            yield (
                (*here, "runner"),
                f"hosted machines are those of ci.hosted. Write [{matrix.ci.hosted}] alone, or own ones.",
            )
        for index, target in enumerate(platform.machines):
            if target not in platform.targets:
                place: Where = (*here, "machines", index)
                yield place, f"'{target}' is no target of this platform.{did_you_mean(target, platform.targets)}"
        yield from _duplicates((*here, "toolchains"), [lane.toolchain for lane in platform.entries])
        for index, lane in enumerate(platform.entries):
            there: Where = (*here, "toolchains", index)
            if lane.toolchain not in matrix.toolchains:
                yield there, f"unknown toolchain '{lane.toolchain}'.{did_you_mean(lane.toolchain, matrix.toolchains)}"
            yield from _op_faults((*there, "ops"), lane.ops or (), matrix)
            for target in lane.targets or ():
                if target not in platform.targets:
                    yield there, f"'{target}' is no target of this platform.{did_you_mean(target, platform.targets)}"
    for name, op in matrix.ops.items():
        here = ("ops", name)
        yield from _duplicates((*here, "axes"), op.axes)
        yield from _duplicates((*here, "directions"), op.directions)
        for index, direction in enumerate(op.directions):
            if direction not in matrix.package.directions:
                hint = did_you_mean(direction, matrix.package.directions)
                yield (*here, "directions", index), f"unknown direction '{direction}'.{hint}"
        for key in op.defaults:
            if key not in op.axes:
                yield (*here, "defaults", key), f"unknown axis '{key}'.{did_you_mean(key, op.axes)}"
        groups: list[tuple[Where, Mapping[str, ScalarOrList]]]
        groups = [((*here, "cases", tier, i), g) for tier, some in op.cases.items() for i, g in enumerate(some)]
        groups += [((*here, "timed", i), g) for i, g in enumerate(op.timed)]
        for there, group in groups:
            for key in group:
                if key not in op.axes and key != "direction":
                    yield (*there, key), f"unknown axis '{key}'.{did_you_mean(key, [*op.axes, 'direction'])}"
            for value in as_list(group.get("direction", [])):
                if value not in op.directions:
                    yield there, f"unknown direction '{value}'.{did_you_mean(str(value), op.directions)}"
            for axis in op.axes:
                if axis not in group and axis not in op.defaults:
                    yield there, f"the axis '{axis}' is missing, and it has no default. Add it."
    for name, event in matrix.ci.events.items():
        for index, toolchain_name in enumerate(event.toolchains or ()):
            if toolchain_name not in matrix.toolchains:
                hint = did_you_mean(toolchain_name, matrix.toolchains)
                yield ("ci", "events", name, "toolchains", index), f"unknown toolchain '{toolchain_name}'.{hint}"
    axes = {axis for op in matrix.ops.values() for axis in op.axes}
    known: dict[str, Collection[Scalar]] = {
        "platform": list(matrix.platforms),
        "target": [target for platform in matrix.platforms.values() for target in platform.targets],
        "toolchain": list(matrix.toolchains),
        "op": list(matrix.ops),
        "direction": [direction for op in matrix.ops.values() for direction in op.directions],
    }
    rules = [(("expectations", i), e.where) for i, e in enumerate(matrix.expectations)]
    rules += [(("exclusions", i), e.where) for i, e in enumerate(matrix.exclusions)]
    for place, where in rules:
        here = (*place, "where")
        for key, values in where.items():
            if key not in known and key not in axes:
                yield (*here, key), f"unknown key '{key}'.{did_you_mean(key, [*CELL_KEYS, *axes])}"
            for value in as_list(values) if key in known else ():
                if value not in known[key]:
                    yield (*here, key), f"unknown {key} '{value}'.{did_you_mean(str(value), map(str, known[key]))}"
    for index, expectation in enumerate(matrix.expectations):
        here = ("expectations", index)
        try:
            re.compile(expectation.match)
        except re.error as error:
            yield (*here, "match"), f"this is not a regular expression: {error}. Escape what is meant literally."
        if (expectation.stage is None) == (expectation.outcome == "error"):
            yield (*here, "outcome"), "an error names its stage, and a fail has none. Correct 'stage'."
        yield from _requirement_faults((*here, "versions"), expectation.versions)


def _op_faults(where: Where, names: Sequence[str], matrix: Matrix) -> Iterator[tuple[Where, str]]:
    known = [*matrix.ops, *(f"{name}.{way}" for name, op in matrix.ops.items() for way in op.directions)]
    for index, name in enumerate(names):
        if name not in known:
            yield (*where, index), f"unknown op '{name}'.{did_you_mean(name, known)}"


def _requirement_faults(where: Where, requirements: Sequence[str]) -> Iterator[tuple[Where, str]]:
    for index, text in enumerate(requirements):
        try:
            Requirement(text)
        except InvalidRequirement as error:
            yield (*where, index), f"'{text}' is not a requirement: {str(error).splitlines()[0]}. Write 'name>=1.2'."


def _duplicates(where: Where, values: Sequence[str]) -> Iterator[tuple[Where, str]]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield (*where, index), f"'{value}' is here twice, so its cells would be too. Take one out."
