"""Read all that a repository pins: every kind of file that names versions, and the order in which they count."""

from __future__ import annotations

import codecs
import json
import os
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version
from test_init import lay

from kernel_matrix import cli
from kernel_matrix.adopt import lock, project_file
from kernel_matrix.adopt.pinned.repository import Pins, pins_of
from kernel_matrix.adopt.proposal import LOCKS
from kernel_matrix.config import locks
from kernel_matrix.config.locks import pins
from kernel_matrix.run.environments import uv_settings
from kernel_matrix.run.environments.venv import uv

UV_LOCK = """version = 1
revision = 3
requires-python = ">=3.11"
resolution-markers = ["python_full_version >= '3.12'", "python_full_version < '3.12'"]

[[package]]
name = "own-kernels"
version = "1.0"
source = { editable = "." }

[[package]]
name = "torch"
version = "2.9.1+cu128"
source = { registry = "https://example.org/whl/cu128" }
dependencies = [{ name = "triton", marker = "sys_platform == 'linux'" }]

[[package]]
name = "numpy"
version = "2.2.6"
source = { registry = "https://example.org/simple" }
resolution-markers = ["python_full_version < '3.12'"]

[[package]]
name = "numpy"
version = "2.3.4"
source = { registry = "https://example.org/simple" }
resolution-markers = ["python_full_version >= '3.12'"]

[[package]]
name = "flash-attn"
version = "2.8.3"
source = { git = "https://user:secret@example.org/flash?rev=v2.8.3#abc" }

[[package]]
name = "helper"
version = "0.1"
source = { virtual = "../helper" }
"""
PYLOCK = """lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"
extras = ["cuda"]
dependency-groups = ["test"]

[[packages]]
name = "pytest"
version = "9.0.1"
marker = "'test' in dependency_groups"

[[packages]]
name = "triton"
version = "3.5.1"
marker = "'cuda' in extras and sys_platform == 'linux'"

[[packages]]
name = "flash-attn"
vcs = { type = "git", url = "https://example.org/flash", commit-id = "abc" }

[[packages]]
name = "helper"
directory = { path = "helper", editable = true }
"""
POETRY = """[[package]]
name = "numpy"
version = "2.2.6"
python-versions = ">=3.10"
groups = ["main"]
markers = "python_version == \\"3.11\\""

[[package]]
name = "numpy"
version = "2.3.4"
python-versions = ">=3.11"
groups = ["main", "dev"]
markers = {main = "python_version >= \\"3.12\\"", dev = "python_version >= \\"3.12\\""}

[[package]]
name = "torch"
version = "2.9.1+cu128"
python-versions = ">=3.10"
[package.source]
type = "legacy"
url = "https://example.org/whl/cu128"

[[package]]
name = "flash-attn"
version = "2.8.3"
[package.source]
type = "git"
url = "git@example.org:flash.git"

[[package]]
name = "helper"
version = "0.1"
[package.source]
type = "directory"
url = "../helper"

[metadata]
lock-version = "2.1"
python-versions = "^3.11"
"""
OLD_POETRY = """[[package]]
name = "numpy"
version = "1.26.4"
python-versions = ">=3.9"
category = "main"

[[package]]
name = "numpy"
version = "2.2.6"
python-versions = ">=3.10"

[[package]]
name = "scipy"
version = "1.13.1"
python-versions = ">=3.9"

[[package]]
name = "scipy"
version = "1.17.0"
python-versions = ">=3.12"

[metadata]
python-versions = ">=3.10,<4.0"
"""
PDM = """[metadata]
groups = ["default", "dev"]
lock_version = "4.5.0"

[[metadata.targets]]
requires_python = ">=3.11"

[[package]]
name = "Torch"
version = "2.9.1"
requires_python = ">=3.10"
groups = ["default"]
marker = "python_version >= \\"3.11\\""

[[package]]
name = "coverage"
version = "7.0.0"
extras = ["toml"]

[[package]]
name = "flash-attn"
version = "2.8.3"
git = "https://example.org/flash"
revision = "abc"

[[package]]
name = "helper"
version = "0.1"
editable = true
path = "./helper"
"""
PIPFILE = json.dumps(
    {
        "_meta": {"requires": {"python_version": "3.11"}},
        "default": {
            "torch": {"version": "==2.9.1", "markers": "python_version >= '3.10'", "hashes": ["sha256:00"]},
            "flash-attn": {"git": "https://example.org/flash", "ref": "abc"},
            "helper": {"editable": True, "path": "./helper"},
        },
        "develop": {"pytest": {"version": "==9.0.1"}},
        "docs": {"numpy": {"version": "==2.2.6"}},
    }
)


