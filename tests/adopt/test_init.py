"""`kernel-matrix init` in repositories that know nothing of the harness: what it sees, writes, leaves and refuses."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from common import ROOT
from ruamel.yaml import YAML
from together import by_day

from kernel_matrix import cli
from kernel_matrix.adopt import first_cell, requirements
from kernel_matrix.adopt.lock import Locks, resolve
from kernel_matrix.adopt.project_file import by_extra, metadata_of, why_not_built
from kernel_matrix.adopt.proposal import LOCKS, WORKFLOW, _text, propose
from kernel_matrix.adopt.repository import look
from kernel_matrix.adopt.sources import OWN
from kernel_matrix.adopt.terminal import next_lines
from kernel_matrix.adopt.writing import write
from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.locks import pins
from kernel_matrix.run.progress import Lines
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

PYPROJECT = (
    '[project]\nname = "own-kernels"\nversion = "1.0"\nrequires-python = ">=3.10"\ndependencies = ["numpy>=2"]\n'
)
KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out + place, tl.load(x + place) + tl.load(y + place))
"""
CPU = Machine((Device("cpu", "test", ("x86-64", "x86-64-v2", "x86-64-v3")),))


def lay(root: Path, files: dict[str, str]) -> Path:
    """Write files by their paths, and return their folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def package(tmp_path) -> Path:
    """Return a repository with a package in src, one kernel, and tests."""
    return lay(
        tmp_path / "own",
        {
            "pyproject.toml": PYPROJECT + '[project.optional-dependencies]\ntest = ["pytest>=8"]\ndocs = ["sphinx"]\n',
            "src/own_kernels/__init__.py": "import numpy\n",
            "src/own_kernels/add.py": KERNEL,
            "tests/test_add.py": "import einops\nimport unknown_thing\nfrom own_kernels.add import add\n"
            "def test_add():\n    assert add\n",
        },
    )


@pytest.fixture
def resolved(monkeypatch):
    """Make each lock without the network: every distribution gets the version 1.0."""

    def lock(source, kinds, **_):
        names = [line.partition(">")[0] for line in source.read_text().splitlines() if not line.startswith("#")]
        text = "".join(f"{name}==1.0\n" for name in names)
        return Locks({kind if "torch" in names else "": text for kind in kinds})

    monkeypatch.setattr("kernel_matrix.adopt.lock.resolve", lock)


def init(*words: str) -> int:
    return cli.main(["init", *words])


@pytest.fixture(autouse=True)
def signals(monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)


def test_a_repository_is_seen_without_an_import(package):
    seen = look(package)
    assert (seen.module, seen.source, seen.suite, seen.python) == ("own_kernels", "src", "tests", "3.11")
    assert seen.kernels == ("add",)
    assert seen.toolchains == ("triton", "torch")
    assert [path.name for path in seen.test_files] == ["test_add.py"]
    assert "own_kernels" not in sys.modules


def test_the_environment_has_what_is_declared_imported_and_needed_by_a_job_and_no_more(package):
    lines = requirements.lines(look(package))
    names = [line for line in lines if not line.startswith("#")]
    assert names == ["numpy>=2", "pytest>=8", "einops", "torch", "triton", "ml_dtypes"]
    assert "# the extra 'test'" in lines
    assert lines[-1].endswith(": unknown_thing"), "a name of a distribution is never guessed"


@pytest.mark.parametrize(
    ("distribution", "module"),
    [
        ("absl-py", "absl"),
        ("pyserial", "serial"),
        ("python-jose", "jose"),
        ("PyZMQ", "zmq"),
        ("toposort-python", "toposort"),
    ],
)
def test_a_declared_distribution_that_calls_itself_python_s_has_the_module_of_its_other_name(
    package, distribution, module
):
    (package / "pyproject.toml").write_text(PYPROJECT.replace("numpy>=2", distribution))
    lay(package, {"tests/test_b.py": f"import {module}\nimport {module}_more\ndef test(): ...\n"})
    assert {*requirements.unknown_imports(look(package))} == {f"{module}_more", "unknown_thing"}


def test_the_pytest_of_the_environment_is_one_that_a_job_can_use(package):
    floor = next(line for line in requirements._JOB if line.startswith("pytest"))
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["job"]
    assert floor in extra
    (package / "pyproject.toml").write_text(PYPROJECT + '[dependency-groups]\ntest = ["pytest>=7"]\n')
    lines = requirements.lines(look(package))
    assert [line for line in lines if line.startswith("pytest")] == ["pytest>=7", floor]


def test_kernels_that_have_triton_from_a_module_of_the_package_are_seen(package):
    lay(package, {"src/own_kernels/compiler.py": "try:\n    import triton\nexcept ImportError:\n    triton = None\n"})
    lay(
        package,
        {"src/own_kernels/add.py": KERNEL.replace("import triton\nimport", "from .compiler import triton\nimport")},
    )
    lay(package, {"src/own_kernels/other.py": "from jax import jit\n\n@jit\ndef other(x):\n    return x\n"})
    assert look(package).kernels == ("add",)


def test_kernels_get_triton_where_the_package_does_without_it_if_it_is_not_there(package):
    guarded = KERNEL.replace("import triton\nimport triton.language as tl\n", "")
    guarded = f"try:\n    import triton\n    import triton.language as tl\nexcept ImportError:\n    pass\n{guarded}"
    lay(package, {"src/own_kernels/add.py": guarded})
    lines = requirements.lines(look(package))
    assert "triton" in lines
    assert lines[lines.index("triton") - 1].startswith("# its kernels are written in Triton")


def test_the_proposed_matrix_names_what_the_repository_has(package, resolved):
    files = propose(look(package), CPU)[1]
    assert list(files)[-1] == "matrix.yaml"
    matrix = YAML(typ="safe").load(files["matrix.yaml"])
    assert matrix["package"]["name"] == "own_kernels"
    assert (matrix["package"]["source"], matrix["package"]["suite"]) == ("src", "tests")
    assert matrix["toolchains"]["triton"]["lock"] == f"{LOCKS}/triton.txt"
    assert list(matrix["platforms"]) == ["cpu", "cuda", "rocm"]
    assert matrix["platforms"]["cpu"]["targets"] == ["x86-64-v3"]
    assert matrix["platforms"]["cpu"]["toolchains"][0]["emulated"] is True
    named = [platform["container"] for platform in matrix["platforms"].values()]
    assert {*named, *(f"{LOCKS}/triton.{kind}.txt" for kind in ("cpu", "cuda", "rocm"))} <= set(files)


def test_without_kernels_and_torch_only_the_cpu_is_proposed(package, resolved):
    (package / "src" / "own_kernels" / "add.py").unlink()
    files = propose(look(package), CPU)[1]
    matrix = YAML(typ="safe").load(files["matrix.yaml"])
    assert list(matrix["platforms"]) == ["cpu"]
    assert list(matrix["toolchains"]) == ["python"]
    assert "installer" not in matrix
    assert not [name for name in files if "cuda" in name]


def test_init_writes_every_file_once_and_leaves_what_is_there(package, resolved, capsys):
    lay(package, {f"{OWN}/containers/cpu/Dockerfile": "FROM mine\n"})
    assert init("--root", str(package), "--no-run") == 0
    output = capsys.readouterr().out
    assert f"left {OWN}/containers/cpu/Dockerfile as it is" in output
    assert (package / OWN / "containers" / "cpu" / "Dockerfile").read_text() == "FROM mine\n"
    assert "wrote matrix.yaml" in output
    assert "1 function in Triton: add" in output
    assert "in no list of requirements: unknown_thing" in output
    assert "no git checkout" in output
    assert {path.name for path in (package / LOCKS).glob("*.txt")} == {
        "triton.cpu.txt", "triton.cuda.txt", "triton.rocm.txt"
    }  # fmt: skip


def test_an_existing_matrix_is_refused_and_nothing_is_written(package, capsys):
    (package / "matrix.yaml").write_text("mine\n")
    before = sorted(package.rglob("*"))
    assert init("--root", str(package)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "it is there already, so nothing was written" in line
    assert sorted(package.rglob("*")) == before


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("nowhere", "nothing can be written here: No such file or directory"),
        ("/sys", "nothing can be written here: "),
        ("a-file", "nothing can be written here: Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_written_ends_in_one_sentence(tmp_path, capsys, root, words):
    (tmp_path / "a-file").write_text("")
    assert init("--root", str(tmp_path / root)) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert words in line
    assert captured.out == ""


def test_a_folder_without_a_package_or_without_anything_to_test_ends_in_one_sentence(tmp_path, capsys):
    assert init("--root", str(tmp_path)) == 2
    assert "there is no Python package here" in capsys.readouterr().err
    lay(tmp_path, {"own/__init__.py": "", "README.md": "text"})
    assert init("--root", str(tmp_path)) == 2
    assert (
        "there is nothing to test. Write tests/test_one.py, or name the folder of the tests: --suite FOLDER."
        in capsys.readouterr().err
    )
    assert init("--root", str(tmp_path), "--suite", "own") == 2
    assert "--suite own: there is no file of tests" in capsys.readouterr().err
    assert not (tmp_path / OWN).exists()


@pytest.mark.parametrize(("wheels", "option"), [([], "--torch-backend cpu "), ([("torch", "1.0+cpu")], "")])
def test_kernels_without_tests_get_an_environment_and_the_command_for_launches(
    package, resolved, capsys, monkeypatch, wheels, option
):
    """A folder of wheels that has PyTorch comes before PyTorch's own index, which a machine may not reach."""
    monkeypatch.setattr("kernel_matrix.adopt.terminal.wheels_of", lambda _: wheels)
    (package / "tests" / "test_add.py").unlink()
    assert init("--root", str(package)) == 0
    output = capsys.readouterr().out
    assert not (package / "matrix.yaml").exists()
    assert "\nno test that imports it was found, so no matrix.yaml is written" in output
    assert f"PYTHONPATH={package}/src kernel-matrix launches -- {package}/.venv/bin/python calls.py" in output
    assert f"uv pip install --python {package}/.venv {option}-r {package}/{LOCKS}/triton.cpu.txt" in output


