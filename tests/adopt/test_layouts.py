"""Repositories as people lay them out: what ``init`` takes for the package, its tests, its needs and its platforms."""

from __future__ import annotations

import subprocess

import pytest

from kernel_matrix.adopt import platforms, requirements, terminal
from kernel_matrix.adopt.reach import reached
from kernel_matrix.adopt.repository import look
from kernel_matrix.base.errors import UserError

BODY = "def f(x): return x\n"
ENABLE = "cmake_minimum_required(VERSION 3.18)\nproject(it CXX)\n"


def project(name: str, *needs: str, python: str = ">=3.9") -> str:
    return (
        f'[project]\nname = "{name}"\nversion = "0"\nrequires-python = "{python}"\ndependencies = {[*needs]!r}\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )


def some_tests(module: str, count: int, folder: str) -> dict[str, str]:
    return {f"{folder}/test_{n}.py": f"import {module}\ndef test_it(): assert {module}.f(1)\n" for n in range(count)}


def seen(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    repository = look(root)
    return repository, "\n".join(terminal.seen_lines(repository))


def kernels(module: str, need: str, code: str) -> dict[str, str]:
    return {
        "pyproject.toml": project(module, need),
        f"{module}/__init__.py": code + BODY,
        **some_tests(module, 2, "tests"),
    }


KERNEL = "import triton\n@triton.jit\ndef kernel(x): pass\n" + BODY
SETUP = """
import torch
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
from setuptools import setup
NEEDS = ["einops", "numpy>=1.20"]
setup(name="fast", install_requires=NEEDS + ["tqdm"], extras_require={"test": ["scipy"]}, python_requires=">=3.9",
      packages=["fast"], ext_modules=[CUDAExtension("fast._C", ["a.cu"])], cmdclass={"build_ext": BuildExtension})
"""
SUITES = {
    "most tests elsewhere": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY}
        | some_tests("kern", 7, "examples/aws") | some_tests("kern", 6, "testing"),
        ("kern", "testing", "not taken: examples/ (7 files)"),
    ),
    "a folder of tests for each kernel, and a helper with the name of one": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY, "kern/utils/ab_test.py": "x = 1\n"}
        | {name: text for n in range(6) for name, text in some_tests("kern", 2, f"kern/ops/op{n}").items()},
        ("kern", "kern", "tests in kern/: 12 files\nprograms, as pytest finds no test in them: kern/utils/ab_test.py"),
    ),
    "tests of something else in the usual folder": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY} | some_tests("json", 9, "tests")
        | some_tests("kern", 3, "python/tests"),
        ("kern", "python/tests", "not taken: tests/ (9 files)"),
    ),
    "CMake beside two bindings": (
        {"CMakeLists.txt": ENABLE, "one/setup.py": "from setuptools import setup\nsetup(name='bind_one')\n",
         "one/bind_one/__init__.py": BODY, "two/setup.py": "import nothing_here\n", "two/bind_two/__init__.py": BODY}
        | some_tests("bind_one", 2, "one/tests"),
        ("bind_one", "one/tests", "other packages: --root two\nbuild systems: CMake"),
    ),
    "programs with the names of tests": (
        {"pyproject.toml": project("kern", "triton") + '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
         "kern/__init__.py": KERNEL, "tests/test_main.py": "import kern\ndef check_all(): pass\ncheck_all()\n"},
        ("kern", None, "programs, as pytest finds no test in them: tests/test_main.py"),
    ),
    "tests of every form": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY, "tests/test_a.py": "async def test_a(): pass\n",
         "tests/test_b.py": "class TestB:\n    def test_one(self): pass\n", "tests/test_c.py": "from common import *\n",
         "tests/test_d.py": "import unittest as u\nclass D(u.TestCase):\n    def test_d(self): pass\n",
         "tests/test_e.py": "if True:\n    def test_e(): pass\n",
         "tests/test_f.py": "test_f = made(1)\n", "tests/test_g.py": "import kern\nprint(1)\n"},
        ("kern", "tests", "tests in tests/: 6 files"),
    ),
    "another project that lies in the archive": (
        {"setup.py": SETUP.replace("import torch\n", ""), "fast/__init__.py": KERNEL, "a.cu": "",
         "pybind11/setup.py": "", "pybind11/pybind11/__init__.py": ""} | some_tests("pybind11", 5, "pybind11/tests"),
        ("fast", None, "not taken: pybind11/tests/ (5 files)"),
    ),
    "an extension alone, and another package that lies in the archive": (
        {"setup.py": SETUP.replace("import torch\n", "").replace('packages=["fast"], ', ""), "a.cu": "",
         "pybind11/setup.py": "", "pybind11/pybind11/__init__.py": ""} | some_tests("fast", 1, "tests"),
        ("fast", "tests", "tests in tests/: 1 file"),
    ),
    "a library of CMake that lies in the archive, and tests that import nothing": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY, "third/CMakeLists.txt": ""}
        | some_tests("json", 5, "third/tests") | some_tests("json", 1, "tests"),
        ("kern", "tests", "not taken: third/tests/ (5 files)"),
    ),
    "a package in a folder with a project file of its own": (
        {"pyproject.toml": project("kern"), "python/setup.py": "", "python/kern/__init__.py": BODY,
         "tools/big/__init__.py": BODY, "tools/big/a.py": BODY} | some_tests("kern", 1, "tests"),
        ("kern", "tests", "package kern in python/"),
    ),
    "a project in a folder whose tests are of the package": (
        {"pyproject.toml": project("kern"), "kern/__init__.py": BODY, "more/setup.py": ""}
        | some_tests("kern", 2, "more/tests"),
        ("kern", "more/tests", "tests in more/tests/: 2 files"),
    ),
    "a package in a folder": (
        {"CMakeLists.txt": ENABLE, "python/pyproject.toml": project("inner", "einops"),
         "python/inner/__init__.py": BODY, "test/test_build.py": "def test_it(): pass\n"}
        | some_tests("inner", 2, "python/tests"),
        ("inner", "python/tests", "has enable_testing() and add_test()"),
    ),
    "several build systems": (
        {"CMakeLists.txt": ENABLE, "meson.build": "", "Cargo.toml": "", "WORKSPACE": "",
         "pyproject.toml": project("kern"),
         "kern/__init__.py": BODY} | some_tests("kern", 1, "tests"),
        ("kern", "tests", "build systems: Python, CMake, Meson, Cargo, Bazel"),
    ),
    "a setup.py that needs what is not here": (
        {"setup.py": SETUP.replace("import torch", "import no_such_thing").replace("torch.utils", "no_such_thing"),
         "fast/__init__.py": BODY, "a.cu": ""} | some_tests("fast", 1, "tests"),
        ("fast", "tests", "setup.py was read, and not run: No module named 'no_such_thing'"),
    ),
    "a setup.py that ends with an error in parts": (
        {"setup.py": "raise RuntimeError('fatal: no repository (or any above): .git')\n" + SETUP,
         "fast/__init__.py": BODY, "a.cu": ""} | some_tests("fast", 1, "tests"),
        ("fast", "tests", "setup.py was read, and not run: fatal: no repository (or any above): .git"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUITES)
def test_a_layout_is_read_as_it_is_meant(tmp_path, name):
    files, (module, suite, said) = SUITES[name]
    repository, lines = seen(tmp_path, files)
    assert (repository.module, repository.suite) == (module, suite), lines
    assert said in lines


def test_the_needs_of_a_package_in_a_folder_are_taken(tmp_path):
    repository, _ = seen(tmp_path, SUITES["a package in a folder"][0])
    assert "einops" in requirements.lines(repository)
    assert repository.source == "python"


def test_a_package_in_a_folder_is_built_there(tmp_path):
    script = "from setuptools import setup, Extension\nsetup(name='ext', ext_modules=[Extension('ext.c', ['a.c'])])\n"
    files = {"CMakeLists.txt": ENABLE, "bind/setup.py": script, "bind/ext/__init__.py": BODY}
    repository, _ = seen(tmp_path, files | some_tests("ext", 1, "bind/tests"))
    assert repository.project.compiled.commands == ("pip install --no-build-isolation --no-deps -e ./bind",)


@pytest.mark.parametrize(
    ("files", "said"), [({}, "no test_*.py"), ({"tests/test_a.py": "check()\n"}, "finds no test in tests/test_a.py")]
)
def test_a_package_with_neither_tests_nor_kernels_of_triton_is_told_what_to_write(tmp_path, files, said):
    with pytest.raises(UserError) as error:
        seen(tmp_path, {"pyproject.toml": project("kern", "taichi"), "kern/__init__.py": BODY} | files)
    assert said in str(error.value)
    assert "Write tests/test_one.py" in str(error.value)


POETRY = '[tool.poetry]\nname = "kern"\nversion = "0"\n[tool.poetry.dependencies]\npython = ">=3.9"\n'
CFG = "[metadata]\nname = kern\n[options]\ninstall_requires = numpy\n[options.entry_points]\n"
ENTRIES = {
    "a plugin of pytest": ("pyproject.toml", project("kern") + "[project.entry-points.pytest11]\na = 'kern'\n", True),
    "a backend": ("pyproject.toml", project("kern") + "[project.entry-points.'torch.backends']\na = 'kern:f'\n", True),
    "a command": ("pyproject.toml", project("kern") + "[project.scripts]\na = 'kern:f'\n", False),
    "Poetry's": ("pyproject.toml", POETRY + "[tool.poetry.plugins.'jax_plugins']\na = 'kern'\n", True),
    "setup.cfg": ("setup.cfg", CFG + "jax_plugins =\n  a = kern\n", True),
    "a command of setup.cfg": ("setup.cfg", CFG + "console_scripts =\n  a = kern:f\n", False),
    "setup.py": ("setup.py", "setup(name='kern', entry_points={\n  'pytest11': ['a = kern'],\n})\n", True),
    "of several of setup.py one": (
        "setup.py",
        "ALL = {'console_scripts': ['a = kern:f'], 'jax_plugins': 'a = kern'}\nsetup(name='kern', entry_points=ALL)",
        True,
    ),
    "a command of setup.py": (
        "setup.py",
        "setup(name='kern', entry_points={'console_scripts': ['a = kern:f']})\n",
        False,
    ),
    "no table": ("setup.cfg", "[options\nentry_points = a\n", False),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_package_whose_parts_others_find_by_its_metadata_is_installed(tmp_path, name):
    file, text, is_installed = ENTRIES[name]
    repository, _ = seen(tmp_path, {file: text, "kern/__init__.py": BODY, **some_tests("kern", 1, "tests")})
    commands = ("pip install --no-build-isolation --no-deps .",)
    assert repository.project.compiled.commands == (commands if is_installed else ())


@pytest.mark.parametrize(
    ("code", "is_installed"),
    [
        ("from importlib.metadata import version\n__version__ = version('my-kern')\n", True),
        ("import importlib.metadata\n__version__ = importlib.metadata.version(__name__)\n", True),
        ("from importlib import metadata\nv = metadata.metadata('my_kern')['Version']\n", True),
        ("from importlib.metadata import version as _v\n__version__ = _v('my-kern')\n", True),
        ("import importlib.metadata as m, logging\nlogging.getLogger(__name__)\nv = m.version('numpy')\n", False),
        (
            "from importlib.metadata import version\ntry:\n    v = version('my-kern')\nexcept ImportError: v = 0\n",
            False,
        ),
        ("__version__ = '1'\n", False),
    ],
)
def test_a_package_that_reads_its_own_metadata_is_installed(tmp_path, code, is_installed):
    files = {"pyproject.toml": project("my-kern"), "src/my_kern/__init__.py": code}
    repository, _ = seen(tmp_path, files | some_tests("my_kern", 1, "tests"))
    commands = ("pip install --no-build-isolation --no-deps .",)
    assert repository.project.compiled.commands == (commands if is_installed else ())
    assert ("hatchling" in requirements.lines(repository)) == is_installed


_OF_SCM = "[tool.setuptools_scm]\nwrite_to = 'kern/_version.py'\n"
_SCRIPT = "from setuptools import setup\nsetup(name='kern', use_scm_version={'write_to': 'kern/_version.py'})\n"


@pytest.mark.parametrize(
    ("files", "made"),
    [
        ({"pyproject.toml": _OF_SCM}, True),
        ({"pyproject.toml": "[tool.setuptools_scm]\nversion_file = 'kern/_version.py'\n"}, True),
        ({"pyproject.toml": "[tool.hatch.build.hooks.vcs]\nversion-file = 'kern/_version.py'\n"}, True),
        ({"pyproject.toml": "[tool.pdm.version]\nsource = 'scm'\nwrite_to = 'kern/_version.py'\n"}, True),
        ({"pyproject.toml": "[tool.versioningit.write]\nfile = 'kern/_version.py'\n"}, True),
        ({"setup.py": _SCRIPT}, True),
        ({"pyproject.toml": _OF_SCM, "kern/_version.py": "version = '1'\n"}, False),
        ({"pyproject.toml": _OF_SCM, "kern/_version.py": "", ".gitignore": "_version.py\n"}, True),
        ({"pyproject.toml": "[tool.setuptools_scm]\n"}, False),
        ({"pyproject.toml": "[tool.other]\nfile = 'kern/_version.py'\n"}, False),
        ({"setup.py": _SCRIPT.replace("use_scm_version", "options")}, False),
    ],
)
def test_a_version_that_a_build_writes_into_a_module_is_written_before_the_tests_run(tmp_path, files, made):
    own = {"kern/__init__.py": BODY, "pyproject.toml": "", **files}
    own["pyproject.toml"] = f"[project]\nname = 'kern'\ndynamic = ['version']\n{own['pyproject.toml']}"
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    repository, _ = seen(tmp_path, own | some_tests("kern", 1, "tests"))
    assert (repository.project.compiled.commands[-1:] == ("python -m zipfile -e _wheel/*.whl .",)) == made


@pytest.mark.parametrize("backend", ["scikit_build_core.build", "mesonpy", "py_build_cmake.build"])
def test_what_a_backend_compiles_apart_from_the_sources_is_unpacked_over_them(tmp_path, backend):
    file = f'[project]\nname = "kern"\n[build-system]\nrequires = []\nbuild-backend = "{backend}"\n'
    files = {"python/kern/__init__.py": BODY, "pyproject.toml": file}
    repository, _ = seen(tmp_path / "a", files | some_tests("kern", 1, "tests"))
    wheel, install, unpack = repository.project.compiled.commands
    assert (wheel, install) == (
        "pip wheel --no-build-isolation --no-deps -w _wheel .",
        "pip install --no-deps _wheel/*.whl",
    )
    assert unpack == "python -m zipfile -e _wheel/*.whl python"
    files = {f"bind/{name}": text for name, text in files.items()} | {"CMakeLists.txt": ENABLE}
    repository, _ = seen(tmp_path / "b", files | some_tests("kern", 1, "bind/tests"))
    assert repository.project.compiled.commands == (
        f"{wheel}/bind", install, "python -m zipfile -e _wheel/*.whl bind/python"
    )  # fmt: skip


def test_what_a_setup_py_says_is_read_without_running_it(tmp_path):
    repository, _ = seen(tmp_path, SUITES["a setup.py that needs what is not here"][0])
    assert {"einops", "numpy>=1.20", "tqdm", "scipy"} <= {*requirements.lines(repository)}


def test_files_that_a_source_archive_left_out_are_named_as_such(tmp_path):
    imports = (
        "import conftest\nfrom tests.utils import near\nfrom _helpers import it\nimport test_utils, testbook, common\n"
    )
    files = {
        "pyproject.toml": project("kern"), "kern/__init__.py": BODY, "checks/common.py": "",
        "checks/test_it.py": f"import kern\n{imports}def test_it(): pass\n",
    }  # fmt: skip
    _, lines = seen(tmp_path, files)
    assert "that are not here, as in many source archives: _helpers.py, conftest.py, test_utils.py, tests.py\n" in lines
    assert "in no list of requirements: testbook\n" in lines


def test_own_files_build_tools_and_other_names_are_no_unknown_imports(tmp_path):
    imports = (
        "import conftest, common_bench, setuptools, pkg_resources, cv2, sklearn, attr, dateutil, git, warp, cupy\n"
        "from helpers import util\nfrom Cython.Build import cythonize\n"
        "import google.protobuf\nimport nobody_knows_this\n"
    )
    files = {
        "pyproject.toml": project("kern", "cupy-cuda12x", "protobuf", "warp-lang"), "kern/__init__.py": BODY,
        "tests/conftest.py": "", "tests/helpers/util.py": "", "benchmarks/common_bench.py": "",
        "tests/test_it.py": f"import kern\n{imports}def test_it(): pass\n",
    }  # fmt: skip
    repository, lines = seen(tmp_path, files)
    assert "in no list of requirements: nobody_knows_this\n" in lines
    needed = requirements.lines(repository)
    assert {"cupy-cuda12x", "opencv-python-headless", "setuptools<81"} <= {*needed}
    assert needed.count("warp-lang") == 1


@pytest.mark.parametrize(
    ("need", "code", "names"),
    [
        ("numba", "from numba import cuda\n@cuda.jit\ndef k(x): ...\n", ["cuda"]),
        ("numba", "import numba\nk = numba.cuda.jit(f)\n", ["cuda"]),
        ("numba", "from numba import njit\n", []),
        ("warp-lang", "import warp as wp\n", ["cuda"]),
        ("cupy-cuda12x", "import cupy as cp\n", ["cuda"]),
        ("taichi", "import taichi as ti\n", ["cuda"]),
        ("nvidia-cutlass-dsl", "import cutlass.cute as cute\n", ["cuda"]),
        ("jax", "import jax\n", ["cuda", "tpu"]),
        ("tilelang", "import tilelang\n", ["cuda", "rocm"]),
        ("numpy", "import numpy\n", []),
    ],
)
def test_kernels_get_the_platforms_that_they_have(tmp_path, need, code, names):
    repository, _ = seen(tmp_path, kernels("kern", need, code))
    assert [one.name for one in platforms.of(repository, reached(repository).there)] == names


def test_a_platform_gets_the_builds_that_have_code_for_it():
    assert platforms.with_extra(["# the needs", "jax>=0.5", "numpy"], "tpu") == "# the needs\njax[tpu]>=0.5\nnumpy\n"
    assert platforms.with_extra(["torch"], "cuda") is None


def test_a_python_that_the_harness_has_not_is_said_so(tmp_path):
    with pytest.raises(UserError, match="no Python is for both"):
        seen(tmp_path, {"pyproject.toml": project("kern", python=">=3.14"), "kern/__init__.py": BODY})


def test_a_checkout_that_git_does_not_read_is_said_so(tmp_path, monkeypatch):
    files = {"pyproject.toml": project("kern"), "kern/__init__.py": BODY} | some_tests("kern", 1, "tests")
    _, lines = seen(tmp_path, files)
    assert "this is no git checkout with a commit. So results carry no commit" in lines
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert "this git checkout has no commit yet" in seen(tmp_path, files)[1]
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert f"safe.directory {tmp_path}`" in seen(tmp_path, files)[1]


def named(tool: str, backend: str = "setuptools.build_meta", name: str = "kern") -> str:
    requires = backend.partition(".")[0].replace("_", "-")
    return f'[project]\nname = "{name}"\n[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{backend}"\n{tool}'


def scripted(words: str) -> str:
    return f"from setuptools import setup\nPLACE = {{'': 'lib'}}\nsetup(name='kern', {words})\n"


NAMED, HATCHLING = "[metadata]\nname = kern\n", "hatchling.build"
HATCH = "[tool.hatch.build.targets.wheel"
PY_BUILD_CMAKE = "[tool.py-build-cmake.module]\n"
UV = "[tool.uv.build-backend]\n"
MESON = "project('kern', 'c')\npy = import('python').find_installation()\n"
# The folder of the package's files, and what stands beside it.
FOUND = {
    "setup.cfg: all from a folder": ("lib/kern", {"setup.cfg": NAMED + "[options]\npackage_dir =\n    = lib\n"}),
    "setup.cfg: where": ("lib/kern", {"setup.cfg": NAMED + "[options.packages.find]\nwhere = lib\n"}),
    "setup.py: all from a folder": ("lib/kern", {"setup.py": scripted("package_dir={'': 'lib'}")}),
    "setup.py: by a name": ("lib/kern", {"setup.py": scripted("package_dir=PLACE")}),
    "flit": ("kern", {"pyproject.toml": named('[tool.flit.module]\nname = "kern"\n', "flit_core.buildapi", "a-kern")}),
    "flit, as it was": ("kern", {"pyproject.toml": '[tool.flit.metadata]\nmodule = "kern"\n'}),
    "hatch: sources": ("lib/kern", {"pyproject.toml": named(f'{HATCH}]\nsources = ["lib"]\n', HATCHLING)}),
    "hatch: only a folder": (
        "lib/kern",
        {"pyproject.toml": named('[tool.hatch.build]\nonly-include = ["lib/kern"]\nsources = ["lib"]\n', HATCHLING)},
    ),
    "poetry: from": (
        "lib/kern",
        {"pyproject.toml": '[tool.poetry]\nname = "kern"\npackages = [{ include = "kern", from = "lib" }]\n'},
    ),
    "poetry: a pattern": (
        "kern",
        {"pyproject.toml": '[tool.poetry]\nname = "a-kern"\npackages = [{ include = "kern/**/*.py" }]\n'},
    ),
    "pdm": ("lib/kern", {"pyproject.toml": named('[tool.pdm.build]\npackage-dir = "lib"\n', "pdm.backend")}),
    "uv": ("lib/kern", {"pyproject.toml": named(f'{UV}module-root = "lib"\n', "uv_build")}),
    "uv: by its name": (
        "kern",
        {"pyproject.toml": named(f'{UV}module-name = ["kern"]\nmodule-root = ""\n', "uv_build", "a-kern")},
    ),
    "maturin: by its name": (
        "lib/kern",
        {"pyproject.toml": named('[tool.maturin]\nmodule-name = "kern._c"\npython-source = "lib"\n', "maturin", "a")},
    ),
    "py-build-cmake": (
        "lib/kern",
        {"pyproject.toml": named(f'{PY_BUILD_CMAKE}name = "kern"\ndirectory = "lib"\n', "py_build_cmake.build", "a")},
    ),
    "meson: files": (
        "lib/kern",
        {"pyproject.toml": named("", "mesonpy", "a-kern"),
         "lib/kern/meson.build": "py.install_sources(['__init__.py', 'f.py'], subdir: 'kern')\n"},
    ),
    "meson: a folder": (
        "lib/kern",
        {"pyproject.toml": named("", "mesonpy", "a-kern"),
         "meson.build": MESON + "install_subdir('lib/kern', install_dir: py.get_install_dir())\n"},
    ),
}  # fmt: skip
RENAMED = {
    "pyproject.toml: the top": (".", {"pyproject.toml": named('[tool.setuptools]\npackage-dir = { kern = "." }\n')}),
    "pyproject.toml: a folder": ("code", {"pyproject.toml": named('[tool.setuptools.package-dir]\nkern = "code/"\n')}),
    "setup.cfg": ("code", {"setup.cfg": NAMED + "[options]\npackages = kern\npackage_dir = kern = code\n"}),
    "setup.py": ("code", {"setup.py": scripted("packages=['kern'], package_dir={'kern': './code'}")}),
    "hatch: sources": (
        "code",
        {"pyproject.toml": named(f'{HATCH}]\npackages = ["code"]\n{HATCH}.sources]\ncode = "kern"\n', HATCHLING)},
    ),
    "hatch: force-include": (
        "code", {"pyproject.toml": named(f'{HATCH}.force-include]\n"code" = "kern"\n"A" = "kern/A"\n', HATCHLING)}
    ),
    "scikit-build-core": (
        "code", {"pyproject.toml": named('[tool.scikit-build]\nwheel.packages = { kern = "code" }\n', "skbuild")}
    ),
    "poetry": (
        "code", {"pyproject.toml": '[tool.poetry]\nname = "kern"\npackages = [{ include = "code", to = "kern" }]\n'}
    ),
    "meson": (
        "code",
        {"pyproject.toml": named("", "mesonpy"),
         "code/meson.build": "py.install_sources(\n  files('__init__.py', 'f.py'),\n  pure: false, subdir: 'kern')\n"},
    ),
}  # fmt: skip
BESIDE = {"big/__init__.py": BODY, "big/a.py": BODY, "big/b.py": BODY}  # a folder with more files than the package has


@pytest.mark.parametrize("name", FOUND)
def test_a_package_is_found_where_its_build_system_takes_it_from(tmp_path, name):
    folder, files = FOUND[name]
    repository, lines = seen(
        tmp_path, files | {f"{folder}/__init__.py": BODY} | some_tests("kern", 1, "tests") | BESIDE
    )
    assert (repository.module, repository.folder) == ("kern", folder), lines
    assert f"{repository.source}/kern".removeprefix("./") == folder


@pytest.mark.parametrize("name", RENAMED)
def test_a_package_whose_folder_has_another_name_is_tested_as_its_wheel_has_it(tmp_path, name):
    folder, files = RENAMED[name]
    repository, lines = seen(
        tmp_path, files | {f"{folder}/__init__.py": KERNEL} | some_tests("kern", 1, "tests") | BESIDE
    )
    assert (repository.module, repository.source, repository.folder) == ("kern", "_package", folder), lines
    assert repository.kernels == ("kernel",)
    assert repository.suite == "tests"
    assert repository.project.compiled.commands[-1] == "python -m zipfile -e _wheel/*.whl _package"
    assert "pip" in requirements.lines(repository)
    where = "this folder" if folder == "." else "code/"
    assert f"package kern made of the files in {where}, tested with Python" in lines


@pytest.mark.parametrize(
    "tool",
    [
        '[tool.setuptools.package-dir]\n"kern.more" = "code"\n',
        f'{HATCH}.force-include]\ncode = "kern/more"\n',
        '[tool.scikit-build]\nwheel.packages = { "kern/more" = "code" }\n',
    ],
)
def test_a_part_of_a_package_that_lies_elsewhere_does_not_stand_for_the_package(tmp_path, tool):
    files = {"pyproject.toml": named(tool), "src/kern/__init__.py": BODY, "code/__init__.py": BODY}
    repository, _ = seen(tmp_path, files | some_tests("kern", 1, "tests"))
    assert (repository.module, repository.source, repository.folder) == ("kern", "src", "src/kern")


HELPERS = {
    "a base without a test": "import unittest as u\nclass TestCase(u.TestCase):\n    def near(self): pass\n",
    "pytest for its marks": "import pytest\nneeds_gpu = pytest.mark.skipif(True, reason='no GPU')\n",
    "functions with test in their names": "def get_test_data(): pass\ndef make_tests(): pass\n",
    "a class with test in its name": "class LatestResult:\n    def run_test(self): pass\n",
    "a class of pytest's name without a test": "class TestConfig:\n    size = 3\n    def run(self): pass\n",
    "values with test in their names": "test_shapes = [(1, 2)]\ntest_seed: int = 3\n",
    "an example in a docstring": 'def near(a):\n    """Say so.\n\n    >>> near(1)\n    """\n',
    "a test in a function": "def make():\n    def test_it(): pass\n    return test_it\n",
    "a base that is imported": "from torch.testing import TestCase\nfrom absl.testing import absltest\n"
    "class Base(absltest.TestCase): pass\nclass Other(TestCase): pass\n",
    "options of a program": "def main(options):\n    setattr(options, 'a', 1)\n    print(vars(options))\n",
    "a test in a text": "CODE = '''\ndef test_it(): pass\n'''\n",
}
WITH_TESTS = {
    "a method of unittest": "import unittest\nclass Kernels(unittest.TestCase):\n    def test_it(self): pass\n",
    "a class in a class": "class TestA:\n    class TestB:\n        def test_it(self): pass\n",
    "below a condition": "try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    def test_it(): pass\n",
    "below a with": "with open('x'):\n    async def test_it(): pass\n",
    "by names": "for n in range(3):\n    globals()[f'test_{n}'] = lambda: None\n",
    "by setattr": "class TestA: pass\nfor n in range(3):\n    setattr(TestA, f'test_{n}', lambda self: None)\n",
    "a test from elsewhere": "from common import test_all\n",
    "tests of a base from elsewhere": "from common import OpTests\nclass TestAdd(OpTests):\n    op = 'add'\n",
    "a made test": "from common import made\ntest_it = made(1)\n",
    "a method that is assigned": "class TestA:\n    test_it = made(1)\n",
    "no Python": "print 'x'\ndef test_it(): pass\n",
}


@pytest.mark.parametrize("name", [*HELPERS, *WITH_TESTS])
def test_a_file_has_tests_if_pytest_finds_one_in_it(tmp_path, name):
    text = f"import kern\n{(HELPERS | WITH_TESTS)[name]}"
    files = {"pyproject.toml": project("kern"), "kern/__init__.py": KERNEL, "kern/test_utils.py": text}
    repository, lines = seen(tmp_path, files)
    assert (repository.suite == "kern") == (name in WITH_TESTS), lines
    assert ("programs, as pytest finds no test in them: kern/test_utils.py" in lines) == (name in HELPERS)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ('python_functions = "check_*"', "def check_it(): pass\n"),
        ('python_classes = ["Check"]', "class CheckIt:\n    def test_it(self): pass\n"),
        ('addopts = "--doctest-modules"', 'def near(a):\n    """Say so.\n\n    >>> near(1)\n    """\n'),
    ],
)
def test_a_rule_of_the_repository_makes_other_names_tests(tmp_path, rule, text):
    rules = {"pyproject.toml": project("kern") + f"[tool.pytest.ini_options]\n{rule}\n", "kern/__init__.py": KERNEL}
    assert seen(tmp_path, rules | {"tests/test_it.py": f"import kern\n{text}"})[0].suite == "tests"
    text = "import kern\nAT = [1]\n" if "doctest" not in rule else "import kern\ndef check_it(): pass\n"
    assert seen(tmp_path, {"tests/test_it.py": text})[0].suite is None, "a rule says what more is a test, and not all"