CONDA_LOCK = """version: 1
package:
- {name: pytorch, version: 2.9.1, manager: conda, platform: linux-64}
- {name: pytorch, version: 2.9.0, manager: conda, platform: osx-arm64}
- {name: einops, version: 0.8.1, manager: pip, platform: linux-64}
"""
PIXI = """version: 6
environments: {}
packages:
- conda: https://example.org/conda-forge/linux-64/pytorch-2.9.1-cuda129_py311_0.conda
- conda: https://example.org/conda-forge/osx-arm64/pytorch-2.9.0-cpu_py311_0.conda
- conda: https://example.org/conda-forge/noarch/python-dateutil-2.9.0-pyh_0.tar.bz2
- {pypi: "https://example.org/einops-0.8.1-py3-none-any.whl", name: einops, version: 0.8.1}
- {pypi: ./, name: own, version: "0.1"}
"""


def read(root: Path, files: dict[str, str], **named) -> Pins:
    return pins_of(lay(root, files), "3.11", **named)


def told(pins: Pins) -> dict[str, str]:
    """Return what each file says of each distribution."""
    return {pin.name: pin.version or pin.wanted or pin.place for pin in pins.pins}


PLACES = {"flash-attn": "https://example.org/flash", "helper": "the folder ./helper"}


@pytest.mark.parametrize(
    ("name", "text", "pins"),
    [
        (
            "uv.lock",
            UV_LOCK,
            {
                "own-kernels": "the folder .",
                "torch": "2.9.1",
                "numpy": "2.2.6",
                "flash-attn": "https://example.org/flash?rev=v2.8.3#abc",
                "helper": "the folder ../helper",
            },
        ),
        ("pylock.toml", PYLOCK, {"pytest": "9.0.1", "triton": "3.5.1", **PLACES, "helper": "the folder helper"}),
        ("pylock.gpu.toml", PYLOCK, {"pytest": "9.0.1", "triton": "3.5.1", **PLACES, "helper": "the folder helper"}),
        (
            "poetry.lock",
            POETRY,
            {
                "numpy": "2.2.6",
                "torch": "2.9.1",
                "flash-attn": "git@example.org:flash.git",
                "helper": "the folder ../helper",
            },
        ),
        ("poetry.lock", OLD_POETRY, {"numpy": "2.2.6", "scipy": "1.13.1"}),
        ("pdm.lock", PDM, {"torch": "2.9.1", "coverage": "7.0.0", **PLACES}),
        ("conda-lock.yml", CONDA_LOCK, {"torch": "2.9.1", "einops": "0.8.1"}),
        (
            "pixi.lock",
            PIXI,
            {"torch": "2.9.1", "python-dateutil": "2.9.0", "einops": "0.8.1", "own": "the folder ./"},
        ),
        ("Pipfile.lock", PIPFILE, {"torch": "2.9.1", "pytest": "9.0.1", "numpy": "2.2.6", **PLACES}),
    ],
    ids=["uv", "pylock", "pylock-named", "poetry", "poetry-1", "pdm", "conda-lock", "pixi", "pipenv"],
)
def test_the_lock_of_every_tool_is_read(tmp_path, name, text, pins):
    assert told(read(tmp_path, {name: text})) == pins


def test_where_a_lock_does_not_say_which_version_is_for_this_python_the_newest_is_taken_and_it_is_said(tmp_path):
    [note] = read(tmp_path, {"poetry.lock": OLD_POETRY}).notes
    assert note.startswith("poetry.lock has numpy 1.26.4, 2.2.6")
    assert note.endswith("2.2.6 is taken")


