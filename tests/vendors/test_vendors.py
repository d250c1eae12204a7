"""A vendor is one file, and a toolchain one lock and one entry: nothing else in the harness knows either."""

from __future__ import annotations

import ast
import importlib
import json
import re
import stat
import sys
from pathlib import Path

import pytest
from common import ROOT, Doubles
from loops import at_least
from records import middle, states

from kernel_matrix import vendors as package
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.commands.labels import labels
from kernel_matrix.ci.placing import rows
from kernel_matrix.cli import main
from kernel_matrix.config.load import load, schema
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.diagnosis import diagnose, rules_of
from kernel_matrix.doctor.findings import examine
from kernel_matrix.doctor.reachable import Prospect, prospects
from kernel_matrix.run.container.executor import Containers
from kernel_matrix.run.container.sandbox import Sandbox
from kernel_matrix.run.decide import decide, preview
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Request, UnavailableError
from kernel_matrix.run.job_command import specification
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record
from kernel_matrix.vendors import (
    amd,
    apple,
    device_files,
    google,
    huawei,
    intel,
    nvidia,
    registry,
    software,
    system,
    webgpu,
)
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.registry import vendor_named
from kernel_matrix.vendors.vendor import Device

# All that a maintainer with a new vendor's machine writes, as the docs say it.
PAGE = ROOT / "docs" / "how-to" / "vendor.md"


def block(title: str) -> str:
    """Return a block of the page, word for word."""
    [body] = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return body


@pytest.fixture
def acme(tmp_path: Path, monkeypatch):
    """Add one file to the vendors, for one test."""
    folder = tmp_path / "more_vendors"
    folder.mkdir()
    (folder / "acme.py").write_text(block("src/kernel_matrix/vendors/acme.py"))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    importlib.invalidate_caches()
    registry.vendors.cache_clear()
    yield
    registry.vendors.cache_clear()
    sys.modules.pop("kernel_matrix.vendors.acme", None)
    vars(package).pop("acme", None)


@pytest.fixture
def there(acme: None, doubles: Doubles) -> Doubles:
    """Add a platform of the made-up vendor and a toolchain: one lock, one entry."""
    (doubles.root / "made-up.txt").write_text(block("made-up.txt"))
    (doubles.root / "preflight.py").write_text("import pathlib\npathlib.Path('asked').touch()\n")
    doubles.edit("suite: suite", "suite: suite, preflight: preflight.py")
    doubles.edit("{ case: 15,", "{ case: 60,")
    doubles.edit("toolchains:\n", f"toolchains:\n{block('toolchains of matrix.yaml')}")
    doubles.edit("platforms:\n", f"platforms:\n{block('platforms of matrix.yaml')}")
    return doubles


def request_for(doubles: Doubles, toolchain: str, device: Device | None, platform: str = "there") -> Request:
    job = Job(
        platform, toolchain, tuple(c for c in plan(doubles.matrix, "quick").cases if c.cell.toolchain == toolchain)
    )
    return Request(doubles.root, doubles.root / "build", doubles.matrix, job, device, print)


def prospect(doubles: Doubles) -> Prospect:
    findings = examine(doubles.matrix, doubles.root, doubles.root / "build", detect())
    return next(p for p in prospects(doubles.matrix, findings, detect()) if p.platform == "there")


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.slow
def test_a_made_up_vendor_is_detected_and_its_targets_run(there: Doubles):
    machine = detect()
    assert machine.devices[0].vendor == "cpu"
    [device] = machine.of("acme")
    comparison = there.run("made-up-1", device=device)
    ran, compiled = comparison.cells
    assert (ran.cell.target, ran.state, ran.evidence) == ("acme1", "pass", "ran")
    assert (compiled.cell.target, compiled.state, compiled.evidence) == ("acme2", "compiled", "compiled")
    assert (there.root / "asked").exists(), "a GPU is asked before a job uses it"
    assert ran.cases[0].record.job["device"] == "ACME One"
    assert ran.cases[0].record.job["driver"] == "7.3"
    todo = json.loads((there.root / "build/jobs/there.made-up-1/todo.json").read_text())
    assert todo["device"] == "acme"


