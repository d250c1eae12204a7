"""A session ends with the harness's own status: 0 nothing is red, 1 something is, 2 the input cannot be used."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

import pytest
from common import ROOT, Doubles, sh

from kernel_matrix.base.errors import UserError

RUN = ("--", "--executor", "current", "--toolchain")


@pytest.fixture
def project(here: Doubles) -> Doubles:
    """Make the doubles a repository of their own, with this noxfile and this harness."""
    shutil.copy(ROOT / "noxfile.py", here.root)
    (here.root / "src" / "kernel_matrix").symlink_to(ROOT / "src" / "kernel_matrix")
    return here


def nox(project: Doubles, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nox", *arguments]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_green_is_0_and_red_is_1(project):
    green = nox(project, "-s", "test-here", *RUN, "good")
    assert green.returncode == 0, green.stdout + green.stderr
    red = nox(project, "-s", "test-here", *RUN, "wrong")
    assert red.returncode == 1, red.stdout + red.stderr
    assert "3 cases: 1 fail, 2 pass" in red.stdout


@pytest.mark.slow
def test_input_that_the_harness_refuses_is_2_also_among_other_sessions(project):
    refused = nox(project, "-s", "test-here", *RUN, "goood")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "Did you mean 'good'?" in refused.stdout + refused.stderr
    # `report` does not know the option and ends with 2; the other session is green, and comes later.
    both = nox(project, "-s", "report", "test-here", *RUN, "good")
    assert both.returncode == 2, both.stdout + both.stderr
    assert "3 cases: 3 pass" in both.stdout


@pytest.mark.slow
def test_a_misspelt_key_of_the_matrix_is_2(project):
    project.edit("    runner:", "    runnner:")
    done = nox(project, "-s", "test-here", *RUN, "good")
    assert done.returncode == 2
    assert "Did you mean 'runner'?" in done.stderr


@pytest.mark.slow
def test_a_platform_that_is_not_in_the_matrix_is_refused(project):
    done = nox(project, "-s", "test-heer")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "matrix.yaml has no platform 'heer'. Did you mean 'test-here'?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (("-s", "test-heer"), True),
        (("-s", "report", "--", "--history", "test-heer"), False),  # an option of the harness, not a session
        (("--session", "report", "test-heer"), True),
        (("--session=test-heer",), True),
        (("-s", "report", "test-heer", "--", "--junit"), True),
        (("--error-on-missing-interpreters", "-s", "report", "--", "--history", "test-heer", "--junit"), False),
    ],
)
def test_it_is_refused_wherever_a_session_is_named(sessions, arguments, refused):
    with pytest.raises(UserError, match="has no platform 'heer'") if refused else nullcontext():
        sessions.refuse_unknown(arguments, ("report", "test-here"))


@pytest.mark.slow
def test_without_a_package_index_the_environment_says_what_helps(tmp_path):
    shutil.copytree(ROOT / "ci", tmp_path / "ci")
    done = sh(str(tmp_path / "ci" / "kernel-matrix"), "check", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert done.returncode == 2
    assert done.stderr.endswith("ci/nox -s bundle, on another machine, makes it (docs/containers.md).\n")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--toolchain", "good"], ["--toolchain=good"]])
def test_an_option_of_a_session_before_the_dashes_is_answered_with_where_it_stands(words):
    done = sh("ci/nox", "-s", "matrix", *words)
    assert done.returncode == 2
    assert done.stderr == (
        f"ci/nox: nox has no option --toolchain. What is for a session stands after --: ci/nox -s NAME -- {words[0]}\n"
    )


@pytest.mark.slow
def test_a_session_that_is_a_command_alone_is_answered_with_the_command(project):
    done = nox(project, "-s", "doctor", "--", "--rows")
    assert done.returncode == 2
    assert done.stderr.strip() == "nox -s doctor is no session: type ci/kernel-matrix doctor"


@pytest.mark.slow
def test_the_tests_are_all_that_there_are(project, monkeypatch):
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)  # as a user has it
    for folder in ("judge", "toolchains", "ci", "package", "mhc"):  # the last two are for other environments
        tests = project.root / "tests" / folder / f"test_{folder}.py"
        tests.parent.mkdir(parents=True)
        tests.write_text("def test_of_src():\n    pass\n")
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    (project.root / "pytest.ini").write_text(f"[pytest]\nnorecursedirs = {' '.join(own['norecursedirs'])}\n")
    done = nox(project, "-s", "tests", "--", "--quick", "-k", "src")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("named", ["tests/ci", "tests/ci/test_act.py::test_of_src"])
def test_where_a_file_or_a_folder_is_named_it_is_run_alone(sessions, named):
    options = sessions.pytest_options(["--quick", named])
    assert [word for word in options if word.startswith("tests/")] == [named]


@pytest.fixture(scope="module")
def sessions() -> Iterator[ModuleType]:
    """Return the noxfile as a module; nox refuses to load it twice."""
    specification = importlib.util.spec_from_file_location("sessions", ROOT / "noxfile.py")
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        specification.loader.exec_module(module)
        yield module


def test_the_tests_of_the_night_run_only_where_they_are_asked_for(sessions):
    def chosen(*words: str) -> str | None:
        options = sessions.pytest_options([*words])
        return options[options.index("-m") + 1] if "-m" in options else None

    assert chosen() == chosen("-k", "src") == "not nightly"
    assert chosen("--nightly") == "nightly"
    assert chosen("--quick").endswith("not nightly")
    assert chosen("tests/toolchains/test_webgpu.py") is None, "who names a file means all of it"