def test_conflicting_extras_of_a_lock_give_one_version(tmp_path):
    fork = '[[package]]\nname = "torch"\nversion = "{}"\nresolution-markers = ["extra == \'extra-3-own-{}\'"]\n'
    both = fork.format("2.9.1+cpu", "cpu") + fork.format("2.9.1+cu128", "cu128")
    pins = read(tmp_path, {"uv.lock": both})
    assert (told(pins), pins.notes) == ({"torch": "2.9.1"}, ())


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("torch==2.9.1\n", {"torch": "2.9.1"}),
        ("torch == 2.9.1  # why\r\nNumPy==2.2.6\r\n", {"torch": "2.9.1", "numpy": "2.2.6"}),
        ("torch==2.9.1+cu128", {"torch": "2.9.1"}),
        ("torch===2.9.1", {"torch": "2.9.1"}),
        ("torch==2.9.*", {"torch": "==2.9.*"}),
        ("torch~=2.9.0", {"torch": "~=2.9.0"}),
        ("numpy<2.3,>=2", {"numpy": "<2.3,>=2"}),
        ("einops", {}),
        ("ML_Dtypes==0.5.3\nRuamel.Yaml[jinja2]==0.18.15", {"ml-dtypes": "0.5.3", "ruamel-yaml": "0.18.15"}),
        ("numpy==1.26.4 ; python_version < '3.11'\nnumpy==2.2.6 ; python_version >= '3.11'", {"numpy": "2.2.6"}),
        ("pywin32==311 ; sys_platform == 'win32'", {}),
        ("torch==2.9.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via -r base.in\n", {"torch": "2.9.1"}),
        ("--index-url https://example.org\n--pre\n-f wheels\ntorch==2.9.1", {"torch": "2.9.1"}),
        ("torch @ https://example.org/torch-2.9.1%2Bcu128-cp311-cp311-linux_x86_64.whl", {"torch": "2.9.1"}),
        ("https://example.org/torch-2.9.1-cp311-cp311-linux_x86_64.whl#sha256=00", {"torch": "2.9.1"}),
        ("./wheels/own_thing-1.2.tar.gz", {"own-thing": "1.2"}),
        ("-e .\n-e ./own[test]\n.", {}),
        ("-e git+https://me:secret@example.org/flash#egg=flash_attn", {"flash-attn": "git+https://example.org/flash"}),
        ("flash-attn @ git+https://example.org/flash@v1 ; os_name == 'nt'", {}),
        ("\ufefftorch==2.9.1", {"torch": "2.9.1"}),
        ("torch==2.9.1.dev20250901+cu128", {"torch": "2.9.1.dev20250901"}),
    ],
)
def test_requirements_are_read_as_pip_reads_them(tmp_path, text, pins):
    found = read(tmp_path, {"requirements.txt": text})
    assert (told(found), found.notes) == (pins, ())


def test_requirements_in_the_encodings_of_windows_are_read(tmp_path):
    (tmp_path / "requirements.txt").write_bytes(codecs.BOM_UTF16_LE + "torch==2.9.1\r\n".encode("utf-16-le"))
    assert told(pins_of(tmp_path, "3.11")) == {"torch": "2.9.1"}


def test_files_that_name_others_are_followed_once_and_each_pin_has_its_own_file(tmp_path):
    pins = read(
        tmp_path,
        {
            "requirements-dev.txt": "-r requirements.txt\n-c=pinned/all.txt\n--requirement 'gone.txt'\n-rhttps://example.org/x\n",
            "requirements.txt": "-r requirements-dev.txt\ntorch==2.9.1\n",
            "pinned/all.txt": "numpy==2.2.6\n",
        },
    )
    assert {(pin.name, pin.file) for pin in pins.pins} == {("torch", "requirements.txt"), ("numpy", "pinned/all.txt")}
    assert pins.notes == (
        "requirements-dev.txt names gone.txt, which cannot be read: No such file or directory",
        "requirements-dev.txt names https://example.org/x, which cannot be read: it is not on this machine",
    )


@pytest.mark.parametrize(
    "name",
    [
        *("requirements.lock", "requirements-dev.lock", "requirements_test.txt", "dev-requirements.txt"),
        *(
            "test_requirements.txt",
            "requirements/test.txt",
            "requirements/base.in",
            "constraints.txt",
            "constraint.txt",
        ),
        *("tests/requirements.txt", "python/constraints-ci.txt", "ci/requirements/cuda.txt", "Requirements.TXT"),
    ],
)
def test_requirements_are_found_by_any_of_their_usual_names(tmp_path, name):
    pins = read(
        tmp_path, {name: "torch==2.9.1\n", "docs/requirements.txt": "torch==1.0\n", "notes.txt": "torch==1.1\n"}
    )
    assert [(pin.version, pin.file) for pin in pins.pins] == [("2.9.1", name)]


@pytest.mark.parametrize(
    ("line", "pins"),
    [
        ("pytorch=2.9.1", {"torch": "2.9.1"}),
        ("numpy=2.2", {"numpy": "==2.2.*"}),
        ("numpy=2.2.*", {"numpy": "==2.2.*"}),
        ("numpy==2.2.6", {"numpy": "2.2.6"}),
        ("conda-forge::numpy=2.2=py311_0", {"numpy": "2.2"}),
        ("numpy >=2,<2.3", {"numpy": "<2.3,>=2"}),
        ("numpy 2.2.6", {"numpy": "2.2.6"}),
        ("numpy", {}),
        ("python=3.11.7", {}),
        ("cuda-version=12.9|13.0", {}),
        ("{pip: [torch==2.9.1, -r more.txt]}", {"torch": "2.9.1", "einops": "0.8.1"}),
    ],
)
def test_environments_of_conda_are_read(tmp_path, line, pins):
    text = f"name: own\nchannels: [conda-forge]\ndependencies:\n  - {line}\n"
    assert told(read(tmp_path, {"environment.yml": text, "more.txt": "einops==0.8.1\n"})) == pins


