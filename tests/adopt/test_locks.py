"""A lock is right if every build that is installed from it can be, and brings what it pins."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix import cli
from kernel_matrix.adopt import verify
from kernel_matrix.adopt.lock import resolve
from kernel_matrix.adopt.pinned.pin import exact
from kernel_matrix.adopt.pinned.repository import Pins
from kernel_matrix.adopt.uv_compile import stand_in
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config import locks
from kernel_matrix.config.load import load_unchecked
from kernel_matrix.config.lock_faults import _of_file, faults_of, lock_differences, lock_faults
from kernel_matrix.config.model import Installer, Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.doctor.build_checks import build_findings
from kernel_matrix.run.decide import preview
from kernel_matrix.run.environments.builds import chosen_build
from kernel_matrix.run.environments.venv import install
from kernel_matrix.run.executors import InstallError, Request, UnavailableError
from kernel_matrix.vendors import builds
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

MACHINE = "x86_64-manylinux_2_36"


def allowed(one: Requirement) -> str:
    """Return a version that a requirement allows."""
    named = [spec.version for spec in one.specifier if spec.operator in ("==", "~=", ">=")]
    return named[0] if named else ("81.0" if one.specifier else "1.0")


def pinned(kind: str, version: str, **others: str | None) -> dict[str, str]:
    """Return pins that are right for a build; ``others`` are other versions, and None takes one away."""
    pins = dict.fromkeys(builds.brought_by(builds.requirements_of(kind, version)), "1.0")
    pins |= {one.name: allowed(one) for one in builds.requirements_of(kind, version)}
    changes = {name.replace("_", "-"): value for name, value in others.items()}
    return {name: value for name, value in ({"torch": version, **pins} | changes).items() if value is not None}


def said(kind: str, version: str, *, with_gpu: bool = False, **others: str | None) -> str:
    return "; ".join(faults_of(pinned(kind, version, **others), kind, with_gpu=with_gpu))


@pytest.mark.parametrize("kind", builds.kinds())
def test_what_the_table_knows_of_a_build_is_what_a_right_lock_pins(kind):
    assert {version: said(kind, version, with_gpu=True) for version in builds.versions_of(kind)} == dict.fromkeys(
        builds.versions_of(kind), ""
    )


FAULTS = {
    "another triton": (
        ("cuda", "2.13.0", {"triton": "3.6.0"}),
        "torch 2.13.0 for cuda asks for triton==3.7.1, and the lock pins 3.6.0",
    ),
    "a range": (
        ("cuda", "2.14.0", {"triton": "3.9.0"}),
        "torch 2.14.0 for cuda asks for triton~=3.8.0, and the lock pins 3.9.0",
    ),
    "what only the GPU's build brings": (
        ("cuda", "2.13.0", {"nvidia_cudnn_cu13": None}),
        "torch 2.13.0 for cuda brings nvidia-cudnn-cu13==9.20.0.48, and the lock does not pin it",
    ),
    "what that brings in turn": (
        ("cuda", "2.13.0", {"nvidia_cufft": None, "cuda_pathfinder": None}),
        "torch 2.13.0 for cuda brings nvidia-cufft, cuda-pathfinder, and the lock does not pin them",
    ),
    "triton beside triton-rocm": (
        ("rocm", "2.13.0", {"triton": "3.7.1"}),
        "triton writes the same folder as triton-rocm, which torch for rocm brings",
    ),
    "only NVIDIA's triton on ROCm": (
        ("rocm", "2.13.0", {"triton": "3.6.0", "triton_rocm": None}),
        (
            "triton writes the same folder as triton-rocm, which torch for rocm brings; "
            "torch 2.13.0 for rocm brings triton-rocm==3.7.1, and the lock does not pin it"
        ),
    ),
    "an old name": (
        ("rocm", "2.9.1", {"triton_rocm": "3.5.1", "pytorch_triton_rocm": None}),
        (
            "triton-rocm writes the same folder as pytorch-triton-rocm, which torch for rocm brings; "
            "torch 2.9.1 for rocm brings pytorch-triton-rocm==3.5.1, and the lock does not pin it"
        ),
    ),
    "a fork of triton beside it": (
        ("cpu", "2.13.0", {"triton": "3.7.1", "triton_ascend": "3.2.0"}),
        "triton-ascend writes the same folder as triton",
    ),
    "a build of another kind": (("cuda", "2.13.0", {"torch": "2.13.0+cpu"}), "torch 2.13.0+cpu is no build for cuda"),
    "an index that cannot be satisfied": (
        ("xpu", "2.13.0", {"torch": "2.14.0"}),
        (
            "nobody has written down what torch 2.14.0 for xpu asks for. `kernel-matrix doctor` asks its index, "
            "where it answers"
        ),
    ),
    "outside of the table": (
        ("cuda", "2.15.0", {"torch": "3.1.0"}),
        (
            "nobody has written down what torch 3.1.0 for cuda asks for. `kernel-matrix doctor` asks its index, "
            "where it answers"
        ),
    ),
    "a library for Python": (
        ("cpu", "2.12.0", {"setuptools": "82.0"}),
        "torch 2.12.0 for cpu asks for setuptools<82, and the lock pins 82.0",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_lock_that_is_wrong_is_found_without_a_network(name):
    (kind, version, others), sentence = FAULTS[name]
    assert said(kind, version, **others) == sentence


def test_a_cpu_that_would_test_another_triton_than_a_gpu_has_is_told_where_somebody_has_a_gpu():
    assert said("cpu", "2.13.0", triton="3.9.0") == ""
    assert said("cpu", "2.13.0", triton="3.9.0", with_gpu=True) == (
        "a CPU would test triton 3.9.0; who has torch 2.13.0 for a GPU has triton==3.7.1"
    )


def test_a_local_version_of_its_own_kind_is_a_build_of_it():
    for kind, version in (("cpu", "2.13.0+cpu"), ("cuda", "2.13.0+cu130"), ("rocm", "2.13.0+rocm7.2")):
        assert said(kind, "2.13.0", torch=version) == ""
    assert builds.is_of_another("2.13.0+xpu", "cuda")
    assert builds.is_of_another("2.13.0+cpu.cxx11.abi", "cuda")
    assert not builds.is_of_another("2.13.0", "rocm"), "a lock names no build"


def test_a_lock_for_many_machines_is_read_as_it_is_on_linux():
    text = (
        "Torch==2.13.0\ntriton==3.6.0 ; sys_platform == 'win32'\ntriton==3.7.1 ; sys_platform == 'linux' # by uv\n"
        "numpy==2.2.6 ; python_full_version < '3.11'\nnumpy==2.3.5 ; python_full_version == '3.11.*'\n"
        "numpy==2.4.6 ; python_full_version >= '3.12' \\\n    --hash=sha256:00\nopt_einsum[x]==1.0 ; extra == 'x'\n"
    )
    pins = {"torch": "2.13.0", "triton": "3.7.1", "numpy": "2.3.5"}
    assert {name: version for name, version in locks.pins_in(text).items() if name != "opt-einsum"} == pins


def test_a_requirement_that_is_no_pin_floats():
    text = "# a lock\nnumpy>=2 # why\ntorch==2.13.*\nfilelock\nsympy==1.14.0\nown @ https://a.b/own.whl\n-r more.txt\n"
    assert locks.floating_in(text) == ["numpy>=2", "torch==2.13.*", "filelock"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch==2.13.0\ntorch==2.9.0\n", {"torch": ["2.13.0", "2.9.0"]}),
        ("Flash_Attn==1.0\nflash-attn[x] === 1.1 # by hand\n", {"flash-attn": ["1.0", "1.1"]}),
        ("numpy==2.4.6\nnumpy==2.2.6 ; python_version < '3.12'\n", {"numpy": ["2.4.6", "2.2.6"]}),
        ("numpy==2.4.6 ; python_version >= '3.12'\nnumpy==2.2.6 ; python_version < '3.12' \\\n  --hash=sha256:0\n", {}),
        ("torch==2.13.0\ntorch @ https://a.b/torch.whl\n", {"torch": ["2.13.0", "https://a.b/torch.whl"]}),
        ("triton==3.7.1 ; sys_platform == 'linux'\ntriton==3.6.0 ; sys_platform == 'win32'\n", {}),
        ("numpy==2.0\nnumpy==2.0.0\n# numpy==3\n", {}),
    ],
)
def test_a_distribution_that_is_pinned_twice_is_named(tmp_path, text, wanted):
    assert locks.twice_in(text) == wanted
    (tmp_path / "a.txt").write_text(text)
    found = [
        fault for fault in _of_file(tmp_path / "a.txt", "cpu", with_gpu=False, lock="a.txt") if " times: " in fault
    ]
    assert [fault.partition(". Make it")[0] for fault in found] == [
        f"it pins {name} 2 times: {', '.join(versions)}" for name, versions in wanted.items()
    ]


def test_every_build_for_cuda_asks_for_the_same_triton():
    with_cuda_12 = {"torch": "2.13.0+cu126", "triton": "3.7.1", "nvidia-cudnn-cu12": "9.10.2.21"}
    assert list(faults_of(with_cuda_12, "cuda")) == []
    assert list(faults_of({**with_cuda_12, "triton": "3.6.0"}, "cuda")) == [
        "torch 2.13.0+cu126 for cuda asks for triton==3.7.1, and the lock pins 3.6.0"
    ]


def test_who_asks_for_triton_may_have_it_by_the_name_of_his_machine():
    assert satisfies(["triton==3.7.*"], {"triton-rocm": "3.7.1"})
    assert satisfies(["Triton>=3.5"], {"pytorch_triton_rocm": "3.5.1"})
    assert not satisfies(["triton==3.7.*"], {"triton-xpu": "3.6.0"})
    assert not satisfies(["triton==3.7.*"], {"triton-ascend": "3.7.1"}), "a fork is another program"
    assert not satisfies(["triton==3.6.*"], {"triton": "3.6.0", "triton-rocm": "3.7.1"}), "one wrote over the other"
    assert not satisfies(["triton-rocm"], {"triton": "3.7.1"})


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """Return a folder that is all there is of an index: PyTorch's builds on PyPI, and what they ask for."""
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("2.11.0", "2.13.0", "2.14.0", "2.15.0"):
        requirements = [one for one in builds.requirements_of("cuda", version) if not one.extras]
        stand_in(folder, "torch", version, requirements)
        for one in requirements:
            stand_in(folder, one.name, allowed(one), [])
            stand_in(folder, one.name, "99.0", []) if one.name in ("triton", "filelock") else None
    stand_in(folder, "numpy", "2.3.5", [])
    stand_in(folder, "numpy", "2.4.6", [])
    stand_in(folder, "kernels", "1.0", [Requirement("triton"), Requirement("torch")])
    for name in ("UV_FIND_LINKS", "UV_TORCH_BACKEND", "UV_DEFAULT_INDEX", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    (tmp_path / "uv.toml").write_text("no-index = true\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    return folder


def resolved(tmp_path: Path, text: str, *kinds: str, **options: object) -> dict[str, dict[str, str]]:
    """Return the pins of the locks of a file of requirements."""
    source = tmp_path / "own.in"
    source.write_text(text)
    made = resolve(source, kinds, pythons=["3.11"], **options)  # type: ignore[arg-type]
    resolved.notes = made.notes  # type: ignore[attr-defined]
    return {kind: locks.pins_in(text) for kind, text in made.texts.items()}


def test_all_kinds_have_the_versions_of_cuda_and_triton_by_its_name_there(index, tmp_path):
    pins = resolved(tmp_path, "torch\ntriton\nnumpy<2.4\n", "cuda", "cpu", "rocm", "xpu")
    assert {kind: of["torch"] for kind, of in pins.items()} == dict.fromkeys(pins, "2.13.0"), "the newest that all have"
    assert pins["cuda"]["triton"] == pins["cpu"]["triton"] == pins["rocm"]["triton-rocm"] == "3.7.1"
    assert pins["xpu"]["triton-xpu"] == "3.7.2"
    assert not {"triton"} & {*pins["rocm"], *pins["xpu"]}
    assert {of["numpy"] for of in pins.values()} == {"2.3.5"}
    assert "nvidia-nccl-cu13" in pins["cuda"]
    assert "nvidia-nccl-cu13" not in pins["cpu"]


def test_a_cpu_that_is_asked_for_alone_has_what_a_gpu_would_have(index, tmp_path):
    pins = resolved(tmp_path, "torch==2.13.0\ntriton\n", "cpu")
    assert set(pins) == {"cpu"}
    assert pins["cpu"]["triton"] == "3.7.1", "99.0 is there too, and no GPU can have it"


@pytest.mark.parametrize("spelling", ["triton==3.6.0", "Triton == 3.6.0 # a comment", "triton[tutorials]==3.6.0"])
def test_triton_has_its_name_however_it_is_written(index, tmp_path, spelling):
    pins = resolved(tmp_path, f"torch\n{spelling}\n", "cuda", "rocm")
    assert pins["rocm"]["torch"] == "2.11.0"
    assert pins["rocm"]["triton-rocm"] == "3.6.0"


def test_a_package_that_asks_for_triton_brings_no_second_one(index, tmp_path):
    pins = resolved(tmp_path, "kernels\ntorch==2.13.0\n", "cuda", "rocm")
    assert "triton" not in pins["rocm"]
    assert builds.excluded(pins["rocm"])
    assert pins["cuda"]["triton"] == "3.7.1"


def test_without_a_distribution_of_several_builds_there_is_one_lock(index, tmp_path):
    assert set(resolved(tmp_path, "numpy\n", "cuda", "cpu")) == {""}
    assert resolved(tmp_path, "triton\n", "cuda", "rocm") == {"": {"triton": "99.0"}}


def test_if_one_kind_cannot_be_resolved_none_is_written_and_the_pair_that_goes_is_named(index, tmp_path):
    text = r"own\.in cannot be resolved for cuda: .*torch==2\.13\.0.*"
    with pytest.raises(UserError, match=text) as raised:
        resolved(tmp_path, "torch==2.13.0\ntriton==3.6.0\n", "cuda", "cpu", "rocm")
    assert str(raised.value).endswith("torch 2.11.0 goes with triton 3.6.0 on cpu, cuda, rocm: write torch==2.11.0.")
    with pytest.raises(UserError, match=r"cannot be resolved for rocm: nobody has written down what torch 2\.15\.0"):
        resolved(tmp_path, "torch==2.15.0\n", "cuda", "rocm")


def test_a_wheel_of_another_build_that_lies_here_is_not_taken(index, tmp_path):
    stand_in(index, "torch", "2.13.0+cpu", [])
    stand_in(index, "torch", "2.11.0+rocm7.2", [])
    pins = resolved(tmp_path, "torch\n", "cuda", "cpu", "rocm")
    assert {kind: of["torch"] for kind, of in pins.items()} == dict.fromkeys(pins, "2.14.0")
    assert "triton" in pins["cuda"]


def test_versions_that_are_preferred_are_kept_where_they_go_and_else_named(index, tmp_path):
    own = Pins((exact("torch", "2.11.0", "uv.lock"), exact("numpy", "2.3.5", "uv.lock")))
    pins = resolved(tmp_path, "torch\nnumpy\n", "cuda", "rocm", pins=own)
    assert [(of["torch"], of["numpy"]) for of in pins.values()] == [("2.11.0", "2.3.5")] * 2
    own = Pins((exact("triton", "3.6.0", "constraints.txt"),))
    resolved(tmp_path, "torch==2.13.0\ntriton\n", "cuda", "rocm", pins=own)
    assert any("constraints.txt pins 3.6.0" in note and "3.7.1" in note for note in resolved.notes)


def test_files_that_a_source_includes_count_and_a_kind_may_have_a_source_of_its_own(index, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "base.in").write_text("torch==2.13.0\n-c limits.txt\nnumpy\n")
    (tmp_path / "more" / "limits.txt").write_text("numpy<2.4\n")
    (tmp_path / "own.cpu.in").write_text("-r own.in\nkernels\n")
    made = resolved(tmp_path, "-r more/base.in # all of it\n", "cuda", "cpu")
    assert [of["numpy"] for of in made.values()] == ["2.3.5", "2.3.5"]
    assert "kernels" in made["cpu"]
    assert "kernels" not in made["cuda"]
    before = locks.digest_of(tmp_path / "own.cpu.in")
    (tmp_path / "more" / "base.in").write_text("torch==2.11.0\n")
    assert locks.digest_of(tmp_path / "own.cpu.in") != before


def test_what_only_a_later_python_needs_is_pinned_too(index, tmp_path):
    stand_in(index, "torch", "2.16.0", [Requirement("filelock; python_version >= '3.12'")])
    (tmp_path / "own.in").write_text("torch==2.16.0\n")
    made = resolve(tmp_path / "own.in", ["cuda"], pythons=["3.11", "3.12"])
    assert "filelock==99.0\n    # for Python 3.12\n" in made.texts["cuda"]


def matrix_of(tmp_path: Path, *devices: str) -> Matrix:
    """Return a matrix with a platform for each device, which all have one toolchain."""
    (tmp_path / "suite").mkdir(exist_ok=True)
    (tmp_path / "kernels.py").write_text("")
    platforms = "".join(
        f"  {device}:\n    title: {device}\n    device: {device}\n    runner: [self-hosted, x]\n    targets: [a]\n"
        "    toolchains: [one]\n"
        for device in devices
    )
    text = "package: { name: kernels, suite: suite }\ntoolchains: { one: { lock: own.txt } }\nplatforms:\n"
    (tmp_path / "matrix.yaml").write_text(text + platforms)
    return load_unchecked(tmp_path / "matrix.yaml")


def test_the_command_makes_every_kind_that_a_platform_asks_for_and_check_finds_what_was_changed(
    index, tmp_path, monkeypatch, capsys
):
    matrix = matrix_of(tmp_path, "cpu", "nvidia", "amd", "metax")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.in").write_text("torch==2.13.0\ntriton\n")
    (tmp_path / "own.txt").write_text("torch==2.13.0\n")
    assert cli.main(["lock"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == ["wrote own.cuda.txt", "wrote own.cpu.txt", "wrote own.rocm.txt", "removed own.txt"]
    made = {path.name: path.read_text() for path in tmp_path.glob("own.*.txt")}

    def faults() -> set[str]:
        return {fault for fault in lock_faults(matrix, tmp_path) if "markupsafe" not in fault}

    assert faults() == set()
    assert cli.main(["check"]) == int(any(lock_faults(matrix, tmp_path)))
    (tmp_path / "own.in").write_text("torch==2.13.0\ntriton\nnumpy\n")
    assert cli.main(["check"]) == 1
    assert "own.rocm.txt: own.in is not what it was made from." in capsys.readouterr().out
    assert len(faults()) == 3
    assert all("own.in is not what it was made from. Make it: `kernel-matrix lock own`" in one for one in faults())
    jobs = [Job(name, "one", ()) for name in matrix.platforms]
    [line, _, *_] = preview(matrix, jobs, Machine(()), "venv", tmp_path)
    assert line == (
        "own.txt: own.in has changed since it was made, and the versions of the lock are taken. Make it anew: "
        "`kernel-matrix lock own`"
    )
    assert next(preview(matrix, jobs, Machine(()), "current", tmp_path)).startswith("this machine: ")
    assert next(preview(matrix, [], Machine(()), "venv", tmp_path)).startswith("this machine: ")
    (tmp_path / "own.in").write_text("torch==2.13.0\ntriton\n")
    (tmp_path / "own.rocm.txt").write_text(made["own.cpu.txt"])
    assert next(preview(matrix, jobs, Machine(()), "venv", tmp_path)).startswith("this machine: "), "it is of today"
    assert any(one.startswith("own.rocm.txt: it was made for cpu, and not for rocm.") for one in faults())
    (tmp_path / "own.rocm.txt").unlink()
    (tmp_path / "own.txt").write_text("torch==2.13.0\n")
    assert {one.partition(":")[0] for one in faults()} == {"own.rocm.txt", "own.txt"}
    (tmp_path / "own.in").write_text("torch==2.13.0\ntriton==3.6.0\n")
    before = {path.name: path.read_text() for path in tmp_path.glob("own.*")}
    assert cli.main(["lock"]) == 2
    assert {path.name: path.read_text() for path in tmp_path.glob("own.*")} == before, "none is written"


def test_a_lock_that_is_named_by_one_kind_is_not_made_for_several(index, tmp_path, monkeypatch, capsys):
    matrix_of(tmp_path, "cpu", "nvidia")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.in").write_text("torch==2.13.0\n")
    text = (tmp_path / "matrix.yaml").read_text()
    (tmp_path / "matrix.yaml").write_text(text.replace("own.txt", "own.cpu.txt"))
    assert cli.main(["lock"]) == 2
    wanted = "own.cpu.txt is a lock for cpu, and cuda is asked for too. Write own.txt in matrix.yaml."
    assert wanted in capsys.readouterr().err
    assert not [*tmp_path.glob("own.*.txt")]


def test_a_job_has_the_lock_of_its_vendor_s_builds_where_its_gpu_is_and_else_the_cpu_s(tmp_path):
    matrix = matrix_of(tmp_path, "nvidia", "amd", "metax")
    for kind in ("cpu", "cuda"):
        (tmp_path / f"own.{kind}.txt").write_text("")

    def lock(platform: str, device: Device | None) -> str:
        request = Request(tmp_path, tmp_path / "build", matrix, Job(platform, "one", ()), device, print)
        return request.lock.name

    assert lock("nvidia", None) == "own.cpu.txt"
    assert lock("nvidia", Device("nvidia", "H200", ("a",))) == "own.cuda.txt"
    assert lock("nvidia", Device("nvidia", "an emulator", ("a",), emulated=True)) == "own.cpu.txt"
    with pytest.raises(InstallError, match=r"own\.rocm\.txt is not there\. Make it: `kernel-matrix lock own`"):
        lock("amd", Device("amd", "MI300X", ("a",)))
    with pytest.raises(UnavailableError, match="no index has the builds for MetaX"):
        lock("metax", Device("metax", "C500", ("a",)))


def test_what_differs_between_a_cpu_and_a_gpu_is_said(index, tmp_path):
    matrix = matrix_of(tmp_path, "cpu", "amd")
    (tmp_path / "own.cpu.txt").write_text("torch==2.13.0\ntriton==3.7.1\nnumpy==2.4.6\n")
    (tmp_path / "own.rocm.txt").write_text("torch==2.13.0\ntriton-rocm==3.7.1\nnumpy==2.3.5\n")
    assert list(lock_differences(matrix, tmp_path)) == [
        "own: on a GPU (rocm) are other versions than on a CPU (in brackets): numpy 2.3.5 (2.4.6)."
    ]


def answer(tmp_path: Path, kind: str, text: str, python: str = "3.11", machine: str = MACHINE) -> verify.Answer:
    lock = tmp_path / f"own.{kind}.txt"
    lock.write_text(text)
    return verify.ask(lock, kind, python, machine)


@pytest.fixture
def silent(monkeypatch):
    """Let no index of PyTorch's answer."""
    monkeypatch.setattr(verify, "answers", lambda *_: False)


def test_a_verification_finds_what_cannot_be_installed_and_what_is_not_pinned(index, tmp_path, silent):
    whole = "".join(f"{one.name}=={allowed(one)}\n" for one in builds.requirements_of("cpu", "2.13.0"))
    assert answer(tmp_path, "cpu", f"torch==2.13.0\n{whole}").fault == ""
    lacking = answer(tmp_path, "cpu", f"torch==2.13.0\n{whole.replace('filelock==1.0', '')}")
    assert lacking.fault == "it does not pin what comes in besides: filelock==99.0"
    assert lacking.stands_in == "cpu"
    wrong = answer(tmp_path, "cuda", f"torch==2.13.0\ntriton==3.6.0\n{whole}")
    assert "triton==3.7.1" in wrong.fault
    assert not wrong.stands_in, "the build on PyPI needs none"


def test_a_verification_asks_for_the_python_and_the_machine(index, tmp_path, silent):
    """An old numpy has no wheel for 3.13, and some wheels are for a newer C library or for one processor only."""
    for tag in ("cp312-cp312-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_31_x86_64"):
        stand_in(index, "narrow", "1.0", []).rename(index / f"narrow-1.0-{tag}.whl")
    assert answer(tmp_path, "cpu", "narrow==1.0\n", "3.12").fault == ""
    assert "cp313" in answer(tmp_path, "cpu", "narrow==1.0\n", "3.13").fault
    assert answer(tmp_path, "cpu", "narrow==1.0\n", "3.11").fault == ""
    assert "platform tag" in answer(tmp_path, "cpu", "narrow==1.0\n", "3.11", "x86_64-manylinux_2_28").fault
    assert "platform tag" in answer(tmp_path, "cpu", "narrow==1.0\n", "3.11", "aarch64-manylinux_2_36").fault


def test_an_index_that_does_not_answer_is_no_yes(tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    said = answer(tmp_path, "cpu", "nothing-that-is-cached==1.0\n")
    assert said.fault
    assert said.is_unanswered


def test_pins_that_write_over_each_other_are_not_installed(tmp_path):
    lock = tmp_path / "own.rocm.txt"
    lock.write_text("torch==2.13.0\ntriton-rocm==3.7.1\ntriton==3.6.0\n")
    with pytest.raises(InstallError, match="triton writes the same folder as triton-rocm, which torch for rocm brings"):
        install(Installer(), Path(sys.executable), lock, "rocm")


def test_a_kind_is_installed_from_its_own_index_and_auto_stands_for_it():
    lock = "torch==2.13.0\n"
    variables = {kind: chosen_build(Installer(), lock, kind) for kind in builds.kinds()}
    assert variables == {
        "cpu": {"UV_TORCH_BACKEND": "cpu"}, "cuda": {}, "rocm": {"UV_TORCH_BACKEND": "rocm7.2"},
        "xpu": {"UV_TORCH_BACKEND": "xpu"}, "metal": {},
    }  # fmt: skip
    assert chosen_build(Installer(), "torch==2.9.1\n", "rocm") == {"UV_TORCH_BACKEND": "rocm6.4"}
    assert chosen_build(Installer(), "numpy==2.4.6\n", "rocm") == {}
    auto = Installer(gpu={"UV_TORCH_BACKEND": "auto"})
    assert chosen_build(auto, lock, "cuda") == {}
    assert chosen_build(auto, lock, "rocm") == {"UV_TORCH_BACKEND": "rocm7.2"}
    own = Installer(gpu={"UV_TORCH_BACKEND": "cu126"})
    assert chosen_build(own, lock, "cuda") == {"UV_TORCH_BACKEND": "cu126"}, "what matrix.yaml says comes first"


def test_each_build_says_where_its_requirements_were_taken_from():
    assert {kind: bool(builds.source_of(kind)) for kind in builds.kinds()} == dict.fromkeys(builds.kinds(), True)


def test_ci_asks_the_index_about_every_lock():
    for name in ("pull-request", "nightly"):
        assert "run: ci/nox -s lock -- --verify\n" in (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()


def test_the_locks_of_this_repository_are_right(matrix):
    at_least(12, locks.kinds_of(matrix))
    assert list(lock_faults(matrix, ROOT)) == []


def test_every_kind_that_this_repository_installs_has_a_lock(matrix):
    absent = [
        path.name
        for name, kinds in at_least(12, locks.kinds_of(matrix).items())
        for path in (locks.lock_file(ROOT, name, kind) for kind in kinds)
        if not path.is_file()
    ]
    assert absent == []


def simple(wheels: Path, folder: Path) -> str:
    """Return the address of an index in a folder (PEP 503), with these wheels."""
    for wheel in wheels.glob("*.whl"):
        place = folder / canonicalize_name(wheel.name.partition("-")[0])
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, place)
        links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in place.glob("*.whl"))
        (place / "index.html").write_text(links)
    return folder.as_uri()


@pytest.mark.parametrize("wheels", ["nowhere", "UV_FIND_LINKS", "PIP_FIND_LINKS", "pip's file"])
def test_the_doctor_compares_the_table_with_an_index_that_answers(index, tmp_path, monkeypatch, wheels):
    """A folder of wheels has the build of one kind, and is no index."""
    (tmp_path / "wheels").mkdir()
    stand_in(tmp_path / "wheels", "torch", "2.13.0", [])
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    if wheels == "pip's file":
        (tmp_path / "pip.conf").write_text(f"[global]\nfind-links = {tmp_path}/wheels\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    elif wheels != "nowhere":
        monkeypatch.setenv(wheels, str(tmp_path / "wheels"))
    matrix = matrix_of(tmp_path, "nvidia", "amd")
    (tmp_path / "own.cuda.txt").write_text("torch==2.13.0\n")
    (tmp_path / "own.rocm.txt").write_text("torch==2.13.0\n")
    whole = builds.requirements_of("cuda", "2.13.0")

    monkeypatch.delenv("UV_CONFIG_FILE")
    monkeypatch.setattr(builds, "backend_of", lambda kind, _: "" if kind == "cuda" else "nowhere")

    def found(requirements: list[Requirement], moment: int) -> dict[str, tuple[str, str]]:
        stand_in(index, "torch", "2.13.0", requirements)
        monkeypatch.setenv("UV_DEFAULT_INDEX", simple(index, tmp_path / f"simple{moment}"))
        return {one.what: (one.status, one.text) for one in build_findings(matrix, tmp_path)}

    for one in whole:
        stand_in(index, one.name, allowed(one), [])
    said = found([*whole], 1)
    assert said["torch 2.13.0 for cuda"] == ("good", "its index says what builds.toml says: triton 3.7.1")
    assert said["torch 2.13.0 for rocm"][0] == "absent", "what does not answer is no fault of this machine"
    assert "what builds.toml says is taken" in said["torch 2.13.0 for rocm"][1]
    moved = [one for one in whole if one.name not in ("triton", "nvidia-nccl-cu13")]
    other = found([*moved, Requirement("triton==99.0"), Requirement("numpy")], 2)["torch 2.13.0 for cuda"]
    assert other[0] == "broken"
    assert other[1].endswith(": no nvidia-nccl-cu13, triton 99.0 in place of ==3.7.1, numpy 2.4.6 besides")


def archive(place: Path, name: str, version: str, *requirements: str) -> Path:
    """Write a source archive whose metadata can be read and which cannot be built."""
    lines = [f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {one}\n" for one in requirements]
    path = place / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for inside, text in {"PKG-INFO": "".join(lines), "pyproject.toml": "[build-system]\nrequires = []\n"}.items():
            member = tarfile.TarInfo(f"{name}-{version}/{inside}")
            member.size = len(text)
            file.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def local_index(tmp_path, monkeypatch):
    """Return a function that adds files to an index of this machine, the only one."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"file://{tmp_path}/simple")
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_CONSTRAINT", "PIP_CONSTRAINT", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    def add(*files: Path) -> None:
        for file in files:
            folder = tmp_path / "simple" / file.name.partition("-")[0].lower()
            folder.mkdir(parents=True, exist_ok=True)
            file.rename(folder / file.name)
            links = [f'<a href="{one.name}">{one.name}</a>' for one in folder.iterdir() if one.name != "index.html"]
            (folder / "index.html").write_text("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")

    return add


def wheel(place: Path, name: str, version: str, *requirements: str) -> Path:
    return stand_in(place, name, version, [Requirement(one) for one in requirements])


# Wheels and source archives of "one" and "two", the requirements, and what the lock then has.
_SOURCES = {
    "an old archive": (["one 2", "one 3", "two 5 one<3"], ["two 1"], "one\ntwo<6", {"one": "2", "two": "5"}),
    "a bound of the package": (["one 2", "one 3", "two 5 one<3"], ["two 4"], "one>=1\ntwo<6", {"one": "2", "two": "5"}),
    "a newer archive": (["one 2", "two 5"], ["two 6"], "one\ntwo", {"one": "2", "two": "5"}),
    "an archive alone": (["one 2"], ["two 6"], "one\ntwo", {"one": "2", "two": "6"}),
    "an archive that a bound asks for": (["one 2", "two 5"], ["two 6"], "one\ntwo>5", {"one": "2", "two": "6"}),
    "wheels alone": (["one 2", "two 5", "two 6"], [], "one\ntwo", {"one": "2", "two": "6"}),
}  # fmt: skip


@pytest.mark.parametrize("name", _SOURCES)
def test_a_lock_is_of_wheels_where_these_go_together(tmp_path, local_index, name):
    wheels, archives, text, locked = _SOURCES[name]
    local_index(
        *(wheel(tmp_path, *one.split()) for one in wheels), *(archive(tmp_path, *one.split()) for one in archives)
    )
    (tmp_path / "own.in").write_text(text)
    assert locks.pins_in(resolve(tmp_path / "own.in", ["cpu"]).texts[""]) == locked


@pytest.mark.parametrize("variable", ["UV_CONSTRAINT", "PIP_CONSTRAINT"])
@pytest.mark.parametrize("line", ["one==2", "one<3", "one!=3"])
def test_a_pin_that_this_machine_s_constraints_forbid_gives_way_and_is_named(
    tmp_path, local_index, monkeypatch, variable, line
):
    local_index(wheel(tmp_path, "one", "2"), wheel(tmp_path, "one", "3"))
    (tmp_path / "own.in").write_text("one\n")
    (tmp_path / "limits.txt").write_text(f"{line}\n")
    monkeypatch.setenv(variable, str(tmp_path / "limits.txt"))
    made = resolve(tmp_path / "own.in", ["cpu"], pins=Pins((exact("one", "3", "uv.lock"),)))
    assert locks.pins_in(made.texts[""]) == {"one": "2"}
    assert made.notes == ("not kept: one: uv.lock pins 3, own.txt has 2",)
