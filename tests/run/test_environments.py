"""An environment gets the build of a distribution for its kind of machine."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernel_matrix.config.model import Installer, Matrix
from kernel_matrix.run.container import places
from kernel_matrix.run.environments.builds import is_among, pin_of
from kernel_matrix.run.environments.venv import demand_unchanged, of_image, share_bytecode, state_of, variables_for
from kernel_matrix.run.executors import InstallError
from kernel_matrix.run.job_run import why_not_installed

INSTALLER = Installer(builds_of="Many_Builds", cpu={"UV_TORCH_BACKEND": "cpu"}, gpu={"UV_TORCH_BACKEND": "auto"})


@pytest.fixture
def lock(tmp_path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text("numpy==2.4.6\nmany-builds==1.0 ; python_version > '3'\n    # via nothing\n")
    return path


def wheel(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    path, about = folder / f"many_builds-{version}-py3-none-any.whl", f"many_builds-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: many-builds\nVersion: {version}\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return path


def test_the_pin_is_found_whichever_way_its_name_is_written(lock):
    assert pin_of(INSTALLER, lock.read_text()) == "many-builds==1.0"
    assert pin_of(INSTALLER, "many-builds-of-another==1.0\n") is None
    assert pin_of(Installer(), lock.read_text()) is None, "without a section it is PyTorch"
    assert pin_of(Installer(), "Torch==2.13.0\n") == "Torch==2.13.0"


def test_a_machine_with_a_gpu_takes_the_gpu_s_build(lock):
    assert variables_for(INSTALLER, Path(sys.executable), lock, "cuda") == INSTALLER.gpu


def test_a_machine_without_one_takes_the_wheel_that_is_configured_and_else_the_cpu_s_build(lock, tmp_path, monkeypatch):
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    wheel(tmp_path / "wheels", "2.0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert variables_for(INSTALLER, Path(sys.executable), lock) == INSTALLER.cpu
    fitting = wheel(tmp_path / "wheels", "1.0")
    assert variables_for(INSTALLER, Path(sys.executable), lock) == {}
    assert is_among(INSTALLER, [fitting])
    assert not is_among(INSTALLER, [Path("numpy-2.4.6-py3-none-any.whl")])


def test_a_lock_without_that_distribution_needs_no_variables(lock):
    lock.write_text("numpy==2.4.6\n")
    assert variables_for(INSTALLER, Path(sys.executable), lock, "cuda") == {}


def test_the_project_says_which_distribution_that_is(matrix: Matrix):
    assert matrix.installer.builds_of == "torch"


def imported(packages: Path, bytecode: Path) -> tuple[str, ...]:
    """Import a package in a new process; return its value, its file, and the files with bytecode of it."""
    code = "import thing; from thing import part; print(part.VALUE, part.value.__code__.co_filename)"
    variables = {"PYTHONPATH": str(packages), "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return tuple(done.stdout.split())


@pytest.fixture
def packages(tmp_path) -> list[Path]:
    """Return the folders of packages of two environments, whose files are links to the same ones, as uv makes them."""
    made = [tmp_path / "envs" / name / "lib" / "python3" / "site-packages" for name in ("one", "two")]
    for folder in made:
        (folder / "thing").mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("part.py", "VALUE = 1\ndef value(): return VALUE\n")):
        (made[0] / "thing" / name).write_text(text)
        (made[1] / "thing" / name).hardlink_to(made[0] / "thing" / name)
    return made


def compiled(bytecode: Path) -> list[Path]:
    return sorted(path for path in bytecode.rglob("part.*.pyc") if not path.is_symlink())


def test_environments_with_the_same_files_share_their_bytecode(packages, tmp_path):
    bytecode = tmp_path / "bytecode"
    for folder in packages:
        share_bytecode(folder.parents[2], bytecode)
        share_bytecode(folder.parents[2], bytecode)  # a second time changes nothing
    assert imported(packages[0], bytecode) == ("1", str(packages[0] / "thing" / "part.py"))
    [only] = compiled(bytecode)
    time = only.stat().st_mtime_ns
    assert imported(packages[1], bytecode) == ("1", str(packages[1] / "thing" / "part.py")), (
        "an error names its own file"
    )
    assert [(path, path.stat().st_mtime_ns) for path in compiled(bytecode)] == [(only, time)]


def test_a_file_that_was_changed_in_one_environment_is_compiled_anew(packages, tmp_path):
    bytecode = tmp_path / "bytecode"
    for folder in packages:
        share_bytecode(folder.parents[2], bytecode)
    assert imported(packages[0], bytecode)[0] == "1"
    changed = packages[1] / "thing" / "part.py"
    changed.unlink()
    changed.write_text("VALUE = 23\ndef value(): return VALUE\n")
    assert [imported(folder, bytecode)[0] for folder in packages] == ["1", "23"]


def test_copied_files_and_other_versions_have_bytecode_of_their_own(packages, tmp_path):
    for path in (packages[1] / "thing").iterdir():
        text = path.read_text()
        path.unlink()
        path.write_text(text)
    bytecode = tmp_path / "bytecode"
    for folder in packages:
        share_bytecode(folder.parents[2], bytecode)
        imported(folder, bytecode)
    assert len(compiled(bytecode)) == 2


@pytest.mark.parametrize("change", ["a new .pth", "a module", "a removed module", "nothing", "data", "bytecode"])
def test_an_environment_whose_code_was_changed_is_not_used(tmp_path, change):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "thing" / "__pycache__").mkdir(parents=True)
    (packages / "thing" / "__init__.py").write_text("VALUE = 1\n")
    (tmp_path / "complete").write_text(state_of(tmp_path))
    match change:
        case "a new .pth":
            (packages / "a.pth").write_text("import thing\n")
        case "a module":
            (packages / "thing" / "__init__.py").write_text("VALUE = 12\n")
        case "a removed module":
            (packages / "thing" / "__init__.py").unlink()
        case "data":
            (packages / "thing" / "tuned.json").write_text("{}")
        case "bytecode":
            (packages / "thing" / "__pycache__" / "a.py").write_text("")
    if change in ("nothing", "data", "bytecode"):
        demand_unchanged(tmp_path)
    else:
        with pytest.raises(InstallError, match="was changed since it was installed"):
            demand_unchanged(tmp_path)


@pytest.mark.parametrize(
    ("made_from", "kind", "is_writable", "is_taken"),
    [
        ("cpu\n{lock}", "cpu", False, True),
        ("cuda\n{lock}", "cuda", False, True),
        ("cpu\n{lock}", "cuda", False, False),
        ("cpu\n{lock}# another line\n", "cpu", False, False),
        ("{lock}", "cpu", False, False),
        (None, "cpu", False, False),
        ("cpu\n{lock}", "cpu", True, False),
    ],
    ids=["same", "a GPU's", "another kind", "another lock", "no kind", "no image", "a job could change it"],
)
def test_an_image_s_environment_is_taken_if_it_is_of_this_lock(
    lock, tmp_path, monkeypatch, made_from, kind, is_writable, is_taken
):
    python = tmp_path / "opt" / "lock" / "bin" / "python"
    python.parent.mkdir(parents=True)
    monkeypatch.setattr(places, "python_of", lambda _: str(python))
    monkeypatch.setattr(os, "access", lambda *_: is_writable)
    if made_from is not None:
        (python.parents[1] / places.MADE_FROM).write_text(made_from.format(lock=lock.read_text()))
    assert of_image(lock, kind) == (python if is_taken else None)


_NO_NAME = "failed to lookup address information: Name or service not known"


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("$ uv pip install\nerror: no such option", "error: no such option"),
        (
            "the build has failed: it ended with status 1: #error no",
            "the build has failed: it ended with status 1: #error no",
        ),
        (
            f"error: Request failed\n  cause: Failed to fetch: https://a.example/six/\n  cause: {_NO_NAME}",
            f"Failed to fetch: https://a.example/six/: {_NO_NAME}",
        ),
        (
            "Resolved 9 packages\nerror: Failed to download `torch==2.11.0`\n  Caused by: no space left on device",
            "error: Failed to download `torch==2.11.0`: no space left on device",
        ),
        ("error: it cannot be read\n  cause: Is a directory", "Is a directory"),
        ("error: Failed to build `own`\n\n  hint: it needs nvcc", "error: Failed to build `own` (hint: it needs nvcc)"),
        (
            "error: Failed to build `scipy==1.6.1`\n  cause: Call to `build` failed (status: 1)\n\nhint: see above",
            "error: Failed to build `scipy==1.6.1`: Call to `build` failed (status: 1) (hint: see above)",
        ),
    ],
)
def test_why_there_is_no_environment_names_what_it_is_about(printed, said):
    assert why_not_installed(printed) == said
