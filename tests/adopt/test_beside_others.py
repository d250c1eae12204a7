"""Changes nothing that other tools find: what ``init`` writes. And a repository keeps the places that it chose."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from test_init import CPU, lay, resolved  # noqa: F401 - a fixture
from test_proposal import PLAIN, TWIN

from kernel_matrix import cli
from kernel_matrix.adopt import describe
from kernel_matrix.adopt.proposal import LOCKS, propose
from kernel_matrix.adopt.recognize import recognize
from kernel_matrix.adopt.repository import look
from kernel_matrix.adopt.sources import OWN
from kernel_matrix.adopt.writing import write
from kernel_matrix.config.file_readers import readers_of
from kernel_matrix.config.load import load
from kernel_matrix.run.container.recipe import source_of
from kernel_matrix.run.environments import venv

NEEDS = '[project]\nname = "kern"\nversion = "1"\ndependencies = ["numpy"]\n'
SETUPTOOLS = NEEDS + '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
SETUP = "from setuptools import find_namespace_packages, setup\nsetup(name='kern', version='1', "
FLAT, MODULE = {"kern/__init__.py": TWIN + PLAIN}, {"kern.py": TWIN + PLAIN}
LAYOUTS = {
    "flat": FLAT | {"pyproject.toml": SETUPTOOLS},
    "flat, beside a folder src": FLAT | {"pyproject.toml": SETUPTOOLS, "src/kern.c": ""},
    "src": {"src/kern/__init__.py": TWIN + PLAIN, "pyproject.toml": SETUPTOOLS},
    "setup.py": FLAT | {"setup.py": SETUP + "install_requires=['numpy'])\n"},
    "find": FLAT | {"pyproject.toml": SETUPTOOLS + '[tool.setuptools.packages.find]\nexclude = ["tests*"]\n'},
    "find_namespace_packages": FLAT | {"setup.py": SETUP + "packages=find_namespace_packages(exclude=['tests*']))\n"},
    "package_dir": {"setup.py": SETUP + "package_dir={'': 'lib'})\n", "lib/kern/__init__.py": TWIN + PLAIN},
    "a module": MODULE | {"pyproject.toml": SETUPTOOLS},
    "graft": FLAT | {"pyproject.toml": SETUPTOOLS, "MANIFEST.in": "graft .\n"},
}
BACKENDS = {
    "hatchling": "hatchling.build",
    "flit_core": "flit_core.buildapi",
    "poetry-core": "poetry.core.masonry.api",
    "pdm-backend": "pdm.backend",
    "uv_build": "uv_build",
}
# Prints the packages and the modules that setuptools finds in each folder: before init in the first half, and after it.
FINDER = """
import json, os, pathlib, sys
import setuptools, distutils.core  # in this order
found = []
for folder in sys.argv[1:]:
    os.chdir(folder)
    if pathlib.Path("setup.py").exists():
        made = distutils.core.run_setup("setup.py", stop_after="config")
    else:
        made = setuptools.Distribution()
        made.parse_config_files()
    try:
        made.set_defaults()
        found.append([" ".join(made.packages or ()), " ".join(made.py_modules or ())])
    except Exception as error:
        found.append(["", str(error)])
