"""Try what a rule says of another tool: a small case has the error, and has it no more after the remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from together import first_are_quick

from kernel_matrix.diagnosis.rule import harness_rules

INI = "pytest.ini"
PASSES = "def test_a(): pass\n"
RULES = {rule.name: rule for rule in harness_rules()}


@dataclass(frozen=True)
class Tried:
    """A suite with an error, the words of the remedy that is tried, and what they ask for."""

    rule: str
    files: Mapping[str, str]
    words: str  # of the remedy
    written: Mapping[str, str] = field(default_factory=dict)  # files; an empty text takes one away
    options: tuple[str, ...] = ()  # of pytest, with the remedy
    before: tuple[str, ...] = ()  # options of pytest, without it
    mends: bool = True


def dots(test: str, line: str, *others: str) -> dict[str, str]:
    """Return a suite whose test imports by dots from another file."""
    return {INI: "[pytest]\n", test: f"{line}\ndef test_a(): assert X\n", **dict.fromkeys(others, "X = 1\n")}


RELATIVE = "relative-import-without-package"
INIT, IMPORTLIB, BY_NAME = "add __init__.py", "--import-mode=importlib", "pythonpath = ."
BESIDE = dots("tests/test_a.py", "from .helpers import X", "tests/helpers.py")
ABOVE = dots("tests/unit/test_a.py", "from ..util import X", "tests/util.py")
OF_CONFTEST = dots("tests/test_a.py", "from .conftest import X", "tests/conftest.py")
BELOW = dots("tests/test_a.py", "from .data.ref import X", "tests/data/ref.py")
IN_SOURCE = dots("src/e/tests/test_a.py", "from .u import X", "src/e/tests/u.py")
OF_ROOT = dots("tests/test_a.py", "from ..helpers import X", "helpers.py")
TWO = {INI: "[pytest]\n", "a/test_a.py": PASSES, "b/test_a.py": PASSES}
ENDS = {INI: "[pytest]\n", "test_a.py": PASSES, "test_b.py": "import sys\nsys.exit('needs CUDA_HOME')\n"}
SKIPS = "import pytest\npytest.skip('needs CUDA_HOME', allow_module_level=True)\n"
MARKED = {INI: "[pytest]\naddopts = --strict-markers\n", "test_a.py": f"import pytest\n@pytest.mark.odd\n{PASSES}"}
WARNS = {"test_a.py": "import warnings\ndef test_a(): warnings.warn('old', DeprecationWarning)\n"}
FIXTURE = {
    "conftest.py": "import pytest\n@pytest.fixture\ndef thing(): return 1\n",
    f"tests/{INI}": "[pytest]\n",
    "tests/test_a.py": "def test_a(thing): assert thing\n",
}
HELPER = {INI: "[pytest]\n", "lib/helpers.py": "X = 1\n", "test_a.py": f"from helpers import X\n{PASSES}"}
PLUGIN = {
    INI: "[pytest]\npythonpath = .\n",
    "old.py": "def pytest_configure(config): raise ValueError('old')\n",
    "old-1.dist-info/entry_points.txt": "[pytest11]\noldplug = old\n",
    "old-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: old\nVersion: 1\n",
    "test_a.py": PASSES,
}
UNKNOWN = {INI: "[pytest]\naddopts = --nope\n", "test_a.py": PASSES}

TRIED = [
    Tried(RELATIVE, BESIDE, INIT, {"tests/__init__.py": ""}),
    Tried(RELATIVE, BESIDE, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried(RELATIVE, ABOVE, "each folder that the dots reach", {"tests/__init__.py": "", "tests/unit/__init__.py": ""}),
    Tried(RELATIVE, ABOVE, "each folder that the dots reach", {"tests/unit/__init__.py": ""}, mends=False),
    Tried(RELATIVE, ABOVE, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried(RELATIVE, OF_CONFTEST, INIT, {"tests/__init__.py": ""}),
    Tried(RELATIVE, OF_CONFTEST, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried(RELATIVE, BELOW, INIT, {"tests/__init__.py": ""}),
    Tried(RELATIVE, BELOW, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried(RELATIVE, IN_SOURCE, INIT, {"src/e/tests/__init__.py": ""}),
    Tried(RELATIVE, IN_SOURCE, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried(RELATIVE, OF_ROOT, "neither reaches a file in rootdir itself", {"tests/__init__.py": ""}, mends=False),
    Tried(RELATIVE, OF_ROOT, "neither reaches a file", options=("--import-mode=importlib",), mends=False),
    Tried(
        RELATIVE,
        OF_ROOT,
        BY_NAME,
        {INI: "[pytest]\npythonpath = .\n", "tests/test_a.py": f"from helpers import X\n{PASSES}"},
    ),
    Tried("test-files-of-one-name", TWO, "give the files different names", {"b/test_a.py": "", "b/test_b.py": PASSES}),
    Tried("test-files-of-one-name", TWO, INIT, {"a/__init__.py": "", "b/__init__.py": ""}),
    Tried("test-files-of-one-name", TWO, IMPORTLIB, options=("--import-mode=importlib",)),
    Tried("test-file-ends-python", ENDS, "allow_module_level=True", {"test_b.py": SKIPS}),
    Tried("mark-unknown", MARKED, "list it under markers", {INI: f"{MARKED[INI]}markers = odd: it is\n"}),
    Tried(
        "warning-as-error",
        {INI: "[pytest]\nfilterwarnings = error\n", **WARNS},
        "in a line below error",
        {INI: "[pytest]\nfilterwarnings =\n  error\n  ignore:old\n"},
    ),
    Tried(
        "warning-as-error",
        {INI: "[pytest]\nfilterwarnings = error\n", **WARNS},
        "the last line that fits counts",
        {INI: "[pytest]\nfilterwarnings =\n  ignore:old\n  error\n"},
        mends=False,
    ),
    Tried(
        "warning-as-error",
        {INI: "[pytest]\n", **WARNS},
        "-W of the command line before all",
        {INI: "[pytest]\nfilterwarnings = ignore:old\n"},
        ("-W", "error"),
        ("-W", "error"),
        mends=False,
    ),
    Tried("fixture-unknown", FIXTURE, "--confcutdir=FOLDER", {}, ("--confcutdir", ".", "tests"), ("tests",)),
    Tried("file-of-the-suite-lacking", HELPER, "`pythonpath`", {INI: "[pytest]\npythonpath = lib\n"}),
    Tried("pytest-plugin-unfit", PLUGIN, "-p no:NAME", {INI: f"{PLUGIN[INI]}addopts = -p no:oldplug\n"}),
    Tried("pytest-options-unknown", UNKNOWN, "addopts in", {INI: "[pytest]\n"}),
]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files; one that is there and gets an empty text is taken away."""
    for name, text in files.items():
        path = folder / name
        if not text and path.exists():
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def of_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """Run a suite by pytest alone, and return its exit status with all that it printed."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    variables |= {"PYTHONPATH": str(folder)} if (folder / "old.py").exists() else {}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    for cached in folder.rglob("__pycache__"):
        shutil.rmtree(cached)
    return done.returncode, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("tried", first_are_quick(4, TRIED), ids=lambda tried: f"{tried.rule}: {tried.words}")
def test_a_remedy_of_pytest_s_own_errors_does_what_it_says(tmp_path, tried):
    assert tried.words in RULES[tried.rule].remedy
    write(tmp_path, tried.files)
    status, text = of_pytest(tmp_path, *tried.before)
    assert status != 0, text
    assert re.search(RULES[tried.rule].match, text, re.MULTILINE), text
    write(tmp_path, tried.written)
    status, text = of_pytest(tmp_path, *tried.options)
    assert (status == 0) == tried.mends, text


def test_the_file_that_ends_python_is_found_by_each_alone(tmp_path):
    text = RULES["suite-ends-python"].remedy
    assert "python -m pytest --collect-only FILE" in text
    write(tmp_path, {INI: "[pytest]\n", "test_a.py": PASSES, "test_b.py": "import os\nos._exit(3)\n"})
    found = {name: of_pytest(tmp_path, "--collect-only", *name.split())[0] for name in ("", "test_a.py", "test_b.py")}
    assert found == {"": 3, "test_a.py": 0, "test_b.py": 3}


@pytest.mark.slow
def test_a_worker_that_died_is_seen_in_one_process_also_where_the_settings_ask_for_several(tmp_path):
    assert "-m pytest -n 0 TEST" in RULES["worker-of-xdist-ended"].remedy
    dies = "import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    write(tmp_path, {INI: "[pytest]\naddopts = -n 2\n", "test_a.py": dies})
    assert re.search(RULES["worker-of-xdist-ended"].match, of_pytest(tmp_path)[1])
    assert 'test_a.py", line 2 in test_a' in of_pytest(tmp_path, "-n", "0", "test_a.py")[1]
    assert "unrecognized arguments: -n" in of_pytest(tmp_path, "-p", "no:xdist", "test_a.py")[1]


def uv(*words: str, **variables: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "uv", "pip", *words]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    variables = {**kept, "UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0", **variables}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_without_a_network_uv_takes_a_folder_of_wheels_only_where_it_asks_no_index(tmp_path):
    remedy = RULES["name-resolution-failed"].remedy
    assert "UV_OFFLINE=1 UV_FIND_LINKS=" in remedy
    (tmp_path / "wheels").mkdir()
    write(tmp_path / "thing", {"thing-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1\n"})
    write(tmp_path / "thing", {"thing-1.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"})
    write(tmp_path / "thing", {"thing-1.dist-info/RECORD": ""})
    archive = shutil.make_archive(str(tmp_path / "thing"), "zip", tmp_path / "thing")
    wheels = str(Path(archive).rename(tmp_path / "wheels" / "thing-1-py3-none-any.whl").parent)
    asks = ("install", "--dry-run", "--python", sys.executable, "thing")
    nowhere = {"UV_DEFAULT_INDEX": "https://index.invalid/simple"}
    for variables in (nowhere, {**nowhere, "PIP_FIND_LINKS": wheels}, {**nowhere, "UV_FIND_LINKS": wheels}):
        status, text = uv(*asks, **variables)
        assert (status != 0, "failed to lookup address" in text) == (True, True), text
    status, text = uv(*asks, **nowhere, UV_FIND_LINKS=wheels, UV_OFFLINE="1")
    assert (status, "thing==1" in text) == (0, True), text


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ctest"), reason="apt-get install cmake")
def test_the_time_limit_of_a_program_is_its_property_and_the_option_counts_only_without_it(tmp_path):
    assert "--timeout counts only for a test without that property" in RULES["ctest-program-timeout"].remedy
    text = "add_test(slow sleep 2)\n{}\n"
    limit = "set_tests_properties(slow PROPERTIES TIMEOUT {})"
    ends = {}
    for seconds, options in (
        (1, ()),
        (1, ("--timeout", "0")),
        (1, ("--timeout", "9")),
        (9, ()),
        (0, ("--timeout", "9")),
    ):
        write(tmp_path, {"CTestTestfile.cmake": text.format(limit.format(seconds) if seconds else "")})
        done = subprocess.run(
            ["ctest", "-R", "slow", *options], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        ends[seconds, options] = done.returncode == 0
    assert [*ends.values()] == [False, False, False, True, True]