UNNAMED = {
    "of several files the end": (["tests/api_tests.py", "tests/odeint_tests.py"], "python_files = *_tests.py"),
    "the begin": (["tests/check_own.py"], "python_files = check_*.py"),
    "one file": (["tests/tests.py"], "python_files = tests.py"),
    "beside the package": (["test.py"], "python_files = test.py"),
    "nothing in common": (["tests/TestAdd.py", "tests/adding.py"], "python_files = TestAdd.py adding.py"),
}


@pytest.mark.parametrize("name", UNNAMED)
@pytest.mark.parametrize(
    "body", ["def test_it(): pass\n", "class Case(unittest.TestCase):\n    def test_it(self): pass\n"]
)
def test_tests_in_files_that_pytest_does_not_take_are_named_with_what_makes_it_take_them(tmp_path, name, body):
    files, setting = UNNAMED[name]
    package = {"pyproject.toml": project("own"), "own/__init__.py": BODY}
    said = []
    with pytest.raises(UserError) as raised:
        seen(tmp_path, package | dict.fromkeys(files, body))
    said.append(str(raised.value))
    for folder in {file.rpartition("/")[0] for file in files} - {""}:
        with pytest.raises(UserError) as raised:
            look(tmp_path, folder)
        said.append(str(raised.value))
    for sentence in said:
        assert f"There are tests in {', '.join(files)}, and pytest takes no file of such a name" in sentence
        assert sentence.endswith(setting)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{setting}\n")
    assert look(tmp_path).test_files


@pytest.mark.parametrize("text", ["", "from own import *\n", "def testing(x): return x\n", "def not python"])
def test_a_file_without_tests_is_not_named_as_one(tmp_path, text):
    with pytest.raises(UserError) as raised:
        seen(tmp_path, {"pyproject.toml": project("own"), "own/__init__.py": BODY, "tests/helpers.py": text})
    assert str(raised.value).endswith("name the folder of the tests: --suite FOLDER.")


def test_a_package_of_kernels_says_so_too(tmp_path):
    files = {
        "pyproject.toml": project("kern"),
        "kern/__init__.py": KERNEL,
        "tests/kern_tests.py": "def test_it(): pass",
    }
    assert "until its settings say python_files = *_tests.py\n" in seen(tmp_path, files)[1]
