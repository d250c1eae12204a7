"""The devices of a machine are read from the system."""

from __future__ import annotations

import itertools
import stat

import pytest
from common import figures_of
from judges import judge

from kernel_matrix.config.plan import Job, plan
from kernel_matrix.run.decide import decide
from kernel_matrix.run.executors import Request
from kernel_matrix.store.record import Record
from kernel_matrix.vendors import amd, cpu, nvidia
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.vendor import Device


@pytest.mark.parametrize(
    ("version", "name"),
    [(90010, "gfx90a"), (90402, "gfx942"), (90500, "gfx950"), (110000, "gfx1100"), (120001, "gfx1201")],
)
def test_an_amd_driver_s_version_is_a_target(version, name):
    assert amd.target_of(version) == name


def test_amd_gpus_are_the_nodes_with_a_version(tmp_path):
    for node, version in (("0", 0), ("1", 90402)):
        (tmp_path / node).mkdir()
        (tmp_path / node / "properties").write_text(
            f"cpu_cores_count 0\ngfx_target_version {version}\nvendor_id 4098\n"
        )
    assert [device.targets for device in amd.detect(tmp_path)] == [("gfx942",)]
    assert amd.detect(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("script", "targets"),
    [
        ("echo 'NVIDIA H200, 9.0, 580.1'; echo 'NVIDIA B200, 10.0, 580.1'", [("sm_90",), ("sm_100",)]),
        ("echo no driver; exit 9", []),
    ],
)
def test_nvidia_gpus_are_those_of_nvidia_smi(tmp_path, monkeypatch, script, targets):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [device.targets for device in nvidia.detect()] == targets


def test_a_cpu_takes_its_own_level_and_those_below():
    every = set().union(*cpu.X86_LEVELS.values())
    assert cpu.targets_of("x86_64", every) == ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")
    assert cpu.targets_of("x86_64", every - {"avx512f"}) == ("x86-64-v3", "x86-64-v2", "x86-64")
    assert cpu.targets_of("x86_64", {"sse2"}) == ("x86-64",)
    assert cpu.targets_of("aarch64", set()) == ("aarch64",)


def test_without_a_gpu_a_case_is_compiled_or_unavailable(matrix):
    machine = detect()
    cases = plan(matrix, "quick").cases
    actions = {case.cell.id: decide(matrix, case, machine) for case in cases if not case.exclusion and not case.timed}
    rocm = "rocm/gfx942/{}/mhc_pre.forward"
    assert actions[rocm.format("tilelang-0.1.15")].action == "compile"
    refused = actions[rocm.format("reference")]
    assert (refused.action, refused.outcome) == ("", "unavailable")
    assert "has no AMD ROCm device for gfx942" in refused.reason
    assert actions["cpu-llvm/x86-64-v3/triton-3.7/mhc_pre.forward"].action == "emulate"
    assert actions["metal/metal/tvm-0.27/mhc_pre.forward"].action == "compile"


def test_an_amd_gpu_is_emulated_for_the_toolchain_that_names_an_emulator_and_never_timed(matrix):
    here = Machine((Device("cpu", "a CPU", ("x86-64-v3",)),))
    cases = [case for case in plan(matrix, "quick").cases if case.cell.platform == "rocm"]
    actions = {(case.cell.toolchain, case.cell.target, case.timed): decide(matrix, case, here) for case in cases}
    emulated = {key for key, decision in actions.items() if decision.action == "emulate"}
    without_hipcc = {key for key in emulated if key[0] not in ("cpp", "tilelang-0.1.15")}
    both = itertools.product(("triton-3.7", "tvm-0.27"), amd.VENDOR.stood_in_for, [False])
    assert without_hipcc == set(both) - {("triton-3.7", "gfx906", False)}  # Triton 3.7 has no code for it
    assert actions["triton-3.7", "gfx942", True].action == "compile"
    assert actions["triton-3.7", "gfx942", False].device.name == "AMD GPU, emulated on a CPU"
    there = Machine((*here.devices, Device("amd", "AMD gfx942", ("gfx942",))))
    decisions = {case.cell.target: decide(matrix, case, there) for case in cases if case.cell.toolchain == "triton-3.7"}
    assert {target for target, decision in decisions.items() if decision.action == "run"} == {"gfx942"}
    assert "emulate" not in {decision.action for decision in decisions.values()}, "a job has one device"


def test_a_job_on_an_emulated_gpu_has_tensors_on_the_cpu(matrix, tmp_path):
    def request(device: Device | None) -> Request:
        return Request(tmp_path, tmp_path, matrix, Job("rocm", "triton-3.7", ()), device, print)

    emulated = request(amd.stand_in((), "gfx942"))
    assert (emulated.toolchain.backend, emulated.vendor.framework_device, emulated.gpu) == ("triton", "cpu", False)
    for device, on_gpu in ((None, False), (Device("amd", "AMD gfx942", ("gfx942",)), True)):
        others = request(device)
        assert (others.toolchain.backend, others.vendor.framework_device, others.gpu) == ("triton", "cuda", on_gpu)