@pytest.mark.parametrize("folder", ["own", "a folder/own"])
@pytest.mark.parametrize("from_inside", [True, False])
def test_each_next_command_is_typed_in_the_present_folder(
    package, resolved, capsys, monkeypatch, tmp_path, folder, from_inside
):
    root = tmp_path / "there" / folder
    root.parent.mkdir(parents=True, exist_ok=True)
    package.rename(root)
    here = root if from_inside else tmp_path / "here"
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    monkeypatch.delenv("KERNEL_MATRIX_START", raising=False)
    assert init(*(() if from_inside else ("--root", f"../there/{folder}")), "--no-run") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next: ")]
    everything, made, needed, launched = (
        line.partition(": ")[2].partition(": ")[2] for line in lines if ": " in line[6:]
    )
    options = cli._parse(shlex.split(everything)[1:])
    assert options.matrix.resolve() == root / "matrix.yaml"
    subprocess.run(["sh", "-ec", made], cwd=here, check=True, capture_output=True)
    assert (root / ".venv" / "bin" / "python").exists()
    assert (here / shlex.split(needed)[-1]).resolve() == root / LOCKS / "triton.cpu.txt"
    [words] = [words for words in [shlex.split(launched)] if words[0].startswith("PYTHONPATH=")]
    python, *program = words[words.index("--") + 1 :]
    paths = [words[0].partition("=")[2], python, program[-1]]
    assert [(here / path).exists() for path in paths] == [True] * 3
    assert program[:2] == ["-m", "pytest"]