@pytest.mark.slow
def test_a_made_up_vendor_s_results_are_reported_and_repeated(there: Doubles, capsys):
    there.run("made-up-1", device=detect().of("acme")[0])
    matrix = ["--matrix", str(there.root / "matrix.yaml"), "--build", str(there.root / "build")]
    assert main(["report", *matrix]) == 1, "the other platform's cases are missing"
    [cell] = [c for c in json.loads((there.root / "build/site/compat.json").read_text())["cells"]
              if c["target"] == "acme1"]  # fmt: skip
    assert (cell["state"], cell["evidence"]) == ("pass", "ran")
    capsys.readouterr()
    assert main(["repro", *matrix, "there/acme1/made-up-1/double.forward"]) == 0
    printed = capsys.readouterr().out
    assert "# GPU flags: --device /dev/acme" in printed
    assert "kernel-matrix run --platform there " in printed


@pytest.mark.slow
def test_doctor_asks_what_a_made_up_vendor_and_toolchain_need(there: Doubles, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    found = {f.what: f for f in examine(there.matrix, there.root, there.root / "build", detect())}
    assert found["acme device"].text == "ACME One: acme1"
    assert found["ACME driver"].text == "7.3"
    assert (found["acmecc"].status, found["acmecc"].remedy) == ("absent", "install ACME's compiler")
    assert "there: made-up-1 stays at 'lowered' without it" in found["acmecc"].text
    lacking = prospect(there)
    assert (lacking.reaches, lacking.command) == ("lowered", "install ACME's compiler")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "acmecc", "echo acmecc 1.0")
    monkeypatch.setenv("ACME_HOME", str(tmp_path))
    reached = prospect(there)
    assert (reached.reaches, reached.lacking) == ("ran", "acme2: other GPUs; compiled only here")


def test_a_made_up_vendor_s_devices_are_given_to_a_container_and_labelled(there: Doubles):
    request = request_for(there, "made-up-1", detect().of("acme")[0])
    assert Sandbox(request, "image", 2.0).options({})["devices"] == ["/dev/acme:/dev/acme:rw"]
    assert labels(detect(), "x86_64") == ["self-hosted", "linux", "x64", "acme", "acme1"]
    placed = rows(there.matrix, plan(there.matrix, "quick").jobs, lambda _: 1.0)
    assert ("self-hosted", "linux", "x64", "acme", "acme1") in {row.labels for row in placed}


def test_names_of_vendors_and_programs_are_checked_and_offered_to_editors(there: Doubles, acme: None):
    offered = json.loads(schema())["$defs"]
    assert "acme" in offered["Platform"]["properties"]["device"]["enum"]
    assert "acmecc" in offered["PlatformToolchain"]["properties"]["needs"]["propertyNames"]["enum"]
    there.edit("needs: { acmecc:", "needs: { acmec:")
    with pytest.raises(
        UserError,
        match=r"'g\+\+', .*'acmecc', 'hipcc', 'hivmc', 'bisheng', 'ocloc' or 'nvcc', and it is 'acmec'",
    ):
        load(there.root / "matrix.yaml")


@pytest.mark.parametrize("name", registry.vendor_names())
def test_every_vendor_says_what_a_container_needs(name):
    vendor = vendor_named(name)
    assert bool(vendor.docker_flags) != bool(vendor.why_no_flags)
    assert bool(vendor.docker_flags) == bool(vendor.container_options())


@pytest.mark.parametrize(("cell", "flags"), [
    ("opencl/pocl/tvm-0.27/mhc_pre.forward", "none (the device comes with the toolchain or the image, on the CPU)"),
    ("webgpu/lavapipe/tvm-0.27/mhc_pre.forward", "none (the device is a program in the image and runs on the CPU)"),
    ("metal/metal/tvm-0.27/mhc_pre.forward", "none (a container on a Mac is in a virtual machine, which does not have"),
])  # fmt: skip
@pytest.mark.slow
def test_a_cell_of_every_vendor_can_be_repeated(matrix, tmp_path, capsys, cell, flags):
    case = next(case for case in plan(matrix, "quick").cases if case.cell.id == cell)
    record = Record(case.id, "pass", "compile", facts={"artifact.kind": "source"}, metrics={"artifact.bytes": 9.0})
    junit.write(tmp_path / "results.xml", "job", [record], {"job": "job", "executor": "venv"})
    main(["repro", "--matrix", str(ROOT / "matrix.yaml"), cell, str(tmp_path)])
    printed = capsys.readouterr().out
    assert f"# GPU flags: {flags}" in printed
    assert f"--case {cell}" in printed