print(json.dumps(found))
"""


def adopted(root: Path) -> Path:
    """Write what ``init`` writes, with an operator."""
    repository = look(root)
    operators = recognize(repository)
    assert operators
    write(root, propose(repository, CPU, operators=operators).files)
    return root


def laid(root: Path, files: dict[str, str]) -> Path:
    return lay(root, {"tests/test_kern.py": "import kern\ndef test_kern(): ...\n", **files})


@pytest.mark.parametrize("version", [pytest.param("65.5.1", marks=pytest.mark.nightly), "84.2.1"])
def test_setuptools_finds_the_same_packages_and_modules(tmp_path, resolved, version):  # noqa: F811
    before = [laid(tmp_path / "before" / name, files) for name, files in LAYOUTS.items()]
    after = [adopted(laid(tmp_path / "after" / name, files)) for name, files in LAYOUTS.items()]
    venv.uv("pip", "install", "--target", str(tmp_path / "lib"), "--python", sys.executable, f"setuptools=={version}")
    command = [sys.executable, "-Wignore", "-c", FINDER, *map(str, before + after)]
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path / "lib")}, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert dict(zip(LAYOUTS, found[len(before) :], strict=True)) == dict(zip(LAYOUTS, found, strict=False))
    assert {packages or modules for packages, modules in found} == {"kern", ""}, "a folder src hides what is beside it"


def names_in(root: Path) -> tuple[set[str], set[str]]:
    """Build a source archive and of that a wheel, and return the names in both."""
    venv.uv("build", "--quiet", "--no-create-gitignore", "--out-dir", str(root.parent / f"{root.name}-dist"), str(root))
    [archive, wheel] = sorted((root.parent / f"{root.name}-dist").iterdir(), key=lambda path: path.suffix)
    return set(tarfile.open(archive).getnames()), set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*LAYOUTS, *BACKENDS])
def test_a_wheel_has_the_same_files(tmp_path, resolved, name):  # noqa: F811
    tool = f'[build-system]\nrequires = ["{name}"]\nbuild-backend = "{BACKENDS.get(name)}"\n'
    files = LAYOUTS.get(name) or {
        "pyproject.toml": NEEDS.replace('"1"\n', '"1"\ndescription = "it"\n') + tool,
        f"{'src/' if name == 'uv_build' else ''}kern/__init__.py": TWIN + PLAIN,
    }
    before, after = (names_in(adopt(laid(tmp_path / str(adopt), files))) for adopt in (lambda root: root, adopted))
    assert after[1] == before[1]
    assert name == "flat, beside a folder src" or {"kern/__init__.py", "kern.py"} & after[1]
    if name in ("graft", "hatchling"):
        assert any(OWN in name for name in after[0]), "a source archive may have all of the repository"


HELPED = {
    "tests/conftest.py": "def of_tests(): ...\n",
    "tests/test_it.py": "from conftest import of_tests\ndef test(): ...\n",
}


@pytest.mark.parametrize("options", ["", "--doctest-modules -o python_files=*.py"])
def test_a_usual_run_of_pytest_collects_the_same(tmp_path, resolved, options):  # noqa: F811
    root = laid(tmp_path, LAYOUTS["flat"] | HELPED)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options.split()]

    def collected() -> str:
        done = subprocess.run(command, cwd=root, env={}, capture_output=True, text=True, check=False)
        return done.stdout.partition(" tests collected")[0]

    before = collected()
    assert "test_it.py::test" in before
    adopted(root)
    assert collected() == before


def test_ruff_has_nothing_to_say_of_what_is_written(tmp_path, resolved):  # noqa: F811
    root = adopted(laid(tmp_path, LAYOUTS["flat"]))
    for words in (["check", "--isolated", "--select", "E,F,I,D,ANN,INP,W"], ["format", "--isolated", "--check"]):
        subprocess.run([Path(sys.executable).with_name("ruff"), *words, "--no-cache", str(root / OWN)], check=True)


def test_mypy_finds_no_module_twice(tmp_path, resolved):  # noqa: F811
    root = adopted(laid(tmp_path, LAYOUTS["flat"] | HELPED))
    (root / "kern" / "__init__.py").write_text("")
    subprocess.run([sys.executable, "-m", "mypy", "--strict-equality", "."], cwd=root, check=True)


@pytest.mark.parametrize(
    "old", [{}, {LOCKS: "ci/locks", f"{OWN}/containers": "containers", describe.FOLDER: "operators"}]
)
def test_a_repository_keeps_the_places_that_its_matrix_names(tmp_path, resolved, capsys, monkeypatch, old):  # noqa: F811
    root = laid(tmp_path, LAYOUTS["flat"])
    repository = look(root)
    files = propose(repository, CPU, operators=recognize(repository)).files
    for new, place in old.items():
        files = {name.replace(new, place): text.replace(new, place) for name, text in files.items()}
    write(root, files)
    for name in ("matrix.yaml", describe.MATRIX):
        assert cli.main(["check", "--matrix", str(root / name)]) == 0, capsys.readouterr()
    parts = {name: readers.part for name in files if (readers := readers_of(load(root / describe.MATRIX), name))}
    locks, containers, operators = (old.get(new, new) for new in (LOCKS, f"{OWN}/containers", describe.FOLDER))
    for name in files:
        place = next((one for one in (containers, operators) if name.startswith(f"{one}/")), "")
        if place or name.startswith(locks):
            assert parts.get(name) == {containers: "image", operators: "suite"}.get(place), name
    assert f"{locks}/python.in" in files
    source = source_of(load(root / "matrix.yaml"), root, "cpu")
    assert source.shares
    monkeypatch.setattr("kernel_matrix.run.container.recipe._bases", lambda *_: {})
    made = [source.recipe(None, "shared"), source.shared_recipe(None)]
    assert [one.dockerfile for one in made] == [f"{containers}/{name}/Dockerfile" for name in ("cpu", "toolchains")]
    assert {name for one in made for name in one.files} >= {name for name in files if name.startswith(containers)}
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", files[f"{containers}/toolchains/Dockerfile"], re.MULTILINE)
    [script, of_locks] = [word for line in copied for word in line.split() if "[" not in word]
    assert script in made[1].files
    assert {name for name in made[1].files if name.startswith(f"{of_locks}/")} == {f"{locks}/python.txt"}