@pytest.mark.parametrize(
    ("remote", "local", "named"),
    [("trunk", "main", "trunk"), ("", "master", "master"), ("", "a-feature", "main"), ("", "", "main")],
)
def test_the_written_workflow_runs_after_a_push_to_the_repository_s_own_branch(package, resolved, remote, local, named):
    def git(*words):
        someone = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
        subprocess.run(["git", "-C", package, *someone, *words], check=True, capture_output=True)

    if local:
        git("init", "--initial-branch", local)
        git("add", "--all")
        git("commit", "--message", "first")
    if remote:
        git("update-ref", f"refs/remotes/origin/{remote}", "HEAD")
        git("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{remote}")
    workflow = YAML(typ="safe").load(propose(look(package), CPU)[1][WORKFLOW])
    assert workflow["on"]["push"] == {"branches": [named]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[project\n", "this is not TOML"),
        (PYPROJECT.replace(">=3.10", "<3.9"), "the package asks for Python <3.9"),
    ],
)
def test_a_project_file_that_cannot_be_used_ends_in_one_sentence(package, capsys, text, words):
    (package / "pyproject.toml").write_text(text)
    assert init("--root", str(package)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line


def test_files_that_are_no_python_do_not_stop_it(package, resolved):
    (package / "src" / "own_kernels" / "broken.py").write_text("def (:\n")
    (package / "tests" / "test_bytes.py").write_bytes(b"\xff\x00\x00")
    (package / "tests" / "test_gone.py").symlink_to("nowhere.py")
    assert look(package).kernels == ("add",)
    assert init("--root", str(package), "--no-run") == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.toml", '[pytest]\ntestpaths = ["checks"]\n'),
        ("pytest.ini", "[pytest]\ntestpaths = checks\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = checks\n"),
        ("tox.ini", "[pytest]\ntestpaths =\n    checks\n"),
    ],
)
def test_the_folder_that_pytest_is_configured_with_comes_first(package, name, text):
    lay(package, {"checks/test_one.py": "def test(): ..."})
    assert look(package).suite == "tests"
    (package / name).write_text(text)
    assert look(package).suite == "checks"


@pytest.mark.slow
def test_dependencies_that_a_build_makes_are_read_from_the_build_in_a_copy(tmp_path):
    root = lay(
        tmp_path,
        {
            "setup.py": "from setuptools import setup\nsetup(name='own', version='1', packages=['own'], "
            "install_requires=['numpy>=2', 'tomli; python_version<\"3.11\"'], "
            "extras_require={'test': ['pytest>=8']})\n",
            "own/__init__.py": "",
        },
    )
    before = sorted(root.rglob("*"))
    metadata, origin, note = metadata_of(root)
    assert (metadata["name"], origin, note) == ("own", "the package's own build", "")
    assert by_extra(metadata) == (["numpy>=2"], {"test": ["pytest>=8"]})
    assert sorted(root.rglob("*")) == before, "a build leaves files beside the source"


@pytest.mark.slow
def test_a_package_that_cannot_be_built_is_named_and_does_not_stop_it(tmp_path, resolved, capsys):
    root = lay(
        tmp_path,
        {
            "setup.py": "raise RuntimeError('needs a GPU')\n",
            "own/__init__.py": "import numpy",
            "tests/test_one.py": "def test(): ...",
        },
    )
    assert init("--root", str(root), "--no-run") == 0
    output = capsys.readouterr().out
    words = "What the package depends on is not known, because its source archive cannot be built: "
    assert f"{words}RuntimeError: needs a GPU\n" in output
    assert str(tmp_path.parent / "tmp") not in output