def test_a_job_on_a_mac_has_apple_s_device_and_no_container_gets_it(doubles: Doubles):
    doubles.in_containers()
    doubles.edit("device: cpu", "device: apple")
    doubles.edit("targets: [any]", "targets: [metal]")
    device = Device("apple", "Apple M4 GPU", ("metal",))
    request = request_for(doubles, "good", device, "here")
    said = json.loads(specification(request, {c.id: "run" for c in request.job.cases}, request.job.cases))
    assert said["device"] == "mps"
    assert "devices" not in Sandbox(request, "image", 2.0).options({})
    with pytest.raises(UnavailableError, match="no container can be given the GPU of here: a container on a Mac"):
        Containers().prepare(request)


def test_the_gpu_of_a_mac_is_detected(tmp_path, monkeypatch):
    program(tmp_path / "sysctl", '[ "$2" = machdep.cpu.brand_string ] && echo Apple M4')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert apple.detect() == []
    monkeypatch.setattr(apple.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(apple.platform, "machine", lambda: "arm64")
    [device] = apple.detect()
    assert (device.vendor, device.name, device.targets) == ("apple", "Apple M4 GPU", ("metal",))
    assert labels(Machine((device,)), "arm64", "Darwin") == ["self-hosted", "macos", "arm64", "apple", "metal"]


@pytest.mark.slow
def test_a_job_that_only_compiles_has_no_device_although_the_gpu_is_here(doubles: Doubles, monkeypatch):
    """It must not wait until the GPU is free, take the build for the GPU, or run the preflight."""
    (doubles.root / "preflight.py").write_text("raise SystemExit('never to be run')\n")
    doubles.edit("suite: suite", "suite: suite, preflight: preflight.py")
    doubles.edit("{ case: 15,", "{ case: 60,")
    doubles.edit("device: cpu", "device: nvidia")
    doubles.edit("good: { backend: good,", "good: { backend: good, ahead_of_time: true,")
    doubles.edit("toolchains: [good,", "toolchains: [{ toolchain: good, runs: false },")
    asked: list[Request] = []

    def prepare(request: Request) -> LocalInterpreter:
        asked.append(request)
        return LocalInterpreter(Path(sys.executable))

    monkeypatch.setattr("kernel_matrix.run.environments.current.prepare", prepare)
    gpu = Device("nvidia", "a GPU", ("any",), "580.1")
    jobs = [job for job in plan(doubles.matrix, "quick").jobs if job.toolchain == "good"]
    assert "here: any is here, and these jobs only compile." in preview(doubles.matrix, jobs, Machine((gpu,)), "venv")
    comparison = doubles.run("good", device=gpu)
    assert states(comparison) == ["compiled"] * 3
    assert middle(comparison).record.job["device"] == "none"
    [request] = asked
    assert (request.device, request.gpu) == (None, False)


def test_what_an_emulated_target_lacks_on_this_machine_is_said_beforehand(matrix, tmp_path, monkeypatch):
    jobs = [job for job in plan(matrix, "quick").jobs if job.id == "cpu-llvm.tvm-0.27"]
    machine = Machine((Device("cpu", "a CPU", ("x86-64-v3",)),))

    def lines(executor: str = "venv") -> list[str]:
        return [line for line in preview(matrix, jobs, machine, executor) if "emulated" in line]

    for name in ("qemu-aarch64", "aarch64-linux-gnu-g++", "qemu-riscv64-static"):
        program(tmp_path / name, "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lines() == [
        "cpu-llvm: neoverse-n1, neoverse-v2 can be emulated here.",
        "cpu-llvm: rv64gcv cannot be emulated here without riscv64-linux-gnu-g++.",
    ]
    program(tmp_path / "riscv64-linux-gnu-g++", "true")
    assert lines() == ["cpu-llvm: neoverse-n1, neoverse-v2, rv64gcv can be emulated here."]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sleep 60", "no answer within 0.5 s"),
        ("echo NVIDIA-SMI has failed >&2; exit 9", "exit status 9: NVIDIA-SMI has failed"),
        ("echo '[N/A], [N/A], [N/A]'", "it says '[N/A], [N/A], [N/A]', which names no GPU"),
        ("printf '\\377\\376'", "which names no GPU"),
    ],
)
def test_an_nvidia_smi_that_is_odd_finds_no_gpu_and_doctor_says_why(tmp_path, monkeypatch, script, words):
    program(tmp_path / "nvidia-smi", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(system, "SECONDS", 0.5)
    assert nvidia.detect() == []
    finding = nvidia.driver([])
    assert finding.status == "broken"
    assert words in finding.text


def test_a_gpu_whose_files_cannot_be_read_is_not_detected(tmp_path):
    (tmp_path / "1" / "properties").mkdir(parents=True)  # to read it is an error, as for a GPU of another container
    assert amd.detect(tmp_path) == []


def test_no_other_room_knows_a_vendor_or_its_programs():
    """Only the files of the vendors name vendors, their programs and the package's words for devices.

    ``init`` and ``lock`` propose platforms and builds of libraries, whose names are the user's to change. The service
    that compiles ahead of time calls compilers of vendors, and the tools are programs about such compilers.
    """
    vendors = registry.vendors()
    words = {*vendors, *registry.program_names(), *(vendor.framework_device for vendor in vendors.values())}
    words -= {"cpu"}  # also the name of a build, and of the device that every package has
    sources = ROOT / "src" / "kernel_matrix"
    knowing = [
        f"{path.relative_to(sources)}:{node.lineno}: {node.value}"
        for path in at_least(300, sources.rglob("*.py"))
        if not {"vendors", "ahead", "adopt", "tools"} & {*path.relative_to(sources).parts}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in words
    ]
    assert knowing == []


def test_a_program_that_does_not_start_is_broken(tmp_path, monkeypatch):
    program(tmp_path / "hipcc", "echo no device libraries >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    [hipcc] = amd.VENDOR.programs
    assert hipcc.examine("") == Finding(
        "hipcc",
        "broken",
        f"{tmp_path}/hipcc: it does not start: exit status 1: no device libraries",
        hipcc.install,
    )


def test_an_amd_gpu_that_this_user_may_not_open_or_whose_driver_is_not_loaded_is_broken(tmp_path: Path, monkeypatch):
    devices, file = [Device("amd", "AMD gfx942", ("gfx942",))], tmp_path / "kfd"
    assert amd.driver(devices, file).remedy == "sudo usermod -aG render,video $USER, and log in anew"
    file.touch()
    assert (amd.driver(devices, file).status, amd.driver(devices, file).text) == ("good", f"AMD gfx942, {file}")
    monkeypatch.setattr(device_files, "is_on_pci_bus", lambda vendor: vendor == "0x1002")
    assert (amd.driver([], file).status, amd.driver([], file).remedy) == ("broken", "sudo modprobe amdgpu")
    monkeypatch.setattr(device_files, "is_on_pci_bus", lambda vendor: False)
    assert (amd.driver([], file).status, amd.driver([], file).text) == ("absent", "no AMD GPU is here")


def test_intel_s_gpus_are_found_by_their_render_nodes(tmp_path: Path):
    nodes = {"renderD128": ("0x8086", "0xe20b"), "renderD129": ("0x8086", "0x3e92"), "renderD130": ("0x1002", "0x744c")}
    for name, (vendor, device) in nodes.items():
        folder = tmp_path / name / "device"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "device").write_text(f"{device}\n")
    (tmp_path / "renderD131").mkdir()  # a node whose device is gone
    assert intel.detect(tmp_path) == [Device("intel", "Intel GPU 0xe20b", ("bmg",))]
    assert [intel.target_of(device) for device in ("0x56a0", "0x0bd5", "0x64a0", "0xb080", "0x9a49")] == [
        "dg2", "pvc", "lnl", "ptl-h", None]  # fmt: skip


def test_an_intel_gpu_that_this_user_may_not_open_is_broken(tmp_path: Path):
    devices = [Device("intel", "Intel GPU 0xe20b", ("bmg",))]
    assert intel.driver(devices, tmp_path).status == "broken"
    (tmp_path / "renderD128").touch()
    assert intel.driver(devices, tmp_path).status == "good"
    assert intel.driver([], tmp_path).status == "absent"
    assert intel.container_options(tmp_path)["devices"] == [f"{tmp_path}/dri:/dev/dri:rw"]


def test_the_system_s_opencl_runtimes_are_found_by_their_descriptions(tmp_path, monkeypatch):
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    finding = software.runtimes([], tmp_path)
    assert (finding.status, finding.remedy.split(" (")[0]) == ("absent", "sudo apt-get install pocl-opencl-icd")
    (tmp_path / "gone.icd").write_text("/nowhere/libgone.so\n")
    finding = software.runtimes([], tmp_path)
    assert finding.status == "absent"
    assert "the library is not there: /nowhere/libgone.so" in finding.text
    (tmp_path / "pocl.icd").write_text("libpocl.so.2.15.0\n")
    assert software.runtimes([], tmp_path).text == "OpenCL runtimes of the system: libpocl.so.2.15.0"
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "empty"))
    assert software.runtimes([], tmp_path).status == "absent", "a person named another folder"


