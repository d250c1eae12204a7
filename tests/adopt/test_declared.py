"""Each list of a repository that names a module which its tests import: `init` takes it from there, with its bound."""

from __future__ import annotations

import pytest

from kernel_matrix.adopt import requirements, terminal
from kernel_matrix.adopt.lock import Locks
from kernel_matrix.adopt.proposal import propose
from kernel_matrix.adopt.repository import Repository, look
from kernel_matrix.base.errors import UserError
from kernel_matrix.vendors.machine import Machine

EXTRA = "[project.optional-dependencies]\n"
STATIC = '[project]\nname = "pq"\nversion = "1"\n'
# What a test imports, the files that name its distribution, and the line of the lock's source.
LISTS = {
    "an extra": ("tabulate", {"pyproject.toml": EXTRA + 't = ["tabulate>=0.8"]'}, "tabulate>=0.8"),
    "an extra beside the tests' own": (
        "torch_structured",
        {"pyproject.toml": '[project.optional-dependencies]\ntest = ["pytest"]\nx = ["torch-structured>=1.3.0"]'},
        "torch-structured>=1.3.0",
    ),
    "a tool that tests import": ("mypy", {"pyproject.toml": EXTRA + 'test = ["mypy"]'}, "mypy"),
    "a group that another includes": (
        "tabulate",
        {"pyproject.toml": '[dependency-groups]\na = [{include-group = "b"}]\nb = [{include-group = "c"}, "tabulate"]'},
        "tabulate",
    ),
    "PDM": ("tabulate", {"pyproject.toml": '[tool.pdm.dev-dependencies]\nx = ["tabulate>=0.8"]'}, "tabulate>=0.8"),
    "uv": ("tabulate", {"pyproject.toml": '[tool.uv]\ndev-dependencies = ["tabulate>=0.8"]'}, "tabulate>=0.8"),
    "Hatch": ("tabulate", {"pyproject.toml": '[tool.hatch.envs.x]\nextra-dependencies = ["tabulate"]'}, "tabulate"),
    "cibuildwheel": ("tabulate", {"pyproject.toml": '[tool.cibuildwheel]\ntest-requires = ["tabulate"]'}, "tabulate"),
    "Poetry": (
        "tabulate",
        {"pyproject.toml": '[tool.poetry.group.x.dependencies]\ntabulate = "^0.8.1"'},
        "tabulate==0.8.*,>=0.8.1",
    ),
    "Poetry, a table": (
        "tabulate",
        {"pyproject.toml": '[tool.poetry.dev-dependencies]\ntabulate = {version = "~1.2.3", extras = ["widechars"]}'},
        "tabulate[widechars]==1.2.*,>=1.2.3",
    ),
    "Poetry, one of two": (
        "tabulate",
        {"pyproject.toml": '[tool.poetry.dependencies]\ntabulate = [{version = ">=1"}, {version = "<1"}]'},
        "tabulate>=1",
    ),
    "Poetry, a repository": (
        "tabulate",
        {"pyproject.toml": '[tool.poetry.dependencies]\ntabulate = {git = "https://a.org/t.git", rev = "ab"}'},
        "tabulate @ git+https://a.org/t.git@ab",
    ),
    "Pipenv": ("tabulate", {"Pipfile": '[dev-packages]\ntabulate = "==0.9"'}, "tabulate==0.9"),
    "setup.cfg": ("tabulate", {"setup.cfg": "[options.extras_require]\nx =\n    tabulate>=0.8\n"}, "tabulate>=0.8"),
    "setup.py": ("tabulate", {"setup.py": "import setuptools as s\ns.setup(tests_require=['tabulate'])"}, "tabulate"),
    "tox": ("tabulate", {"tox.ini": "[testenv:x]\ndeps = -r a.txt\n", "a.txt": "tabulate>=0.8 # t"}, "tabulate>=0.8"),
    "a factor of tox": ("tabulate", {"tox.ini": "[testenv]\ndeps =\n    py311,gpu: tabulate>=0.8\n"}, "tabulate>=0.8"),
    "nox": ("tabulate", {"noxfile.py": "def t(s):\n    s.install('-q', 'tabulate>=0.8', *['.'])\n"}, "tabulate>=0.8"),
    "a file": ("yaml", {"requirements-dev.txt": "PyYAML>=6 --hash=sha256:ab\n"}, "PyYAML>=6"),
    "one of several distributions": ("cv2", {"requirements/dev.in": "opencv-python<5\n"}, "opencv-python<5"),
    "an address": (
        "tabulate",
        {"requirements.txt": "git+https://a.org/t.git@v1#egg=tabulate\n"},
        "tabulate @ git+https://a.org/t.git@v1",
    ),
    "a part of a module": ("ruamel.yaml", {"requirements.txt": "ruamel.yaml>0.18\n"}, "ruamel.yaml>0.18"),
    "conda": ("tabulate", {"environment.yml": "dependencies:\n- conda-forge::tabulate=0.9\n"}, "tabulate"),
    "pip in conda": ("tabulate", {"environment.yml": "dependencies:\n- pip:\n  - tabulate>=0.8\n"}, "tabulate>=0.8"),
    "what holds here": (
        "tabulate",
        {"requirements.txt": "tabulate<0.5; python_version < '3'\ntabulate>=0.8; python_version > '3'\n"},
        "tabulate>=0.8; python_version > '3'",
    ),
}  # fmt: skip