_TRACE = 'Traceback (most recent call last):\n  File "setup.py", line 1, in <module>\n    raise Error(\n'
_UV = """error: Failed to build `own`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_sdist` failed (signal: 9 (SIGKILL))

hint: This error likely indicates that `own` depends on `torch`.

or `uv pip install torch` into the environment and re-run with `--no-build-isolation`."""


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (f"{_TRACE}ModuleNotFoundError: No module named 'torch'\n", "ModuleNotFoundError: No module named 'torch'"),
        (f"{_TRACE}own.Error: no GPU:\n  set CUDA_HOME\nand try again\n", "own.Error: no GPU:"),
        (f"{_TRACE}KeyError: 1\n\nDuring this, another occurred:\n\n{_TRACE}OSError: x\n", "OSError: x"),
        ("warning: old\nerror in own setup command: 'x' must be a list\n    a b\n      ^\n", "error in own setup"),
        ("CMake Error: no nvcc\nplease install CUDA\n", "please install CUDA"),
        ("", "Call to `setuptools.build_meta:__legacy__.build_sdist` failed (signal: 9 (SIGKILL))"),
    ],
)
def test_the_reason_of_a_failed_build_is_the_word_of_what_builds_and_not_of_uv(backend, reason):
    printed = f"$ uv build own\nBuilding source distribution...\n{backend}{_UV}"
    assert why_not_built(printed).startswith(reason)
    assert why_not_built("uv is not here. Install it") == "uv is not here. Install it"


def test_a_lock_is_made_by_uv_and_names_no_build(tmp_path, monkeypatch):
    source, into = tmp_path / "own.in", tmp_path / "own.txt"
    source.write_text("iniconfig>=2\n")
    resolve(source, ["cpu", "cuda"]).write(tmp_path, "own.txt")
    assert set(pins(into)) == {"iniconfig"}
    source.write_text("iniconfig>=2000\n")
    with pytest.raises(UserError, match=r"own\.in cannot be resolved: .*iniconfig"):
        resolve(source, ["cpu", "cuda"]).write(tmp_path, "own.txt")
    assert set(pins(into)) == {"iniconfig"}, "the former lock stays"


def test_the_image_of_the_environments_is_the_one_that_this_repository_uses():
    ours = ROOT / "containers" / "toolchains"
    places = {"locks": "ci/locks", "folder": "containers"}
    assert _text("toolchains.Dockerfile", places) == (ours / "Dockerfile").read_text()
    assert _text("make-environments", places) == (ours / "make-environments").read_text()


def test_the_proposed_workflow_keeps_the_rules_and_pins_what_this_repository_pins(package, resolved):
    sys.path.insert(0, str(ROOT / "ci"))
    from workflow_policy import read, violations

    name = ".github/workflows/kernel-matrix.yml"
    text = propose(look(package), CPU)[1][name]
    ours = "\n".join(read(ROOT).values())
    uses = [line.strip() for line in text.splitlines() if "uses:" in line]
    assert len(uses) == 3
    assert [line for line in uses if line not in ours] == []
    assert violations({name: text}) == []
    assert "run: kernel-matrix run --platform cpu --write-cases build/cases.txt\n" in text
    assert "run: kernel-matrix report --cases build/cases.txt" in text, (
        "what a hosted machine was not asked for is not missing"
    )


@pytest.mark.parametrize("named", ["kernel-matrix==0.9", ""])
def test_the_proposed_workflow_installs_the_harness_from_where_this_one_came(package, resolved, monkeypatch, named):
    monkeypatch.setattr("kernel_matrix.base.installation.requirement", lambda: named)
    text = propose(look(package), CPU)[1][".github/workflows/kernel-matrix.yml"]
    [command] = re.findall(r'pip install "(.*)"', text)
    assert command == named or (not named and command.endswith("github.com/OWNER/kernel-matrix@COMMIT"))
    lock = package / LOCKS / "numpy.txt"
    lock.parent.mkdir(parents=True)
    lock.touch()
    said = "\n".join(next_lines(look(package), lock.relative_to(package)))
    assert ("write the address of kernel-matrix into" in said) == (not named)


def test_what_a_run_writes_is_no_part_of_the_repository(package, resolved):
    (package / ".gitignore").write_text(propose(look(package), CPU)[1][".gitignore"])
    written = [
        "build/site/index.html",
        "kern/__pycache__/add.cpython-311.pyc",
        "kern/__pycache__/add.double-4.py311.1.nbi",
    ]
    subprocess.run(["git", "init", "--quiet", str(package)], check=True)
    assert [*git.ignored(package, [*written, "kern/add.py", "docs/build/x.md"])] == written


