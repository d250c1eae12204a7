"""A package that is compiled is built in a copy of the repository, before its suite runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from common import records_in
from suites import MATRIX, Suite

from kernel_matrix import pipeline
from kernel_matrix.config.file_readers import readers_of
from kernel_matrix.config.load import load
from kernel_matrix.config.reads import Checkout
from kernel_matrix.config.selection import Selection
from kernel_matrix.run.environments.built import Build
from kernel_matrix.run.executors import Request
from kernel_matrix.vendors.registry import vendor_named

C = """
#include <Python.h>
static PyObject *add(PyObject *self, PyObject *arguments) {
    long x, y;
    if (!PyArg_ParseTuple(arguments, "ll", &x, &y)) return NULL;
    return PyLong_FromLong(x + y);
}
static PyMethodDef functions[] = {{"add", add, METH_VARARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fastadd", 0, -1, functions};
PyMODINIT_FUNC PyInit_fastadd(void) { return PyModule_Create(&module); }
"""
SETUP = """
from setuptools import Extension, setup
setup(name="fastadd", version="1.0", ext_modules=[Extension("fastadd", ["fastadd.c"])])
"""
INSTALL = "pip install --no-build-isolation --no-deps -e ."
LOCK = (
    "iniconfig==2.3.0\npackaging==25.0\npip==25.3\npluggy==1.6.0\npygments==2.19.2\npytest==9.0.2\nsetuptools==80.9.0\n"
)


class Package(Suite):
    """A git repository with a module in C, which its one test calls."""

    @classmethod
    def compiled(
        cls, root: Path, files: Mapping[str, str] | None = None, *, suite: str = "tests", build: str = INSTALL
    ) -> Package:
        """Write the package; ``suite`` and ``build`` are for its matrix.yaml."""
        matrix = MATRIX.replace("name: thing, suite: tests", f"name: fastadd, suite: {suite}, build: [{build}]")
        matrix = matrix.replace("plain", "c").replace("lock.txt", "locks/c.txt")
        test = "import fastadd\n\n\ndef test_add():\n    assert fastadd.add(2, 3) == 5\n"
        own = {
            "locks/c.txt": LOCK,
            "fastadd.c": C,
            "setup.py": SETUP,
            "tests/test_add.py": test,
            ".gitignore": "/build\n",
        }
        package = cls.made(root, {**own, **(files or {})}, matrix)
        package.executor = "venv"
        for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "all")):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", root, *command], check=True)
        return package

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    def ends(self) -> dict[str, tuple[str, str, str]]:
        """Run the suite, and return the outcome, the stage and the message of each case."""
        self.run()
        records = records_in(self.root / "build" / "results")
        return {one.case.rpartition("/")[2]: (one.outcome, one.stage or "", one.message) for one in records}

    def request(self) -> Request:
        project = pipeline.load(self.root / "matrix.yaml")
        [job] = pipeline.select(project, Selection()).jobs
        return Request(self.root, self.root / "build", project.matrix, job, None, lambda _: None)


@pytest.mark.environments
def test_the_suite_tests_what_was_built_of_the_present_source(tmp_path):
    package = Package.compiled(tmp_path)
    assert package.ends()["test_add"][0] == "pass"
    [built] = tmp_path.glob("build/built/here.c.venv.cpu/*/tree/*.so")
    package.ends()
    assert list(tmp_path.glob("build/built/*/*/tree/*.so")) == [built]  # once for what it was made of
    changed = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert changed.stdout == ""
    assert not list(tmp_path.glob("*.so"))

    built.with_name("left.py").write_text("")  # a kernel could leave a file for the next job
    outcome, stage, message = package.ends()["test_add"]
    assert (outcome, stage, "was changed since it was built" in message) == ("error", "install", True)

    package.edit("fastadd.c", "x + y", "x - y")
    outcome, _, message = package.ends()["test_add"]
    assert (outcome, "-1 == 5" in message) == ("fail", True)

    package.edit("fastadd.c", "x - y)", "x - y")
    outcome, stage, message = package.ends()["test_add"]
    assert (outcome, stage) == ("error", "install")
    assert "the build has failed: it ended with status 1" in message
    assert "fastadd.c" in message
    assert "error:" in message


def test_a_build_is_named_by_all_that_goes_into_it(tmp_path):
    package = Package.compiled(tmp_path)
    names = {Build.of(package.request(), "venv").place.name}
    for name, old, new in (
        ("fastadd.c", "x + y", "y + x"),
        ("locks/c.txt", "pip==25.3", "pip==25.2"),
        ("matrix.yaml", "-e .", "."),
        ("matrix.yaml", "toolchains: [c]", "toolchains: [{ toolchain: c, environment: { CFLAGS: -O3 } }]"),
    ):
        package.edit(name, old, new)
        names.add(Build.of(package.request(), "venv").place.name)
    names.add(Build.of(package.request(), "container", "sha256:1").place.name)
    assert Build.of(package.request(), "venv").variables("")["SETUPTOOLS_SCM_PRETEND_VERSION"] == "0+unknown"
    assert Build.of(package.request(), "venv").variables("")["PIP_BUILD_CONSTRAINT"] == "", "pip refuses it here"
    package.edit("matrix.yaml", "--no-build-isolation ", "")
    assert "PIP_BUILD_CONSTRAINT" not in Build.of(package.request(), "venv").variables("")
    git = ["git", "-C", str(package.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message=one"], check=True)
    subprocess.run([*git, "tag", "v1.2.0"], check=True)
    tagged = Build.of(package.request(), "venv")
    names.add(tagged.place.name)
    assert {value for name, value in tagged.variables("").items() if "VERSION" in name} == {"1.2.0"}
    assert len(names) == 7


def test_the_results_of_a_built_package_hang_on_every_file_of_the_repository(tmp_path):
    package = Package.compiled(tmp_path)
    package.edit("matrix.yaml", "name: fastadd", "name: fastadd, source: tests")
    matrix = load(tmp_path / "matrix.yaml")
    assert "fastadd.c" in Checkout(matrix, tmp_path).files_of("here", "c", "venv")
    assert readers_of(matrix, "src/kernel_matrix/run/environments/built.py") is not None
    package.edit("matrix.yaml", f", build: [{INSTALL}]", "")
    matrix = load(tmp_path / "matrix.yaml")
    assert "fastadd.c" not in Checkout(matrix, tmp_path).files_of("here", "c", "venv")
    assert readers_of(matrix, "src/kernel_matrix/run/environments/built.py") is None


def test_a_copy_has_the_files_of_submodules_and_none_that_git_ignores(tmp_path):
    package = Package.compiled(tmp_path / "own")
    other = Package.compiled(tmp_path / "other")
    command = ["git", "-c", "protocol.file.allow=always", "-C", package.root, "submodule", "--quiet", "add"]
    subprocess.run([*command, other.root, "third_party/other"], check=True)
    for name in ("build/left.txt", "new.h"):
        (package.root / name).write_text("")
    names = Build.of(package.request(), "venv").names
    assert {"third_party/other/fastadd.c", "new.h", "fastadd.c"} <= set(names)
    assert "build/left.txt" not in names
    assert not [name for name in names if name.startswith(".git/")]


def test_build_systems_are_told_the_targets():
    nvidia = vendor_named("nvidia").build_variables(["sm_80", "sm_90a", "sm_100"])
    assert nvidia["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0a;10.0"
    assert nvidia["CUDAARCHS"] == "80;90a;100"
    assert vendor_named("amd").build_variables(["gfx90a", "gfx942"])["PYTORCH_ROCM_ARCH"] == "gfx90a;gfx942"
    assert vendor_named("cpu").build_variables(["x86-64-v3"]) == {}


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("a.cu(3): error: x is undefined\nninja: build stopped: subcommand failed.\n× failed\n╰─> x\nhint: above\n",
         "a.cu(3): error: x is undefined"),
        ("ModuleNotFoundError: No module named 'setuptools'\nnote: This error originates\n",
         "ModuleNotFoundError: No module named 'setuptools'"),
        ("sh: 1: pip: not found\n", "sh: 1: pip: not found"),
        (("  CMake Error at a/b.cmake:39 (message):\n    Failed to clone: 'x'\n\n  FAILED: b\n"
         "  CMake Error at /m/FetchContent.cmake:9 (message):\n    Build step failed: 1\n\n"
         "  -- Configuring incomplete, errors occurred!\n  *** CMake configuration failed\n"),
         "CMake Error at a/b.cmake:39 (message): Failed to clone: 'x'"),
        ('a.cu(3): error: no x\n1 error detected in the compilation of "a.cu".\n', "a.cu(3): error: no x"),
        ("ld: error: no -lx\nerror: Command '['g++']' returned non-zero exit status 1\n", "ld: error: no -lx"),
        ("one\ntwo\n", "two"),
        ("", "make"),
    ],
)  # fmt: skip
def test_the_reason_of_a_failed_build_is_its_last_error_and_no_line_around_it(tmp_path, printed, reason):
    build = Build(Package.compiled(tmp_path).request(), tmp_path / "build" / "x", ())
    build.log.parent.mkdir(parents=True)
    build.log.write_text(printed)
    assert build._failure("make", "it ended with status 1").endswith(f"it ended with status 1: {reason}")


IGNORED = [
    "cc1: fatal error: src/made.c: No such file or directory",
    "CMake Error at CMakeLists.txt:3 (add_library): Cannot find source file: ./src/made.c",
    "FileNotFoundError: [Errno 2] No such file or directory: 'src/made.c'",
    "src/made.c: file not found\nerror: command '/usr/bin/gcc' failed with exit code 1",
    "meson.build:4:0: ERROR: File src/made.c does not exist.",
]


@pytest.mark.parametrize("printed", IGNORED)
def test_a_source_that_git_ignores_is_named_where_a_build_misses_it(tmp_path, printed):
    package = Package.compiled(tmp_path, {"src/made.c": "", ".gitignore": "/build\n*.c\n!fastadd.c\n"})
    build = Build.of(package.request(), "venv")
    build.log.parent.mkdir(parents=True)
    build.log.write_text(f"{printed}\n")
    assert build._failure("make", "it ended").endswith("so the build has it not: git add -f src/made.c)")
    build.log.write_text(printed.replace("made.c", "absent.c"))
    assert "git add" not in build._failure("make", "it ended")
    build.log.write_text("src/made.c:3: error: x is undefined\n")
    assert "git add" not in build._failure("make", "it ended")


CTEST = """
add_test(holds "/bin/sh" "-c" "exit 0")
add_test(fails "/bin/sh" "-c" "echo 3 is not 4; exit 1")
add_test(crashes "/bin/sh" "-c" "kill -s ABRT $$")
add_test(slow "/bin/sleep" "60")
set_tests_properties(slow PROPERTIES TIMEOUT 1)
add_test(skipped "/bin/sh" "-c" "exit 77")
set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)
add_test(off "/bin/true")
set_tests_properties(off PROPERTIES DISABLED TRUE)
add_test(gone "/nowhere/gone")
add_test(needs-file "/bin/true")
set_tests_properties(needs-file PROPERTIES REQUIRED_FILES /nowhere/file)
add_test(must-fail "/bin/false")
set_tests_properties(must-fail PROPERTIES WILL_FAIL TRUE)
add_test(makes "/bin/true")
set_tests_properties(makes PROPERTIES FIXTURES_SETUP it)
add_test(uses "/bin/true")
set_tests_properties(uses PROPERTIES FIXTURES_REQUIRED it)
add_test([==[odd name [a/b]]==] "/bin/true")
add_test(googletest "/bin/sh" "-c" "printf 'a.cc:3: Failure\\nExpected: 1\\nto be: 2\\n[  FAILED  ] A.B\\n'; exit 1")
add_test(runs-none "/bin/echo" "[==========] Running 0 tests from 0 test suites.")
add_test(no-gpu "/bin/sh" "-c" "printf 'a.cc:4: Skipped\\nno GPU\\n[  SKIPPED ] A.C\\n'")
set_tests_properties(no-gpu PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
"""
OF_CTEST = {"build": "mkdir out && mv list.cmake out/CTestTestfile.cmake", "suite": "out"}
ENDS = {
    "holds": ("pass", ""),
    "fails": ("fail", "AssertionError: 3 is not 4"),
    "crashes": ("error", "RuntimeError: Exception: Subprocess aborted: it printed nothing"),
    "slow": ("error", "RuntimeError: Timeout: it printed nothing"),
    "skipped": ("unavailable", "the suite skips this test: SKIP_RETURN_CODE=77"),
    "off": ("unavailable", "the suite skips this test: Disabled"),
    "gone": ("error", "RuntimeError: Unable to find executable: /nowhere/gone"),
    "needs-file": ("error", "RuntimeError: Unable to find required file: /nowhere/file"),
    "must-fail": ("pass", ""),
    "makes": ("pass", ""),
    "uses": ("pass", ""),
    "googletest": ("fail", "AssertionError: a.cc:3: Failure Expected: 1 to be: 2"),
    "runs-none": ("error", "RuntimeError: GoogleTest ran no test"),
    "no-gpu": ("unavailable", "the suite skips this test: no GPU"),
}


@pytest.mark.environments
def test_the_tests_of_ctest_are_cases(tmp_path):
    package = Package.compiled(tmp_path, {"list.cmake": CTEST, "locks/c.txt": LOCK + "cmake==4.1.2\n"}, **OF_CTEST)
    ends = package.ends()
    assert {name: (outcome, message) for name, (outcome, _, message) in ends.items() if name in ENDS} == ENDS
    [odd] = [name for name in ends if name.startswith("odd_name_[a_b]")]
    assert ends[odd][0] == "pass"
    [tree] = tmp_path.glob("build/built/*/*/tree/out")
    assert [path.name for path in tree.iterdir()] == ["CTestTestfile.cmake"]  # CTest writes into no folder of sources


@pytest.mark.environments
def test_a_suite_without_its_ctest_says_what_to_install(tmp_path, monkeypatch):
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("git", "mkdir", "mv", "sh"):
        (bare / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(bare))
    package = Package.compiled(tmp_path, {"list.cmake": CTEST}, **OF_CTEST)
    outcome, _, message = package.ends()["collected"]
    assert outcome == "error"
    assert "write 'cmake' into the lock of the toolchain" in message


@pytest.mark.engine
def test_a_container_s_image_has_what_was_built(contained):
    contained.edit("name: doubles,", "name: doubles, build: [python -c 'import numpy', touch made.txt /opt/made.txt],")
    comparison = contained.run("good", executor="container")
    assert {case.state for cell in comparison.cells for case in cell.cases} >= {"pass"}
    [made] = contained.root.glob("build/built/*/*/tree/made.txt")
    assert made.stat().st_uid == os.getuid()
    assert not (contained.root / "made.txt").exists()

    contained.edit("/opt/made.txt", "/opt/nowhere/made.txt")
    comparison = contained.run("good", executor="container")
    messages = {record.message for record in records_in(contained.root / "build" / "results")}
    assert len(messages) == 1
    assert "cannot touch '/opt/nowhere/made.txt'" in messages.pop()