def test_setup_cfg_and_the_constraints_of_uv_are_read(tmp_path):
    pins = read(
        tmp_path,
        {
            "setup.cfg": "[options]\ninstall_requires =\n    torch==2.9.1\n    file: more.txt\n"
            "[options.extras_require]\ntest =\n    pytest==9.0.1; python_version>'3'\n",
            "pyproject.toml": '[tool.uv]\nconstraint-dependencies = ["numpy==2.2.6", 3]\n',
        },
    )
    assert told(pins) == {"torch": "2.9.1", "pytest": "9.0.1", "numpy": "2.2.6"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('[dependency-groups]\ndev = ["pytest==8.4.2", "ruff", { include-group = "a" }]\na = ["numpy===2.2.6"]\n',
         {"pytest": "8.4.2", "numpy": "2.2.6"}),
        ('[project.optional-dependencies]\ntest = ["PyTest==8.4.2"]\ndev = ["pytest==8.4.2"]\n', {"pytest": "8.4.2"}),
        ('[dependency-groups]\na = ["torch==2.9.1", "numpy==2.2.6"]\nb = ["torch==2.10.0"]\n', {"numpy": "2.2.6"}),
        ('[dependency-groups]\ndev = ["pytest>=8", "numpy==2.*"]\n', {}),
        ('[dependency-groups]\ndev = 3\n[project]\noptional-dependencies = "x"\n', {}),
    ],
)  # fmt: skip
def test_exact_versions_of_groups_and_extras_are_pins_where_all_agree(tmp_path, text, wanted):
    assert told(read(tmp_path, {"pyproject.toml": text})) == wanted


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("uv.lock", "<<<<<<< HEAD\nversion = 1\n", "Invalid statement"),
        ("uv.lock", 'version = 1\npackage = "x"\n', None),
        ("pylock.toml", "[[packages]]\nversion = 3\n[[packages]]\nname = 4\n", None),
        (
            "poetry.lock",
            '[[package]]\nname = "a b/c"\nversion = "1"\n[[package]]\nname = "d"\nversion = "not one"\n',
            None,
        ),
        ("pdm.lock", "version https://git-lfs.github.com/spec/v1\n", "Expected '='"),
        ("Pipfile.lock", "{", "Expecting property name"),
        ("Pipfile.lock", "[]", "it has no tables"),
        ("Pipfile.lock", '{"default": {"torch": "2"}, "develop": 3, "_meta": 4}', None),
        ("environment.yml", "a: [", "while parsing"),
        ("environment.yml", "- a\n- b\n", None),
        ("setup.cfg", "install_requires = x\n", "File contains no section headers"),
        ("requirements.txt", "torch = 2.9.1\n<html>\n", "'torch = 2.9.1' is no requirement, and 1 more"),
        ("pylock.toml", "a = " + "[" * 3000, "cannot be read"),
        ("pixi.lock", "packages: [", "while parsing"),
        ("conda-lock.yml", "package: {a: 1}\n", None),
        ("pixi.lock", "packages:\n- conda: 3\n- pypi: {}\n- name: [a]\n- conda: a/b\n", None),
    ],
)
def test_a_file_that_cannot_be_used_costs_one_sentence_and_no_other_file(tmp_path, name, text, words):
    pins = read(tmp_path, {name: text, "constraints.txt": "einops==0.8.1\n"})
    assert told(pins) == {"einops": "0.8.1"}
    assert len(pins.notes) == (words is not None)
    for note in pins.notes:
        assert name in note
        assert words in note
        assert "\n" not in note