@pytest.mark.parametrize(
    ("tool", "module", "source"),
    [
        ('[tool.scikit-build]\nwheel.packages = ["python/fast_gpu"]\n', "fast_gpu", "python"),
        ('[tool.hatch.build.targets.wheel]\npackages = ["lib/fast_gpu"]\n', "fast_gpu", "lib"),
        ('[tool.setuptools.packages.find]\nwhere = ["python"]\n', "fast_gpu", "python"),
        ('[tool.setuptools.package-dir]\n"" = "./python/"\n', "fast_gpu", "python"),
        ('[tool.maturin]\npython-source = "python"\n', "fast_gpu", "python"),
        ('[tool.setuptools.package-dir]\nfast_gpu = "python/fast_gpu"\n', "fast_gpu", "python"),
        ("", "fast_gpu", "python"),  # where scikit-build-core looks without a word
    ],
)
def test_the_package_is_where_its_build_backend_takes_it_from(tmp_path, tool, module, source):
    lay(tmp_path, {f"{'lib' if 'lib/' in tool else 'python'}/fast_gpu/__init__.py": "", "tests/test_a.py": ""})
    lay(tmp_path, {"pyproject.toml": f'[project]\nname = "fast"\nversion = "1"\n{tool}'})
    seen = look(tmp_path)
    assert (seen.module, seen.source) == (module, source)


def test_what_is_written_for_a_package_whose_folder_has_another_name_can_be_used(tmp_path, resolved, capsys):
    tool = '[build-system]\nrequires = ["setuptools"]\n[tool.setuptools.package-dir]\nown_kernels = "."\n'
    files = {"pyproject.toml": PYPROJECT + tool, "__init__.py": KERNEL, "triton/__init__.py": ""}
    root = lay(tmp_path, files | {"tests/test_a.py": "import own_kernels\ndef test(): ...\n"})
    assert init("--root", str(root), "--no-run") == 0
    said = capsys.readouterr().out
    assert f"-r {root}/{LOCKS}/triton.cpu.txt {root}\n" in said, "the environment for launches has the package itself"
    assert "PYTHONPATH" not in said
    package = load(root / "matrix.yaml").package
    assert (package.name, package.source, package.suite) == ("own_kernels", "_package", "tests")
    assert package.build_commands[-1].endswith(" _package")


SETUP = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('own_kernels.a', ['a.cu'])])\n"


def test_a_build_on_a_machine_without_a_gpu_is_told_the_targets_of_cuda(package, resolved):
    (package / "src" / "own_kernels" / "add.py").write_text("")
    for files, told in ({"setup.py": SETUP}, None), ({"a.cu": ""}, {"CUDAARCHS": "90", "TORCH_CUDA_ARCH_LIST": "9.0"}):
        lay(package, files)
        matrix = YAML(typ="safe").load(propose(look(package), CPU)[1]["matrix.yaml"])
        toolchain = matrix["platforms"]["cpu"]["toolchains"][0]
        assert (toolchain["environment"] if told else toolchain) == (told or "python")


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("from jax.experimental import pallas as pl", "pl.pallas_call"),
        ("from jax.experimental.pallas import pallas_call", "pallas_call"),
        ("import jax.experimental.pallas as pl", "pl.kernel"),
        ("import jax.experimental.pallas.tpu", "jax.experimental.pallas.pallas_call"),
    ],
)
def test_kernels_in_pallas_run_in_its_interpreter_on_a_cpu(package, resolved, statement, call):
    body = f"{statement}\ndef add(x):\n    return {call}(kernel)(x)\n"
    (package / "src" / "own_kernels" / "add.py").write_text(f"import jax\n{body}")
    matrix = YAML(typ="safe").load(propose(look(package), CPU)[1]["matrix.yaml"])
    toolchain = matrix["platforms"]["cpu"]["toolchains"][0]
    assert toolchain["emulated"] is True
    assert toolchain["environment"] == {"KERNEL_MATRIX_PALLAS_INTERPRET": "1"}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"test_a.py": 'import os\nos.environ["JAX_ENABLE_X64"] = "1"\nimport jax\n'}, {"JAX_ENABLE_X64": "1"}),
        (
            {"conftest.py": "from os import environ\nenviron.setdefault('JAX_PLATFORMS', 'cpu')\n"},
            {"JAX_PLATFORMS": "cpu"},
        ),
        (
            {"test_a.py": "os.environ['XLA_FLAGS']='--a=2'\n", "conftest.py": 'os.environ["XLA_FLAGS"] = "--a=1"\n'},
            {"XLA_FLAGS": "--a=1"},
        ),
        ({"test_a.py": "def test():\n    os.environ['JAX_ENABLE_X64'] = '1'\n"}, {}),
        ({"test_a.py": "os.environ['OWN'] = '1'\nos.environ['JAX_ENABLE_X64'] = str(1)\n"}, {}),
    ],
)
def test_what_tests_tell_jax_before_they_import_it_is_told_to_a_lane_that_imports_it_sooner(
    package, resolved, files, told
):
    (package / "src" / "own_kernels" / "add.py").write_text(
        "from jax.experimental import pallas\nadd = pallas.pallas_call(f)\n"
    )
    for name, text in files.items():
        (package / "tests" / name).write_text(text)
    matrix = YAML(typ="safe").load(propose(look(package), CPU)[1]["matrix.yaml"])
    environment = matrix["platforms"]["cpu"]["toolchains"][0]["environment"]
    assert environment == {"KERNEL_MATRIX_PALLAS_INTERPRET": "1", **told}