def test_google_s_tpus_are_found_by_their_pci_ids_where_a_driver_has_made_their_files(tmp_path: Path):
    pci, dev = tmp_path / "pci", tmp_path / "dev"
    chips = {"00:04.0": ("0x1ae0", "0x0063"), "00:05.0": ("0x1ae0", "0x0063"), "00:06.0": ("0x1ae0", "0x0042")}
    for name, (vendor, device) in (chips | {"00:07.0": ("0x10de", "0x0063")}).items():
        (pci / name).mkdir(parents=True)
        (pci / name / "vendor").write_text(f"{vendor}\n")
        (pci / name / "device").write_text(f"{device}\n")
    (pci / "00:08.0").mkdir()  # a device that is gone
    (dev / "vfio").mkdir(parents=True)
    (dev / "vfio" / "vfio").touch()  # VFIO's own file
    assert google.detect(pci, dev) == []
    (dev / "vfio" / "0").touch()
    assert google.detect(pci, dev) == [Device("google", "Google TPU v5e (2 chips)", ("v5e",))]
    (dev / "vfio" / "0").unlink()
    (dev / "accel0").touch()
    assert google.detect(pci, dev) != []


def test_the_interpreter_of_a_tpu_stands_in_for_no_architecture(matrix):
    machine = Machine((Device("cpu", "EPYC", ("x86-64-v3",)),))
    device = machine.device_for("google", "interpreter")
    assert (device.name, device.targets, device.emulated) == (
        "Pallas' interpreter of a TPU on EPYC",
        ("interpreter",),
        True,
    )
    assert [machine.device_for("google", target) for target in ("v5e", "v5p", "v6e", "tpu7x")] == [None] * 4
    cases = {case.cell.target: case for case in plan(matrix, "quick").cases if case.cell.platform == "tpu"}
    actions = {target: decide(matrix, case, machine).action for target, case in cases.items()}
    assert actions == {"interpreter": "emulate"} | dict.fromkeys(("v5e", "v5p", "v6e", "tpu7x"), "compile")
    with_tpu = Machine((*machine.devices, Device("google", "Google TPU v6e (1 chips)", ("v6e",))))
    assert decide(matrix, cases["v6e"], with_tpu).action == "run"
    assert decide(matrix, cases["v5e"], with_tpu).action == "compile"