def test_what_is_no_file_or_cannot_be_opened_stops_nothing(tmp_path):
    (tmp_path / "poetry.lock").mkdir()
    (tmp_path / "uv.lock").symlink_to("nowhere")
    (tmp_path / "pdm.lock").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "requirements.txt")
    pins = pins_of(tmp_path, "3.11")
    assert pins.pins == ()
    assert [note.partition(":")[0] for note in pins.notes] == ["uv.lock cannot be read", "pdm.lock cannot be read"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", 'requires-python = ">=3.12"\n[[package]]\nname = "torch"\nversion = "2.9.1"\n'),
        ("poetry.lock", '[[package]]\nname = "torch"\nversion = "2.9.1"\n[metadata]\npython-versions = "^3.12"\n'),
        (
            "Pipfile.lock",
            '{"_meta": {"requires": {"python_version": "3.12"}}, "default": {"torch": {"version": "==2.9.1"}}}',
        ),
        ("requirements.txt", "# by the following command: pip-compile with Python 3.12\ntorch==2.9.1\n"),
        ("requirements.txt", "#    uv pip compile --python-version 3.12 requirements.in\ntorch==2.9.1\n"),
    ],
)
def test_a_lock_for_another_python_is_tried_and_named(tmp_path, name, text):
    pins = read(tmp_path, {name: text})
    assert told(pins)["torch"] == "2.9.1"
    [note] = pins.notes
    assert note.startswith(f"{name} is for Python ")
    assert "3.12" in note
    assert note.endswith("the environment has 3.11")


def test_the_nearest_lock_counts_and_what_another_file_says_is_named(tmp_path):
    pins = read(
        tmp_path / "own",
        {
            "requirements.txt": "torch==2.8.0\nnumpy<2.2\ntriton==3.4.0\n",
            "poetry.lock": '[[package]]\nname = "torch"\nversion = "2.9.1"\n',
            "constraints.txt": "numpy==2.1.3\n",
            "tests/uv.lock": '[[package]]\nname = "torch"\nversion = "2.7.1"\n',
        },
    )
    assert pins.preferred() == ["numpy==2.1.3", "torch==2.9.1", "triton==3.4.0"]
    assert "numpy<2.2" not in pins.constraints()["numpy"], "an exact pin comes before a range"
    assert pins.files() == {"poetry.lock": 1, "constraints.txt": 1, "requirements.txt": 3, "tests/uv.lock": 1}
    versions = {"torch": "2.9.1", "numpy": "2.2.0", "triton": "3.5.1", "other": "1"}
    assert pins.not_kept({"cuda.txt": versions, "cpu.txt": {**versions, "triton": "3.6.0"}}) == [
        "numpy: constraints.txt pins 2.1.3, cuda.txt, cpu.txt have 2.2.0",
        "torch: requirements.txt pins 2.8.0, poetry.lock, which comes first, has 2.9.1",
        "numpy: requirements.txt wants <2.2, cuda.txt, cpu.txt have 2.2.0",
        "triton: requirements.txt pins 3.4.0, cuda.txt has 3.5.1",
        "triton: requirements.txt pins 3.4.0, cpu.txt has 3.6.0",
        "torch: tests/uv.lock pins 2.7.1, poetry.lock, which comes first, has 2.9.1",
    ]


def test_a_build_of_the_pinned_version_keeps_the_pin(tmp_path):
    pins = read(tmp_path, {"constraints.txt": "torch==2.9.1+cu128\nnumpy~=2.2.0\nscipy==1.16\n"})
    assert pins.not_kept({"a.txt": {"torch": "2.9.1+cpu", "numpy": "2.2.6", "scipy": "1.16.0"}}) == []
    assert pins.constraints()["numpy"] == ["numpy~=2.2.0"]


def test_what_comes_from_a_repository_is_never_what_an_index_has(tmp_path):
    pins = read(tmp_path, {"uv.lock": UV_LOCK})
    [sentence] = pins.not_kept({"a.txt": {"flash-attn": "2.8.3"}})
    assert sentence == (
        "flash-attn: uv.lock takes it from https://example.org/flash?rev=v2.8.3#abc, a.txt has 2.8.3"
    ), "no password is printed"