@pytest.mark.parametrize(
    ("version", "needed"), [("3.4", "cmake<4"), ("3.5", "cmake"), ("3.1...3.20", "cmake"), ("3.18.2", "cmake")]
)
def test_a_project_that_cmake_4_does_not_read_gets_an_earlier_one(tmp_path, version, needed):
    text = f"cmake_minimum_required(VERSION {version} FATAL_ERROR)\nproject(own)\nenable_testing()\n"
    lay(tmp_path, {"CMakeLists.txt": text})
    assert needed in requirements.lines(look(tmp_path))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("*.pyc", "*.pyc\n/build/\n", "wrote /build/ into .gitignore"),
        ("dist/\nbuild\n", "dist/\nbuild\n", "left .gitignore as it is"),
        ("build/*\n", "build/*\n", "left .gitignore as it is"),
        ("**/build/**\n", "**/build/**\n", "left .gitignore as it is"),
        ("**/build\n", "**/build\n", "left .gitignore as it is"),
        ("build/**\n", "build/**\n", "left .gitignore as it is"),
        ("builds/*\n!build\n", "builds/*\n!build\n/build/\n", "wrote /build/ into .gitignore"),
        (None, "/build/\n", "wrote .gitignore"),
    ],
)
def test_the_folder_of_results_is_ignored_also_where_there_are_rules(tmp_path, before, after, said):
    if before is not None:
        (tmp_path / ".gitignore").write_text(before)
    assert write(tmp_path, {".gitignore": "/build/\n"}) == [said]
    assert (tmp_path / ".gitignore").read_text() == after


_SKIPPED = "import pytest\n@pytest.mark.skip(reason='needs a GPU')\ndef test(): ...\n"
_GONE = "import nothing_such\ndef test(): ...\n"
_SKIPS = "import pytest\npytest.skip('no GPU', allow_module_level=True)\ndef test(): ...\n"
_NO_GPU = "raise RuntimeError('own requires a CUDA GPU but none was detected')\ndef test(): ...\n"


def _at_night(*values: object):
    """Return the values of a parameter that another one of the same test stands for in each run."""
    return pytest.param(*values, marks=pytest.mark.nightly)


_NONE, _SILENT = "no test of the suite could be collected, so none has run", "No test has run on this machine"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ({"test_a.py": "def test_one(): ...\ndef test_two(): ..."}, 0, ["test_a.tests: its first 2 tests", "2 held"]),
        ({"test_a.py": "def test(): assert False"}, 1, ["test_a.tests: its first 1 test", "1 fail"]),
        _at_night({"test_a.py": _GONE}, 1, ["test_a.tests", _NONE, "No module named 'nothing_such'"]),
        (
            {"test_a.py": _GONE, "test_b.py": "def test(): ..."},
            1,
            ["test_b.tests: its first 1 test", "1 error"],
        ),
        ({"test_a.py": "def helper(): ..."}, 2, ["pytest finds no test in tests/test_a.py"]),
        _at_night({"test_a.py": "def test(): ...", "conftest.py": "raise RuntimeError('odd')"}, 1, [_NONE, "odd"]),
        ({"test_a.py": "import os\nos.kill(os.getpid(), 9)\ndef test(): ..."}, 1, [_NONE, "SIGKILL"]),
        _at_night({"test_a.py": _SKIPS}, 1, [_NONE, "no GPU", _SILENT]),
        ({"test_a.py": _NO_GPU}, 1, [_NONE, "requires a CUDA GPU", _SILENT]),
        _at_night({"test_a.py": _SKIPPED}, 1, ["test_a.tests: its first 1 test", "needs a GPU", _SILENT]),
        ({"test_a.py": _SKIPPED, "test_b.py": "def test(): ..."}, 0, ["test_b.tests: its first 1 test", "1 held"]),
    ],
    ids=[
        "held",
        "fail",
        "import",
        "one-file",
        "empty",
        "conftest",
        "killed",
        "module",
        "no-gpu",
        "skipped",
        "next-file",
    ],
)
def test_the_first_cell_is_a_test_that_runs_and_without_one_init_is_no_success(
    tmp_path, resolved, monkeypatch, capsys, files, status, words
):
    monkeypatch.setattr(first_cell, "_EXECUTOR", "current")
    root = lay(tmp_path, {"own/__init__.py": "", **{f"tests/{name}": text for name, text in files.items()}})
    assert init("--root", str(root)) == status
    said = capsys.readouterr()
    assert [word for word in words if word not in said.out + said.err] == []
    assert ("page: " in said.out) == (status != 2)
    if status != 2:
        is_idle = "do not require its status yet" in said.out
        assert ("next: mend what is red above" in said.out) == (_SILENT in said.out and not is_idle)
        page = (root / "build/site/compat.json").read_text()
        assert {*re.findall(r'"stale_cases": (\d+)', page)} == {"0"}, "no result of the first cell is stale"


_IDLE = {
    "a module": "import pytest\npytest.importorskip('cupy')\ndef test(): ...\n",
    "a marker": "import pytest\n@pytest.mark.gpu\ndef test(): ...\n",
    "a mark of the file": "from pytest import mark\npytestmark = mark.skipif(1, reason='needs a GPU')\ndef test(): ...",
    "a mark of a test": "import pytest\n@pytest.mark.skipif(True, reason='no CUDA')\ndef test(): ...\n",
    "a fixture": "import pytest\n@pytest.fixture(autouse=True)\ndef f(): pytest.skip('no device')\ndef test(): ...\n",
    "a library": "import ctypes\nctypes.CDLL('libcuda.so.1')\ndef test(): ...\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", by_day(3, ["one that runs", *_IDLE, "another module"]))
