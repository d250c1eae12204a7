"""Imports between the rooms of the harness go one way, and its functions are short and described.

The contracts of import-linter stand in pyproject.toml.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest
from common import ROOT
from loops import at_least

PACKAGES = ("kernel_matrix", "gpu_emulators", "mhc")
LONGEST_FUNCTION = 40
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def lint_imports(source: Path) -> str:
    """Return what import-linter says of the packages in a folder, without its line breaks."""
    command = [sys.executable, "-c", LINT, "--no-logo", "--no-cache", str(ROOT / "pyproject.toml")]
    variables = {**os.environ, "PYTHONPATH": str(source), "COLUMNS": "1000"}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return which module imports which, relative imports and those of functions too."""
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_every_contract_of_imports_is_kept():
    assert re.search(r"Contracts: \d kept, 0 broken", lint_imports(ROOT / "src"))


ROOMS = "A room imports only rooms below it"
# A module, the line that is put in, and the contract that it breaks.
FAULTS = [
    ("kernel_matrix/base/paths.py", "from ..config import plan", ROOMS),
    ("kernel_matrix/job/wire.py", "from kernel_matrix.base import git", ROOMS),
    ("kernel_matrix/report/sentences.py", "from kernel_matrix.tools.bench import command", ROOMS),
    ("kernel_matrix/adopt/comment.py", "from ..serve import page", ROOMS),
    ("kernel_matrix/kit/conform.py", "from ..base import git", "The kit imports job alone"),
    ("kernel_matrix/audit/raw.py", "from ..store import names", "The audit imports nothing of what it checks"),
    ("mhc/ops/needs.py", "import kernel_matrix.pipeline",
     "The kernel package and the emulators import nothing of the harness"),
    ("kernel_matrix/run/quiet.py", "from mhc.ops import needs",
     "The harness and the emulators import nothing of the kernel package"),
]  # fmt: skip


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> str:
    """Return what import-linter says of a copy with every fault, and with a room that no contract knows."""
    source = tmp_path_factory.mktemp("faults")
    for package in PACKAGES:
        shutil.copytree(ROOT / "src" / package, source / package, ignore=_only_python)
    for name, line, _ in FAULTS:
        path = source / name
        path.write_text(f"{path.read_text()}\n{line}\n")
    (source / "kernel_matrix" / "attic").mkdir()
    (source / "kernel_matrix" / "attic" / "__init__.py").touch()
    return lint_imports(source)


def _only_python(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".py") and not Path(folder, name).is_dir()]


@pytest.mark.parametrize(("module", "line", "contract"), FAULTS)
def test_a_contract_of_imports_is_broken_by_a_fault(broken, module, line, contract):
    importer = module.removesuffix(".py").replace("/", ".")
    assert f"{contract} BROKEN" in broken
    assert f"{importer} -> " in broken, line


def test_a_room_that_no_contract_knows_is_named(broken):
    assert "attic" in broken


def test_no_modules_import_each_other_in_a_circle(graph):
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imported) > 700
    TopologicalSorter(imported).prepare()  # raises a CycleError, which names the circle


def test_no_command_imports_a_command(graph):
    from kernel_matrix.cli import commands

    assert {name: graph.find_modules_that_directly_import(name) for name in commands().values()} == {
        name: set() for name in commands().values()
    }


class Function(NamedTuple):
    """Keep a function's place, its lines and its docstring; a property's docstring describes a value."""

    place: str
    lines: int
    docstring: str
    is_property: bool


@cache
def functions() -> list[Function]:
    """Return the functions of the harness."""
    found = []
    for path in sorted(at_least(300, (ROOT / "src" / "kernel_matrix").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_property = any(getattr(mark, "id", "").endswith("property") for mark in node.decorator_list)
                lines = (node.end_lineno or node.lineno) - node.lineno
                place = f"{node.name} in {path.relative_to(ROOT / 'src')}"
                found.append(Function(place, lines, ast.get_docstring(node) or "", is_property))
    return at_least(2000, found)


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
    files = at_least(800, (path for folder in ("src", "tests", "ci") for path in (ROOT / folder).rglob("*.py")))
    assert [str(path) for path in [*files, ROOT / "noxfile.py"] if question.search(path.read_text())] == []
