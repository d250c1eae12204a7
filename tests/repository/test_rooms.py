"""The rooms of the harness import each other in one direction."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from common import ROOT

HARNESS = ROOT / "src" / "kernel_matrix"
MODULES = sorted(HARNESS.rglob("*.py"))
LONGEST_FUNCTION = 40

# A room imports itself and the rooms of the lines before it, so that there is no circle.
ORDER = (
    ("base",),
    ("job",),  # all that a job imports: it runs in an environment that has nothing else of the harness
    ("kit",),  # what a suite imports there: no other room of the harness but job
    ("vendors",),
    ("config",),
    ("audit",),  # a second opinion: it shares nothing with the rooms that it checks
    ("store",),
    ("results",),
    ("judge",),
    ("diagnosis",),
    ("run", "report", "machines"),
    ("pipeline",),
    ("judging", "doctor"),
    ("probes",),
    ("matrix",),
    ("cli",),
    ("ci", "send"),
    ("adopt", "serve"),
    ("tools",),
)
ROOMS = {room for line in ORDER for room in line}


def name_of(path: Path) -> list[str]:
    """Return ``["cli", "run"]`` for cli/run.py, and the own name of a package."""
    parts = list(path.relative_to(HARNESS).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path: Path) -> Iterator[list[str]]:
    """Yield the modules of the harness that a module imports, as ``name_of`` gives them."""
    for parts in all_imports(path):
        if parts[0] == "kernel_matrix" and len(parts) > 1:
            yield parts[1:]


def all_imports(path: Path) -> list[list[str]]:
    """Return the dotted names that a module imports, as lists of their parts."""
    return read(path).imports


class Function(NamedTuple):
    """Keep a function's place, its lines and its docstring; a property's docstring describes a value."""

    place: str
    lines: int
    docstring: str
    is_property: bool


class Module(NamedTuple):
    """Hold what a module imports, and its functions."""

    imports: list[list[str]]
    functions: list[Function]


@cache
def read(path: Path) -> Module:
    """Return the imports and functions of a module. Several tests ask, and parsing all modules takes a second."""
    module = Module([], [])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            module.imports.extend(f"{node.module}.{alias.name}".split(".") for alias in node.names)
        elif isinstance(node, ast.Import):
            module.imports.extend(alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any(getattr(mark, "id", "").endswith("property") for mark in node.decorator_list)
            lines = (node.end_lineno or node.lineno) - node.lineno
            place = f"{node.name} in {path.relative_to(ROOT / 'src')}"
            docstring = ast.get_docstring(node) or ""
            module.functions.append(Function(place, lines, docstring, is_property))
    return module


def functions() -> Iterator[Function]:
    """Yield the functions of the harness."""
    for path in MODULES:
        yield from read(path).functions


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_rooms_before_it(room):
    number = next(number for number, line in enumerate(ORDER) if room in line)
    before = {other for line in ORDER[:number] for other in line}
    before = {"job": set(), "kit": {"job"}, "audit": {"base", "vendors", "config"}}.get(room, before)
    for path in (path for path in MODULES if name_of(path)[:1] == [room]):
        others = {parts[0] for parts in imports(path)} & ROOMS - {room}
        assert others <= before, path


def test_no_modules_import_each_other_in_a_circle():
    files = {".".join(["kernel_matrix", *name_of(path)]): path for path in MODULES}
    imported = {name: {module_of(parts, files) for parts in all_imports(path)} for name, path in files.items()}
    graph = {name: modules - {name, ""} for name, modules in imported.items()}
    TopologicalSorter(graph).prepare()  # raises a CycleError, which names the circle


def module_of(parts: list[str], files: Mapping[str, Path]) -> str:
    """Return the module that a dotted name is or lies in; empty for one of another distribution, and the top folder."""
    names = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    return next((name for name in names if name in files), "")


def test_every_module_stands_in_a_room():
    assert {(name_of(path) or ["__init__"])[0] for path in MODULES} == ROOMS | {"__init__", "__main__"}


def test_no_command_imports_a_command():
    from kernel_matrix.cli import commands

    modules = {tuple(module.split(".")) for module in commands().values()}
    for path in MODULES:
        imported = {tuple(parts[:length]) for parts in all_imports(path) for length in range(len(parts) + 1)}
        assert not imported & modules, path


def test_no_function_is_too_long():
    assert [function.place for function in functions() if function.lines >= LONGEST_FUNCTION] == []


# A verb in the imperative has no article, pronoun or question word before it.
_NO_VERB = re.compile(
    r"(A|An|The|This|That|These|Those|What|Whether|Which|Who|Whose|How|Where|When|Why|It|Its|They|From|Of|"
    r"One|Every|Each|All|As|If|In|For|With|Without|Nothing|None|Everything|Both|Same)\b"
)


def test_the_docstring_of_a_function_begins_with_a_verb():
    described = [function for function in functions() if not function.is_property]
    assert len(described) > 1000
    assert [function.place for function in described if _NO_VERB.match(function.docstring)] == []


def test_no_docstring_begins_with_a_question_word():
    question = re.compile(r'"""(What|Which|Whether|How|Where|Who) ')
    files = [path for folder in ("src", "tests", "ci") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in [*files, ROOT / "noxfile.py"] if question.search(path.read_text())] == []