def test_a_suite_that_only_a_gpu_can_run_gets_the_ways_out_and_no_demand_on_its_status(
    tmp_path, resolved, monkeypatch, capsys, name
):
    monkeypatch.setattr(first_cell, "_EXECUTOR", "current")
    test = _IDLE.get(name, "import pytest\npytest.importorskip('nothing_such')\ndef test(): ...\n")
    files = {"own/__init__.py": "", "tests/test_a.py": test}
    files["pytest.ini"] = "[pytest]\naddopts = -m 'not gpu'\nmarkers = gpu\n"
    files |= {"tests/test_b.py": "def test(): ...\n"} if name == "one that runs" else {}
    root = lay(tmp_path, files)
    assert init("--root", str(root)) == (name != "one that runs")
    said = capsys.readouterr().out
    ways = ["a runner of your own runs them", "kernel-matrix launches -- python calls.py"]
    assert [way in said for way in ways] == [name in _IDLE] * 2
    is_idle = name != "one that runs"
    assert ("do not require its status yet" in said) == is_idle
    workflow = (root / WORKFLOW).read_text()
    assert ("# For merging, require the status" in workflow, "# Do not require" in workflow) == (not is_idle, is_idle)


_SLOW = "import time\ndef test(): time.sleep(60)\n"
_QUICK = "def test(): ...\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        _at_night({"test_a.py": _SLOW}, 1, ["the time is over", _SILENT]),
        _at_night({"test_a.py": _QUICK + _SLOW.replace("test()", "test_slow()")}, 0, ["1 held", "the time is over"]),
        (
            {"test_a.py": _SLOW, "test_b.py": _QUICK},
            0,
            ["test_b.tests: its first 1 test", "1 held", "the time is over"],
        ),
        ({"test_a.py": "def test(): assert False\n" + _SLOW.replace("test()", "test_slow()")}, 1, ["the time is over"]),
    ],
    ids=["none", "the-second", "next-file", "a-failure-before"],
)
def test_the_first_cell_has_an_end_and_says_what_to_do(tmp_path, resolved, monkeypatch, capsys, files, status, words):
    monkeypatch.setattr(first_cell, "_EXECUTOR", "current")
    monkeypatch.setattr(first_cell, "SECONDS", 15 * len(files))
    monkeypatch.setattr(first_cell, "_TRIAL", 5)
    root = lay(tmp_path, {"own/__init__.py": "", **{f"tests/{name}": text for name, text in files.items()}})
    assert init("--root", str(root)) == status
    said = capsys.readouterr().out
    assert [word for word in words if word not in said] == []
    assert "gives the build 3600 s and each test 300 s (`limits` in matrix.yaml)" in said