def test_what_is_known_of_a_tpu_is_said(monkeypatch):
    assert google.driver([Device("google", "Google TPU v6e (1 chips)", ("v6e",))]).status == "good"
    finding = google.driver([])
    assert (finding.status, "libtpu compiles for every target" in finding.text) == ("absent", True)
    monkeypatch.setattr(google, "is_on_pci_bus", lambda vendor: vendor == "0x1ae0")
    assert "a device of Google's is on the PCI bus" in google.driver([]).text


@pytest.fixture
def no_named_drivers(monkeypatch):
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)


def test_a_vulkan_device_in_software_is_found_by_the_description_of_its_driver(tmp_path, monkeypatch, no_named_drivers):
    monkeypatch.setattr(webgpu, "find_library", lambda name: f"lib{name}.so.1")
    (tmp_path / "nvidia_icd.json").touch()
    finding = webgpu.driver([], [tmp_path])
    assert (finding.status, finding.remedy) == ("absent", "sudo apt-get install mesa-vulkan-drivers libvulkan1")
    (tmp_path / "lvp_icd.x86_64.json").touch()
    assert webgpu.driver([], [tmp_path]).status == "good"
    monkeypatch.setattr(webgpu, "find_library", lambda _: None)
    assert (finding := webgpu.driver([], [tmp_path])).status == "broken"
    assert "the loader libvulkan.so.1 is not" in finding.text
    assert finding.remedy == "sudo apt-get install mesa-vulkan-drivers libvulkan1"


