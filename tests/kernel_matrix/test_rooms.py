"""The rooms of the harness import each other in one direction, and no command imports another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

HARNESS = ROOT / "src" / "kernel_matrix"
MODULES = sorted(HARNESS.rglob("*.py"))
LONGEST_FUNCTION = 40

# A room imports itself and the rooms of the lines before it, so that there is no circle.
ORDER = (
    ("base",),
    ("job",),  # all that a job imports: it runs in an environment that has nothing else of the harness
    ("vendors",),
    ("config",),
    ("audit",),  # a second opinion: it shares nothing with the rooms that it checks
    ("results",),
    ("judge",),
    ("diagnosis",),
    ("run", "report", "machines"),
    ("project",),
    ("judging",),
    ("reporting",),
    ("pipeline",),
    ("lab",),
    ("bench",),
    ("launches",),
    ("adopt",),
    ("cli",),
)
ROOMS = {room for line in ORDER for room in line}


def name_of(path: Path) -> list[str]:
    """Return ``["cli", "run"]`` for cli/run.py, and the own name of a package."""
    parts = list(path.relative_to(HARNESS).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path: Path) -> Iterator[list[str]]:
    """Yield the modules of the harness that a module imports, as ``name_of`` gives them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "kernel_matrix" and len(parts) > 1:
                yield parts[1:]


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_rooms_before_it(room):
    number = next(number for number, line in enumerate(ORDER) if room in line)
    before = {other for line in ORDER[:number] for other in line} if room != "job" else set()
    if room == "audit":
        before = {"base", "vendors", "config"}
    for path in (path for path in MODULES if name_of(path)[:1] == [room]):
        others = {parts[0] for parts in imports(path)} & ROOMS - {room}
        assert others <= before, path


def test_every_module_stands_in_a_room():
    assert {(name_of(path) or ["__init__"])[0] for path in MODULES} == ROOMS | {"__init__", "__main__"}


def test_no_command_imports_a_command():
    from kernel_matrix import cli

    commands = {path.split(".")[2] for path in cli.commands().values()} - {"ci"}
    for path in (path for path in MODULES if name_of(path)[:1] == ["cli"]):
        imported = {parts[1] for parts in imports(path) if parts[0] == "cli" and len(parts) > 1}
        assert not imported & commands, path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HARNESS)))
def test_no_function_is_too_long(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < LONGEST_FUNCTION, f"{node.name} in {path}"


# A verb in the imperative has no article, pronoun or question word before it.
_NO_VERB = re.compile(
    r"(A|An|The|This|That|These|Those|What|Whether|Which|Who|Whose|How|Where|When|Why|It|Its|They|From|Of|"
    r"One|Every|Each|All|As|If|In|For|With|Without|Nothing|None|Everything|Both|Same)\b"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HARNESS)))
def test_the_docstring_of_a_function_begins_with_a_verb(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            is_property = any(getattr(mark, "id", "").endswith("property") for mark in node.decorator_list)
            assert is_property or not _NO_VERB.match(ast.get_docstring(node) or ""), f"{node.name} in {path}"


def test_no_docstring_begins_with_a_question_word():
    question = re.compile(r'"""(What|Which|Whether|How|Where|Who) ')
    files = [path for folder in ("src", "tests", "ci") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in [*files, ROOT / "noxfile.py"] if question.search(path.read_text())] == []
