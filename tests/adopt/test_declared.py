"""Each list of a repository that names a module which its tests import: `init` takes it from there, with its bound."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from kernel_matrix.adopt import requirements, terminal
from kernel_matrix.adopt.lock import Locks
from kernel_matrix.adopt.proposal import LOCKS, propose
from kernel_matrix.adopt.repository import Repository, look
from kernel_matrix.base.errors import UserError
from kernel_matrix.vendors.machine import Machine

EXTRA = "[project.optional-dependencies]\n"
CI = "test:\n  script:\n    - {}\n    - pip install -e .\n"
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
    "GitLab's CI": ("tabulate", {".gitlab-ci.yml": CI.format("pip install pytest 'tabulate>=0.8'")}, "tabulate>=0.8"),
    "GitHub's workflows": (
        "tabulate",
        {".github/workflows/a.yml": "jobs:\n t:\n  steps:\n  - run: >-\n     pip install -q\n     tabulate\n"},
        "tabulate",
    ),
    "Azure's pipelines": ("yaml", {"azure-pipelines.yml": "steps:\n- script: uv pip install PyYAML\n"}, "PyYAML"),
    "Travis": ("tabulate", {".travis.yml": "install:\n- pip3 install tabulate==0.7 && pytest\n"}, "tabulate"),
    "make": ("tabulate", {"Makefile": "test:\n\tpip install --index-url a \\\n\t  tabulate  # t\n"}, "tabulate"),
    "an image": ("tabulate", {"Dockerfile": "RUN pip install --no-cache-dir a \\\n  tabulate[x]\n"}, "tabulate[x]"),
    "a script": ("tabulate", {"ci/test.sh": "conda install -y -c conda-forge tabulate=0.9\n"}, "tabulate"),
    "a file that CI names": ("tabulate", {"Makefile": "t:\n\tpip install -r t/a\n", "t/a": "tabulate\n"}, "tabulate"),
    "CI that is no YAML": ("tabulate", {".gitlab-ci.yml": "a: !x [\n  - pip install tabulate\n"}, "tabulate"),
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


@pytest.mark.parametrize("folder", ["pq/tabulate", "src/pq/tabulate", "pq/deep/tabulate", "pq/a/b/tabulate"])
def test_a_part_of_the_package_is_no_distribution_of_its_name(tmp_path, folder):
    parts = [f"{'/'.join(folder.split('/')[:n])}/__init__.py" for n in range(2, folder.count("/") + 2)]
    extra = "[project.optional-dependencies]\ntabulate = ['tabulate>=0.7']\n"
    repository = lay(tmp_path, "import tabulate", {"pyproject.toml": extra, **dict.fromkeys(parts, "")})
    assert "tabulate>=0.7" in requirements.lines(repository)


POLITE = (
    "try:\n    import tabulate\nexcept ImportError:\n    tabulate = None",
    "import importlib.util as u\nHAS = u.find_spec('tabulate') is not None",
    "import importlib as i\nHAS = i.import_module('tabulate.x')",
    "def has():\n    try:\n        import tabulate\n        return True\n    except Exception:\n        return False",
)


@pytest.mark.parametrize(
    "test",
    [
        "def f():\n    import tabulate",
        "from pytest import *\nimportorskip('tabulate.x')",
        "from tabulate import x",
        *POLITE,
    ],
)
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
    assert "# the extra 'test'; left out: mypy, which nothing here imports" in lines
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
    assert note == "without what tests ask for and do without (tabulate>=0.8): there is no tabulate"
    with pytest.raises(UserError, match="there is no tabulate"):
        propose(lay(tmp_path, "import tabulate", files), Machine(()))


NOT_RESOLVED = {
    "was not found": (
        "Because tabulate was not found in the package registry and you require tabulate>=0.8, they cannot be.",
        " Asked for by the extra 'test' (tabulate>=0.8). Remedy: correct the name in the lock file ",
    ),
    "the cache": ("error: Failed to initialize cache at `/root/x`", " Remedy: set UV_CACHE_DIR to a folder that "),
    "no network": ("cause: dns error cause: failed to lookup address information: Name or service not known",
                   " Remedy: connect the machine, or "),
    "in no rule": ("Because pytest is what it is, nothing goes.", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_RESOLVED)
def test_what_cannot_be_resolved_is_told_with_who_asks_for_it_and_the_remedy(tmp_path, monkeypatch, name):
    fault, more = NOT_RESOLVED[name]

    def resolve(*_, **__):
        raise UserError(fault)

    monkeypatch.setattr("kernel_matrix.adopt.lock.resolve", resolve)
    files = {"pyproject.toml": '[project.optional-dependencies]\ntest = ["tabulate>=0.8"]'}
    with pytest.raises(UserError) as raised:
        propose(lay(tmp_path, "import tabulate", files), Machine(()))
    assert str(raised.value).startswith(f"{fault}{more}")
    assert ("Remedy" in str(raised.value)) == bool(more)


@pytest.mark.parametrize("test", [*POLITE, "import pytest\ntabulate = pytest.importorskip('tabulate')"])
def test_what_tests_ask_for_and_no_list_names_is_said(tmp_path, monkeypatch, test):
    monkeypatch.setattr("kernel_matrix.adopt.lock.resolve", lambda *_, **__: Locks({"": "numpy==1.0\n"}))
    [note] = propose(lay(tmp_path, test, {}), Machine(())).notes
    assert "no list of the repository names them: tabulate (1 file)" in note
    assert note.endswith(f"into {LOCKS}/python.in, and then `kernel-matrix lock`")


@pytest.mark.parametrize("name", ["cupy", "flash-attn", "tensorrt", "pycuda", "transformer-engine"])
def test_what_is_built_with_cuda_and_tests_do_without_is_not_in_the_lock(tmp_path, name):
    module = name.replace("-", "_")
    test = f"import pytest\npytest.importorskip({module!r})\npytest.importorskip('tabulate')"
    lines = requirements.lines(lay(tmp_path, test, {".gitlab-ci.yml": CI.format(f"pip install {name} tabulate")}))
    assert f"# .gitlab-ci.yml; left out: {name}, which is built with CUDA" in lines
    assert ("tabulate" in lines, name in lines) == (True, False)


def test_only_what_an_error_names_gives_way(tmp_path, monkeypatch):
    def resolve(source, kinds, **_):
        if "gone" in source.read_text():
            raise UserError("there is no gone")
        return Locks({"": "tabulate==1.0\n"})

    monkeypatch.setattr("kernel_matrix.adopt.lock.resolve", resolve)
    test = "import pytest\npytest.importorskip('gone')\npytest.importorskip('tabulate')"
    made = propose(lay(tmp_path, test, {".gitlab-ci.yml": CI.format("pip install gone tabulate")}), Machine(()))
    assert "\ntabulate\n" in made.files[f"{LOCKS}/python.in"]
    assert made.notes == ("without what tests ask for and do without (gone): there is no gone",)


# Files beside the tests, what imports them, and whether they count.
BESIDE = {
    "a script": ("tests/timing.py", {}, False),
    "a benchmark": ("tests/bench_a.py", {}, False),
    "a program in a folder": ("tests/tools/plot.py", {}, False),
    "what only a script imports": ("tests/more.py", {"tests/script.py": "import more\n"}, False),
    "what a type checker reads": (
        "tests/types.py",
        {"tests/test_b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tests.types\n"},
        False,
    ),
    "a script beside tests at the top": (
        "script.py",
        {"tests/test_a.py": "", "test_c.py": "def test_c(): ...\n"},
        False,
    ),
    "what a test imports": ("tests/helper.py", {"tests/test_b.py": "from helper import x\n"}, True),
    "what an import imports": (
        "tests/a/b.py",
        {"tests/test_b.py": "from . import a\n", "tests/a/__init__.py": "from .b import x\n"},
        True,
    ),
    "a plugin": ("tests/fix.py", {"tests/conftest.py": "pytest_plugins = ['fix']\n"}, True),
    "a program that a test runs": ("tests/work.py", {"tests/test_b.py": "RUN = ['python', 'tests/work.py']\n"}, True),
    "the package of the tests": ("tests/__init__.py", {}, True),
    "a conftest at the top": ("conftest.py", {}, True),
    "a benchmark that pytest collects": (
        "tests/bench_a.py",
        {"pytest.ini": "[pytest]\npython_files = test_*.py bench_*.py\n"},
        True,
    ),
    "a check that pytest collects": (
        "tests/check_a.py",
        {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['check_*.py', 'test_*.py']\n"},
        True,
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_file_counts_that_pytest_collects_or_that_such_a_file_imports(tmp_path, name):
    path, files, counts = BESIDE[name]
    repository = lay(tmp_path, "import pq", {"requirements.txt": "tabulate\n", **files, path: "import tabulate\n"})
    assert ("tabulate" in requirements.lines(repository)) == counts


def test_what_runs_only_where_a_test_is_a_program_is_not_needed(tmp_path):
    test = "if __name__ == '__main__':\n    import tabulate"
    assert "tabulate" not in requirements.lines(lay(tmp_path, test, LISTS["an extra"][1]))


_BUILD = '[build-system]\nrequires = ["setuptools", "numpy>=2.0"]\n'
LIMITS = {
    "of an extra": (
        'dependencies = ["numpy"]\n[project.optional-dependencies]\ntest = ["numpy<2"]\n',
        ["numpy", "numpy<2"],
    ),
    "of a group": ('dependencies = ["numpy>=1"]\n[dependency-groups]\ntest = ["numpy<2"]\n', ["numpy>=1", "numpy<2"]),
    "of a group that is included": (
        'dependencies = ["numpy"]\n[dependency-groups]\ntest = [{include-group = "old"}]\nold = ["numpy<2"]\n',
        ["numpy", "numpy<2"],
    ),
    "by a marker": ("dependencies = [\"numpy\", \"numpy<2; python_version < '4'\"]\n",
                    ["numpy", "numpy<2; python_version < '4'"]),
    "one version is a preference": (
        'dependencies = ["numpy"]\n[project.optional-dependencies]\ntest = ["numpy==1.21.0"]\n',
        ["numpy"],
    ),
    "one version of what is needed": ('dependencies = ["numpy>=1", "numpy==1.21.0"]\n', ["numpy>=1", "numpy==1.21.0"]),
    "none": ('dependencies = ["numpy>=1"]\n[project.optional-dependencies]\ntest = ["numpy"]\n', ["numpy>=1"]),
    "the same": ('dependencies = ["numpy<2"]\n[project.optional-dependencies]\ntest = ["numpy<2"]\n', ["numpy<2"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_a_further_limit_of_what_is_needed_holds_too(tmp_path, name):
    text, wanted = LIMITS[name]
    lines = requirements.lines(lay(tmp_path, "import numpy", {"pyproject.toml": text}))
    assert [line for line in lines if line.startswith("numpy")] == wanted


def test_a_limit_of_the_tests_does_not_hold_for_what_the_build_needs(tmp_path):
    project = '[project.optional-dependencies]\ntest = ["numpy<2", "scipy<1"]\n' + _BUILD
    files = {"pyproject.toml": project, "pq/a.pyx": "", "setup.py": "setup(ext_modules=cythonize('pq/a.pyx'))"}
    (tmp_path / "pyproject.toml").write_text(STATIC + project)
    repository = lay(tmp_path, "import numpy, scipy", files | {"pyproject.toml": STATIC + project})
    found = [line for line in requirements.lines(repository) if line.startswith(("numpy", "scipy"))]
    assert found == ["numpy>=2.0", "scipy<1"]


def test_what_a_list_wants_of_what_is_declared_is_no_requirement(tmp_path):
    files = {"pyproject.toml": 'dependencies = ["numpy"]\n', "requirements.txt": "numpy==1.21\n"}
    lines = requirements.lines(lay(tmp_path, "import numpy", files))
    assert ("numpy" in lines, "numpy==1.21" in lines) == (True, False)


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q --doctest-modules"\n'},
        {"pytest.ini": "[pytest]\naddopts = --doctest-modules\n"},
        {"setup.cfg": "[tool:pytest]\naddopts =\n    --doctest-modules\n"},
        {"tox.ini": "[pytest]\naddopts = -ra --doctest-modules\n"},
    ],
)
def test_doctests_outside_of_the_suite_are_no_cases_and_init_says_so(tmp_path, files):
    said = [*lay(tmp_path / "asked", "", files).project.notes]
    assert "of the doctests (--doctest-modules) only those in the suite's folder are cases" in said
    assert not [note for note in lay(tmp_path / "plain", "", {}).project.notes if "doctest" in note]


OLD_PYTEST = {
    "an extra": ("[project.optional-dependencies]\ntest = ['pytest{}']\n", "the extra 'test'"),
    "a group": ("[dependency-groups]\ntest = ['pytest{}']\n", "the group 'test'"),
    "what the package needs": ("dependencies = ['pytest{}']\n", "pyproject.toml, dependencies"),
    "a list of another name": ("[project.optional-dependencies]\nextra = ['pytest{}']\n",
                               "pyproject.toml, project.optional-dependencies.extra"),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD_PYTEST)
@pytest.mark.parametrize("wanted", ["<8", "~=7.4", "==7.4.4", "<=7.9,>=6"])
def test_a_limit_that_no_job_can_keep_is_left_out_and_named(tmp_path, name, wanted):
    text, origin = OLD_PYTEST[name]
    repository = lay(tmp_path, "import pytest", {"pyproject.toml": text.format(wanted)})
    lines = requirements.lines(repository)
    assert [line for line in lines if line.startswith("pytest")] == ["pytest>=8"]
    specifier = Requirement(f"pytest{wanted}").specifier
    assert f"# {origin}; left out: pytest, as it wants {specifier} and a job >=8" in lines
    assert [*requirements.against_a_job(repository)] == [
        f"not kept: pytest: {origin} wants {specifier}, and a job needs >=8"
    ]


@pytest.mark.parametrize("wanted", ["", ">=7", ">7,<9", ">8,<9", "<8; python_version < '3'", ">=8,<8.1", "!=8.0.0"])
def test_a_limit_that_a_job_can_keep_is_kept(tmp_path, wanted):
    text = OLD_PYTEST["an extra"][0].replace("'", '"').format(wanted)
    repository = lay(tmp_path, "import pytest", {"pyproject.toml": text})
    assert f"pytest{wanted}" in requirements.lines(repository)
    assert not [*requirements.against_a_job(repository)]