_MANY = "import time, pytest\n@pytest.mark.parametrize('n', range(20))\ndef test(n): {}\n"
_LONG = {
    "each": ({"test_a.py": _MANY.format("time.sleep(0.3)")}, range(3, 10)),
    "another file": ({"test_a.py": _QUICK, "test_b.py": _MANY.format("time.sleep(0.3)")}, range(3, 12)),
    "a few": ({"test_a.py": _MANY.format("time.sleep(1.5 * (n % 5 == 0))")}, range(2, 15)),
    "a fixture": (
        {"test_a.py": _MANY.format(...), "conftest.py": "import time, pytest\n@pytest.fixture(autouse=True)\n"
         "def slow(): time.sleep(0.3)\n"},
        range(3, 10),
    ),
    "no end": ({"test_a.py": _QUICK, "test_b.py": _MANY.format("time.sleep(9)")}, range(1, 3)),
    "quick": ({"test_a.py": _MANY.format(...)}, None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["each", "no end", *map(_at_night, ("another file", "a few", "a fixture", "quick"))])
def test_a_suite_that_takes_long_gets_a_sample_for_the_quick_tier_and_each_page_says_so(
    tmp_path, resolved, monkeypatch, capsys, name
):
    files, sizes = _LONG[name]
    monkeypatch.setattr(first_cell, "_EXECUTOR", "current")
    monkeypatch.setattr(first_cell, "_TRIAL", 6)
    monkeypatch.setattr(first_cell, "_WHOLE", 2)
    root = lay(tmp_path, {"own/__init__.py": "", **{f"tests/{name}": text for name, text in files.items()}})
    assert init("--root", str(root)) == 0
    said = capsys.readouterr().out
    assert ("none that did is red" in said) == (name == "no end")
    assert "missing: " not in said
    sample = load(root / "matrix.yaml").package.sample
    assert sample in sizes if sizes else sample is None
    assert ("--tier full\n" in said.partition("next: ")[2]) == bool(sample)
    if name == "each":
        matrix = ["matrix", "--matrix", str(root / "matrix.yaml"), "--executor", "current"]
        assert cli.main(matrix) == 0
        words = f"A sample: {sample} of the 20 tests"
        texts = [capsys.readouterr().out, *((root / f"build/site/{name}").read_text() for name in _PAGES)]
        assert [words in text for text in texts] == [True] * len(texts)
        assert cli.main([*matrix, "--tier", "full"]) == 0
        said = capsys.readouterr().out
        assert "20 cases: 20 held" in said
        assert "A sample" not in said


_PAGES = ("compat.json", "summary.md")


@pytest.mark.slow
@pytest.mark.parametrize("test", ["def test(): assert 0\n", *map(_at_night, (_GONE, "raise OSError('odd')\n"))])
def test_what_is_red_behind_the_first_tests_is_red_in_init_too(tmp_path, resolved, monkeypatch, capsys, test):
    monkeypatch.setattr(first_cell, "_EXECUTOR", "current")
    root = lay(tmp_path, {"own/__init__.py": "", "tests/test_a.py": _MANY.format(...), "tests/test_b.py": test})
    assert init("--root", str(root)) == 1
    said = capsys.readouterr().out
    assert "test_a.tests: its first 3 tests" in said
    assert "10 tests spread over the suite" in said
    assert "test_b.tests" in said


def test_a_build_in_init_has_an_end_too(package, resolved, monkeypatch):
    assert init("--root", str(package), "--no-run") == 0
    seen = []
    monkeypatch.setattr(
        "kernel_matrix.pipeline.collect_tests",
        lambda project, *_: seen.append(project.matrix.limits.build) or project,
    )
    project, _, is_test = first_cell.choose(package / "matrix.yaml", CPU, Lines())
    assert (seen, project.matrix.limits.build, is_test) == ([600], 3600, False)


_MEMBER = '[project]\nname = "{}"\nversion = "1"\ndependencies = {}\n'


def _workspace(root: Path, sources: str) -> Path:
    """Lay a workspace with two members, of which the kernels need the other."""
    tables = (
        f"[tool.uv.sources]\n{sources}\n[tool.uv.workspace]\nmembers = ['packages/*']\nexclude = ['packages/old']\n"
    )
    return lay(
        root,
        {
            "pyproject.toml": _MEMBER.format("all", '["own-kernels"]') + tables,
            "packages/core/pyproject.toml": _MEMBER.format("Own_Core", '["einops", "own-kernels"]'),
            "packages/core/src/own_core/__init__.py": "",
            "packages/kernels/pyproject.toml": _MEMBER.format("own-kernels", '["own-core>=1", "numpy"]'),
            "packages/kernels/src/own_kernels/__init__.py": "import own_core\n",
            "packages/kernels/tests/test_a.py": "def test(): ...",
            "packages/old/pyproject.toml": _MEMBER.format("old", "[]"),
        },
    )


def test_at_the_root_of_a_workspace_init_asks_for_a_member(tmp_path, capsys):
    root = _workspace(tmp_path, "own-kernels = { workspace = true }")
    assert init("--root", str(root)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("Name one: --root packages/core or --root packages/kernels.")
    assert not (root / OWN).exists()


@pytest.mark.parametrize(
    "sources",
    [
        "own-core = { workspace = true }\nown-kernels = { workspace = true }",
        "own_core = [{ workspace = true, marker = \"sys_platform == 'linux'\" }]\nown-kernels = { workspace = true }",
        'own-core = { path = "packages/core", editable = true }\nown-kernels = { workspace = true }',
    ],
)
def test_what_lies_in_a_folder_is_asked_of_no_index_and_what_it_needs_is(tmp_path, resolved, capsys, sources):
    root = _workspace(tmp_path, sources) / "packages" / "kernels"
    assert init("--root", str(root), "--no-run") == 0
    output = capsys.readouterr().out
    lines = (root / LOCKS / "python.in").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["einops", "numpy", "pytest>=8", "ml_dtypes"]
    assert "no index is asked for own-core, which lies in ../core: `build` in matrix.yaml can install it" in output
    assert "in no list of requirements" not in output


def test_a_requirement_with_the_address_of_a_folder_is_asked_of_no_index(tmp_path):
    root = lay(
        tmp_path / "own",
        {
            "pyproject.toml": _MEMBER.format("own", '["helper @ file:///srv/helper", "numpy"]'),
            "own/__init__.py": "import helper\n",
            "tests/test_a.py": "def test(): ...",
        },
    )
    seen = look(root)
    assert [text for text, _ in seen.project.needs] == ["numpy"]
    assert seen.project.local == ("helper",)
    assert requirements.unknown_imports(seen) == []


@pytest.mark.parametrize(("choice", "offered"), [("newest", True), ("repository", False)])
def test_where_the_newest_versions_are_red_those_that_the_repository_pins_are_offered(
    tmp_path, resolved, monkeypatch, capsys, choice, offered
):
    monkeypatch.setattr("kernel_matrix.adopt.commands.init._run", lambda _: (1, None, True))
    files = {"own/__init__.py": "", "tests/test_a.py": "def test(): ...", "constraints.txt": "numpy==2.2.5\n"}
    assert init("--root", str(lay(tmp_path / "o n", files)), "--pins", choice) == 1
    words = "next: the versions that the repository pins, if the newest are at fault: "
    assert (words in capsys.readouterr().out) == offered