@pytest.mark.parametrize("checkout", [True, False])
def test_the_lock_of_the_workspace_above_is_read(tmp_path, checkout):
    lay(tmp_path, {"constraints.txt": "torch==1.0\n"})
    workspace = lay(
        tmp_path / "workspace",
        {"uv.lock": UV_LOCK, "pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n'},
    )
    if checkout:
        (workspace / "pyproject.toml").unlink()
        (workspace / ".git").mkdir()
    pins = read(workspace / "packages" / "own", {"pyproject.toml": "[project]\n"})
    assert {pin.file for pin in pins.pins} == {"../../uv.lock"}
    assert told(pins)["torch"] == "2.9.1"


def test_folders_that_are_near_come_first_and_files_can_be_left_out(tmp_path):
    files = {"a/constraints.txt": "torch==2.8.0\n", "python/own/constraints.txt": "torch==2.9.1\n"}
    files["ci/locks/requirements.txt"] = "einops==0.8.1\n"
    pins = read(tmp_path, files, near=("python/own",), without=[tmp_path / "ci" / "locks" / "requirements.txt"])
    assert [pin.version for pin in pins.pins] == ["2.9.1", "2.8.0"]


def test_other_checkouts_environments_and_hidden_folders_are_not_looked_into(tmp_path):
    left = (".venv", "third_party", "build", "submodule", "docs", "examples")
    lay(tmp_path, {f"{name}/requirements.txt": "torch==1.0\n" for name in left})
    (tmp_path / "submodule" / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / "again").symlink_to(tmp_path)
    assert pins_of(tmp_path, "3.11") == Pins()


@pytest.mark.slow
def test_what_is_read_of_a_lock_is_what_uv_exports_of_it(tmp_path):
    lay(
        tmp_path,
        {
            "pyproject.toml": '[project]\nname = "own"\nversion = "1"\nrequires-python = ">=3.11"\n'
            'dependencies = ["iniconfig<2.1", "tomli<2.1; python_version < \'3.12\'", '
            "\"tomli>2.2; python_version >= '3.12'\"]\n"
            '[dependency-groups]\ntest = ["pluggy<1.6"]\n[project.optional-dependencies]\nmore = ["packaging<25"]\n',
        },
    )
    uv("lock", "--quiet", "--project", str(tmp_path))
    words = ("--frozen", "--offline", "--quiet", "--no-hashes", "--no-emit-project", "--all-groups", "--all-extras")
    uv("export", *words, "--project", str(tmp_path), "--output-file", str(tmp_path / "requirements.txt"))
    uv("export", *words, "--project", str(tmp_path), "--output-file", str(tmp_path / "pylock.toml"))

    def preferred(name: str) -> list[str]:
        return pins_of(lay(tmp_path / f"of-{name}", {name: (tmp_path / name).read_text()}), "3.11").preferred()

    assert preferred("uv.lock") == preferred("requirements.txt") == preferred("pylock.toml")
    names = {line.partition("==")[0] for line in preferred("uv.lock")}
    assert names == {"iniconfig", "tomli", "pluggy", "packaging"}


def resolved_by(monkeypatch, conflicts: dict[frozenset[str], str]) -> list[list[str]]:
    """Stand in for uv, which refuses constraints that have these lines together; return what it was asked."""
    asked: list[list[str]] = []

    def compiled(one):
        asked.append([*one.limits])
        fault = next((words for lines, words in conflicts.items() if lines <= {*one.limits}), "")
        lines = [line for line in (*one.limits, *one.preferred) if "==" in line and "*" not in line]
        return ("" if fault else "".join(f"{line}\n" for line in dict.fromkeys(lines))), fault

    monkeypatch.setattr(lock, "compiled", compiled)
    monkeypatch.setattr(lock, "wheels_of", lambda _: [])
    return asked


def test_pins_that_do_not_go_together_are_those_that_uv_names_and_the_rest_is_kept(tmp_path, monkeypatch):
    wanted = read(tmp_path, {"constraints.txt": "a-b==1\nb==1\nc~=1.0\nd==1\n", "own.in": "a-b\nb\nc\n"})
    asked = resolved_by(monkeypatch, {frozenset({"a-b==1", "c~=1.0"}): "Because a-b==1 depends on c>=2 and b-c is not"})
    made = lock.resolve(tmp_path / "own.in", ["cpu"], pythons=["3.11"], pins=wanted)
    assert asked == [["a-b==1", "b==1", "c~=1.0", "d==1"], ["b==1", "d==1"], ["b==1", "d==1"]]
    assert "a-b==1\n" in made.texts[""], "it is still preferred"
    assert made.notes == ()


def test_where_uv_names_no_pin_all_of_them_are_preferences(tmp_path, monkeypatch):
    wanted = read(tmp_path, {"constraints.txt": "a==1\nb==1\n", "own.in": "a\n"})
    asked = resolved_by(monkeypatch, {frozenset({"a==1"}): "the index does not answer"})
    lock.resolve(tmp_path / "own.in", ["cpu"], pythons=["3.11"], pins=wanted)
    assert asked == [["a==1", "b==1"], []]


@pytest.fixture
def repository(tmp_path) -> Path:
    return lay(
        tmp_path / "own",
        {
            "pyproject.toml": '[project]\nname = "own"\nversion = "1"\ndependencies = ["numpy", "einops"]\n',
            "own/__init__.py": "import numpy\n",
            "tests/test_own.py": "def test(): ...\n",
            "uv.lock": '[[package]]\nname = "numpy"\nversion = "2.2.5"\n',
            "requirements-test.txt": "numpy==2.2.6\npytest~=8.4.0\neinops==0.0.1\n",
        },
    )


@pytest.mark.slow
def test_init_and_lock_keep_the_pins_and_name_what_is_not_kept_with_its_file(repository, capsys):
    assert cli.main(["init", "--root", str(repository), "--no-run"]) == 0
    output = capsys.readouterr().out
    made = repository / LOCKS / "python.txt"
    first = pins(made)
    assert first["numpy"] == "2.2.5"
    assert first["pytest"].startswith("8.4.")
    assert "versions from uv.lock (1), requirements-test.txt (3)\n" in output
    assert "not kept: numpy: requirements-test.txt pins 2.2.6, uv.lock, which comes first, has 2.2.5\n" in output
    assert f"not kept: einops: requirements-test.txt pins 0.0.1, python.txt has {first['einops']}\n" in output
    assert cli.main(["lock", "--matrix", str(repository / "matrix.yaml")]) == 0
    assert pins(made) == first
    assert "not kept: einops: " in capsys.readouterr().out
    assert cli.main(["lock", "--matrix", str(repository / "matrix.yaml"), "--pins", "newest"]) == 0
    assert Version(pins(made)["numpy"]) > Version("2.2.6")
    output = capsys.readouterr().out
    assert "the newest versions, and not those of uv.lock (1), requirements-test.txt (3)\n" in output
    assert "not kept" not in output


@pytest.mark.slow
def test_a_repository_without_pins_gets_the_newest_and_a_broken_lock_stops_nothing(repository, capsys):
    (repository / "requirements-test.txt").unlink()
    (repository / "uv.lock").write_text("<<<<<<< HEAD\n")
    assert cli.main(["init", "--root", str(repository), "--no-run"]) == 0
    output = capsys.readouterr().out
    assert "that the package allows are taken\nuv.lock cannot be read: " in output
    assert Version(pins(repository / LOCKS / "python.txt")["numpy"]) > Version("2.2.6")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.uv]\nconstraint-dependencies = ["iniconfig<2"]\n'),
        ("pyproject.toml", '[tool.uv]\noverride-dependencies = ["iniconfig==1.1.1"]\n'),
        ("pyproject.toml", '[tool.uv]\nrequired-version = "<0.1"\n'),
        ("uv.toml", 'exclude-newer = "2015-01-01T00:00:00Z"\n'),
        ("uv.toml", "[pip]\nno-deps = true\nonly-binary = [':all:']\nresolution = 'lowest'\n"),
    ],
)
def test_what_a_project_says_to_uv_of_versions_changes_no_environment(tmp_path, monkeypatch, name, text):
    lay(tmp_path, {name: text, "a.txt": "iniconfig==2.0.0\n", "sub/b": ""})
    monkeypatch.chdir(tmp_path / "sub")
    words = ("pip", "install", "--dry-run", "--python", sys.executable, "--target", str(tmp_path / "target"))
    assert "iniconfig==2.0.0" in uv(*words, "-r", str(tmp_path / "a.txt"))