def lay(root, test: str, files: dict[str, str]) -> Repository:
    named = {"pq/__init__.py": "", "tests/test_a.py": f"{test}\ndef test_a(): ...\n", "pyproject.toml": ""} | files
    if "setup.py" not in named and "setup.cfg" not in named:
        named["pyproject.toml"] = STATIC + named["pyproject.toml"]
    for name, text in named.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return look(root)


@pytest.fixture(autouse=True)
def unbuilt(monkeypatch):
    monkeypatch.setattr("kernel_matrix.adopt.project_file.metadata_of", lambda _: ({}, "", ""))


@pytest.mark.parametrize("name", LISTS)
def test_what_a_test_imports_is_taken_from_any_list_with_its_bound(tmp_path, name):
    module, files, line = LISTS[name]
    repository = lay(tmp_path, f"import {module}", files)
    assert line in requirements.lines(repository)
    assert requirements.unknown_imports(repository) == []


@pytest.mark.parametrize(
    "test",
    ["def f():\n    import tabulate", "from pytest import *\nimportorskip('tabulate.x')", "from tabulate import x"],
)  # fmt: skip
def test_where_a_test_asks_for_a_module_is_all_one(tmp_path, test):
    assert "tabulate>=0.8" in requirements.lines(lay(tmp_path, test, LISTS["an extra"][1]))


def test_no_index_is_asked_for_a_package_of_the_repository_that_a_list_names(tmp_path):
    files = {"requirements.txt": "other\npq\n./more\n", "more/other/__init__.py": ""}
    files["pyproject.toml"] = '[tool.poetry.dependencies]\nfurther = {path = "../further"}\n'
    lines = requirements.lines(lay(tmp_path, "import other, pq, further", files))
    assert not {"other", "pq", "further"} & {*lines}


def test_what_is_left_out_is_said(tmp_path):
    extras = (
        '[project.optional-dependencies]\ntest = ["pytest", "mypy"]\ndocs = ["sphinx"]\nx = ["tabulate", "pq[docs]"]'
    )
    lines = requirements.lines(lay(tmp_path, "import tabulate", {"pyproject.toml": extras}))
    assert "# the extra 'test'; left out, as nothing here imports it: mypy" in lines
    assert lines[-1].endswith("imported is taken: pyproject.toml, project.optional-dependencies.docs")
    assert not {"mypy", "sphinx", "pq[docs]"} & {*lines}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CMakeLists.txt", "nanobind_add_module(pq_cpp NOMINSIZE a.cpp)"),
        ("CMakeLists.txt", "add_library(${NAME} a.c)\nset_target_properties(x PROPERTIES OUTPUT_NAME pq_cpp)"),
        ("src/a.cpp", "PYBIND11_MODULE(pq_cpp, m) {}"),
        ("src/a.c", "PyMODINIT_FUNC PyInit_pq_cpp(void) {}"),
        ("src/meson.build", "py.extension_module('pq_cpp', 'a.c')"),
        ("setup.py", "import setuptools as s\ns.setup(ext_modules=[s.Extension(\n  name='pq_cpp.core')])"),
        ("src/lib.rs", "#[pymodule]\nfn pq_cpp(m: &Bound<PyModule>) {}"),
    ],
)  # fmt: skip
def test_a_module_that_the_repository_compiles_is_no_unknown_import(tmp_path, name, text):
    repository = lay(tmp_path, "import pq_cpp, pq_other", {name: text})
    assert requirements.unknown_imports(repository) == ["pq_other"]
    assert "in no list of requirements: pq_other" in "\n".join(terminal.seen_lines(repository))


def test_an_optional_need_that_cannot_be_resolved_gives_way(tmp_path, monkeypatch):
    def resolve(source, kinds, **_):
        if "tabulate" in source.read_text().replace("optional-dependencies", ""):
            raise UserError("there is no tabulate")
        return Locks({"": "numpy==1.0\n"})

    monkeypatch.setattr("kernel_matrix.adopt.lock.resolve", resolve)
    files = {"pyproject.toml": '[project.optional-dependencies]\nt = ["tabulate>=0.8"]'}
    optional = lay(tmp_path, "def test_b():\n    import tabulate", files)
    [note] = propose(optional, Machine(())).notes
    assert note == "without what tests ask for inside of functions (tabulate>=0.8): there is no tabulate"
    with pytest.raises(UserError, match="there is no tabulate"):
        propose(lay(tmp_path, "import tabulate", files), Machine(()))