def test_drivers_that_a_variable_names_are_the_only_ones_that_the_loader_has(tmp_path, monkeypatch, no_named_drivers):
    monkeypatch.setattr(webgpu, "find_library", lambda name: f"lib{name}.so.1")
    (tmp_path / "lvp_icd.x86_64.json").touch()
    monkeypatch.setenv("VK_DRIVER_FILES", f"{tmp_path}/radeon_icd.json")
    assert webgpu.driver([], [tmp_path]).status == "absent"
    monkeypatch.setenv("VK_DRIVER_FILES", f"{tmp_path}/radeon_icd.json:{tmp_path}/lvp_icd.x86_64.json")
    assert webgpu.driver([]).status == "good"


NPU_SMI = """
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
+===========================+===============+====================================================+
| 0     910B2               | OK            | 92.5        38                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3342 / 65536         |
| 1     910B2               | OK            | 95.1        39                0    / 0             |
"""


def test_ascend_npus_are_those_that_npu_smi_lists(tmp_path: Path):
    assert huawei.listed(NPU_SMI) == [Device("huawei", "Ascend 910B2", ("ascend910b2",))] * 2
    assert huawei.listed("") == huawei.detect() == []
    devices = huawei.listed(NPU_SMI)
    assert huawei.driver(devices, tmp_path).status == "broken"
    (tmp_path / "davinci0").touch()
    assert huawei.driver(devices, tmp_path).status == "good"
    assert huawei.driver([], tmp_path).status == "absent"
    assert f"{tmp_path}/davinci0:/dev/davinci0:rw" in huawei.container_options(tmp_path)["devices"]


UNREACHED = ("cambricon", "hygon", "metax", "moore_threads")


@pytest.mark.parametrize("name", UNREACHED)
def test_a_vendor_that_nobody_reached_says_why_and_when_it_was_looked_for(matrix, name):
    """Its cases are unavailable, and the page has the cause: nothing of it is drawn as if it were compiled."""
    vendor = vendor_named(name)
    [(platform, entry)] = [item for item in matrix.platforms.items() if item[1].device == name]
    [looked] = re.findall(r"\(last looked for on (\d{4}-\d\d-\d\d)\)", vendor.lacking)
    assert vendor.driver([]).status == "absent"
    assert looked in vendor.driver([]).text
    cases = [case for case in plan(matrix, "quick").cases if case.cell.platform == platform]
    assert {case.cell.op for case in cases} == set(matrix.ops)
    decisions = [decide(matrix, case, Machine(())) for case in cases]
    assert {(one.action, one.outcome) for one in decisions} == {("", "unavailable")}
    diagnosis = diagnose(decisions[0].reason, "unavailable", rules=rules_of(matrix, ROOT))
    assert diagnosis is not None
    assert diagnosis.rule == f"nobody-reached-{platform}"
    assert vendor.lacking.partition(": ")[2] in diagnosis.cause
    assert entry.title == vendor.title


def test_the_glossary_names_every_vendor():
    page = (ROOT / "docs" / "how-to" / "vendor.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| vendor \|.*$", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == set(registry.vendor_names())