def test_what_a_project_says_to_uv_of_indexes_holds(tmp_path):
    text = """[tool.uv]
override-dependencies = ["numpy<2"]
find-links = ["wheels", "https://example.org/wheels"]
index-strategy = "unsafe-best-match"
[[tool.uv.index]]
name = "own"
url = "https://example.org/simple"
default = true
[[tool.uv.index]]
name = "near"
url = "./simple"
[[tool.uv.index]]
name = "torch"
url = "https://example.org/torch"
explicit = true
"""
    root = lay(tmp_path / "own", {"pyproject.toml": text, "sub/pyproject.toml": "[tool.uv"})
    assert tomllib.loads(uv_settings.of_indexes(root / "sub")) == {
        "find-links": [str(root / "wheels"), "https://example.org/wheels"],
        "index-strategy": "unsafe-best-match",
        "index": [
            {"name": "own", "url": "https://example.org/simple", "default": True},
            {"name": "near", "url": str(root / "simple")},
        ],
    }
    lay(root, {"uv.toml": 'index-url = "https://example.org/other"\n'})
    assert tomllib.loads(uv_settings.of_indexes(root)) == {"index-url": "https://example.org/other"}
    assert uv_settings.of_indexes(tmp_path / "none") == ""


@pytest.mark.slow
def test_a_lock_of_the_matrix_with_the_name_of_requirements_is_not_its_own_pin(repository, capsys):
    (repository / "requirements-test.txt").unlink()
    lay(
        repository,
        {
            "ci/locks/requirements.in": "numpy\npytest\nml_dtypes\n",
            "ci/locks/requirements.txt": "numpy==2.0.2\n",
            "matrix.yaml": "package: { name: own, source: ., suite: tests }\n"
            "toolchains: { python: { lock: ci/locks/requirements.txt } }\n"
            "platforms:\n  cpu: { title: CPU, device: cpu, runner: [a], targets: [x86-64-v3], toolchains: [python] }\n",
        },
    )
    assert cli.main(["lock", "--matrix", str(repository / "matrix.yaml")]) == 0
    assert pins(repository / "ci" / "locks" / "requirements.txt")["numpy"] == "2.2.5"
    assert "versions from uv.lock (1)\n" in capsys.readouterr().out