@pytest.mark.slow
def test_machine_code_is_emulated_where_a_compiler_for_it_is_and_also_of_a_toolchain_that_runs_on_no_card(
    matrix, monkeypatch
):
    def decisions(**choices: bool) -> dict[str, str]:
        cases = [case for case in plan(matrix, "quick").cases if case.cell.platform == "rocm"]
        cases = [case for case in cases if case.cell.target == "gfx942" and not (case.timed or case.exclusion)]
        here = Machine((Device("cpu", "a CPU", ("x86-64",)),))
        return {case.cell.toolchain: decide(matrix, case, here, **choices).action for case in cases}

    assert not matrix.platforms["rocm"].by_toolchain["tvm-0.27"].runs
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    without = {"triton-3.7": "emulate", "tvm-0.27": "emulate", "cpp": "compile", "tilelang-0.1.15": "compile"}
    assert {name: decisions()[name] for name in without} == without
    assert decisions(in_container=True) | dict.fromkeys(without, "emulate") == decisions(in_container=True)


def test_a_device_in_software_is_everywhere_and_emulates(matrix):
    case = next(case for case in plan(matrix, "quick").cases if case.cell.platform == "opencl")
    assert not matrix.platforms["opencl"].entries[0].emulated, "it need not be said"
    for machine in (Machine(()), detect()):
        assert decide(matrix, case, machine).action == "emulate"


def test_an_arm_or_risc_v_cpu_runs_the_targets_whose_features_it_has(tmp_path, monkeypatch):
    n1 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs"
    info = tmp_path / "cpuinfo"
    for machine, text, targets in (
        ("aarch64", f"Features\t: {n1}\n", ("aarch64", "neoverse-n1")),
        (
            "aarch64",
            f"Features\t: {n1} sve asimdfhm sve2 svebitperm i8mm bf16 rng\n",
            ("aarch64", "neoverse-n1", "neoverse-v2"),
        ),
        ("riscv64", "isa\t\t: rv64imafdcv_zicbom_zba\n", ("riscv64", "rv64gc", "rv64gcv")),
        ("riscv64", "isa\t\t: rv64gc\n", ("riscv64", "rv64gc")),
    ):
        monkeypatch.setattr(cpu.platform, "machine", lambda machine=machine: machine)
        info.write_text(text)
        [device] = cpu.detect(info)
        assert device.targets == targets


def test_another_architecture_is_emulated_and_its_own_runs(matrix, monkeypatch):
    planned = [case for case in plan(matrix, "quick").cases if case.cell.toolchain == "tvm-0.27"]
    cases = {case.cell.target: case for case in planned if case.cell.platform == "cpu-llvm"}
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    here = Machine((Device("cpu", "a CPU", ("x86-64-v3",)),))
    found = {target: decide(matrix, case, here) for target, case in cases.items()}
    assert {target: decision.action for target, decision in found.items()} == {
        "x86-64-v3": "run",
        "neoverse-n1": "emulate",
        "neoverse-v2": "emulate",
        "rv64gcv": "emulate",
    }
    assert found["rv64gcv"].device == Device("cpu", "QEMU (riscv64) on a CPU", ("rv64gcv",), emulated=True)
    monkeypatch.setattr(cpu.platform, "machine", lambda: "aarch64")
    arm = Machine((Device("cpu", "an Arm CPU", ("aarch64", "neoverse-n1")),))
    assert decide(matrix, cases["neoverse-n1"], arm).action == "run"
    refused = decide(matrix, cases["neoverse-v2"], arm)  # its architecture is here, and is not emulated
    assert (refused.action, refused.outcome) == ("", "unavailable")
    assert decide(matrix, cases["rv64gcv"], arm).action == "emulate"


@pytest.mark.slow
def test_a_record_of_an_emulated_cpu_is_taken_and_of_an_emulated_native_one_is_not(matrix):
    cases = {case.cell.target: case for case in plan(matrix, "quick").cases if case.cell.toolchain == "tvm-0.27"}
    for target, taken in (("neoverse-n1", True), ("x86-64-v3", False), ("sm_90", False)):
        case = cases[target]
        job = {"platform": case.cell.platform, "toolchain": "tvm-0.27", "device.targets": target}
        job |= {"device.vendor": case.cell.vendor}
        verdict = judge(case, [Record(case.id, "pass", "emulate", metrics=figures_of(case), job=job)])
        assert (verdict.state == "error") is not taken
        assert taken or "action of this toolchain" in verdict.reason