def test_pins_that_one_kind_of_build_cannot_have_are_given_up_and_uv_says_why(tmp_path, monkeypatch):
    wanted = read(tmp_path, {"constraints.txt": "torch==2.8.0\n", "own.in": "torch\n"})

    def compiled(one):
        version = "2.8.0" if "torch==2.8.0" in one.limits else one.like.get("torch", "2.13.0")
        fault = "the index of torch is silent" if (one.kind, version) == ("rocm", "2.8.0") else ""
        return ("" if fault else f"torch=={version}\n"), fault

    monkeypatch.setattr(lock, "compiled", compiled)
    made = lock.resolve(tmp_path / "own.in", ["cuda", "rocm"], pythons=["3.11"], pins=wanted)
    assert [locks.pins_in(text) for text in made.texts.values()] == [{"torch": "2.13.0"}] * 2
    assert made.notes == (
        "not with all pins: own.in cannot be resolved for rocm: the index of torch is silent",
        "not kept: torch: constraints.txt pins 2.8.0, own.cuda.txt, own.rocm.txt have 2.13.0",
    )


@pytest.mark.parametrize("words", ["the index of torch is silent", "the index is silent"])
def test_where_the_pinned_torch_cannot_be_had_a_wheel_here_comes_before_the_newest(tmp_path, monkeypatch, words):
    wanted = read(tmp_path, {"constraints.txt": "torch==2.5.1\n", "own.in": "torch>=2\n"})

    def compiled(one):
        limits = [limit.removeprefix("torch==") for limit in one.limits if limit.startswith("torch==")]
        version = limits[0] if limits else one.like.get("torch", "2.15.0")
        fault = words if version == "2.5.1" else ""
        return ("" if fault else f"torch=={version}\n"), fault

    monkeypatch.setattr(lock, "compiled", compiled)
    monkeypatch.setattr(lock, "wheels_of", lambda name: [(name, "2.12.0+cpu"), (name, "2.13.0+cpu")])
    made = lock.resolve(tmp_path / "own.in", ["cpu"], pythons=["3.11"], pins=wanted)
    assert locks.pins_in(made.texts["cpu"]) == {"torch": "2.13.0"}
    assert made.notes[-1] == "not kept: torch: constraints.txt pins 2.5.1, own.cpu.txt has 2.13.0"


_OF_SCRIPTS = {
    "scripts/requirements_linux.txt": "numpy==1.21.0\n",
    "bench/requirements.txt": "numpy==1.21.0\n",
    "requirements-docs.txt": "numpy==1.21.0\n",
    "tools/plots/environment.yml": "dependencies:\n- numpy=1.21.0\n",
    "notebooks/requirements/all.txt": "numpy==1.21.0\n",
    "setup.cfg": "[options.extras_require]\nbenchmark = numpy==1.21.0\n",
    "pyproject.toml": "[project.optional-dependencies]\ndemo = ['numpy==1.21.0']\n",
}


@pytest.mark.parametrize("name", _OF_SCRIPTS)
def test_what_scripts_and_benchmarks_pin_decides_no_version(tmp_path, name):
    files = {name: _OF_SCRIPTS[name], "tests/test_a.py": "import numpy\ndef test(): ...\n", "own/__init__.py": ""}
    assert told(read(tmp_path, files)) == {}
    lists = project_file.read(tmp_path).lists
    assert {text for text, _ in lists} <= {"numpy"}


@pytest.mark.parametrize("name", ["scripts/requirements-test.txt", "requirements-dev.txt", "ci/requirements.txt"])
def test_what_is_for_tests_decides_wherever_it_lies(tmp_path, name):
    assert told(read(tmp_path, {name: "numpy==1.26.4\n"})) == {"numpy": "1.26.4"}


def test_a_package_whose_folder_has_such_a_name_keeps_its_pins(tmp_path):
    files = {"tools/kern/requirements.txt": "numpy==1.26.4\n", "bench/requirements.txt": "numpy==1.21.0\n"}
    assert told(read(tmp_path, files, near=["tools/kern"])) == {"numpy": "1.26.4"}
