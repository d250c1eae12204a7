"""Commands of nvcc are recorded, and each CUDA source is compiled for every target, kernel by kernel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import harness, records_in

from kernel_matrix.job.ahead import nvcc
from kernel_matrix.job.ahead.figures import figures_of_clang
from kernel_matrix.tools.launches import sources
from kernel_matrix.tools.launches.inside.recorder import compiling
from kernel_matrix.tools.launches.inside.recorder.nvcc import recorded
from kernel_matrix.tools.launches.inside.recorder.stand_ins import compiler
from kernel_matrix.tools.launches.recording import Compiled, Launch, Recording
from kernel_matrix.tools.launches.targets import known

SOURCE = """\
#include <cuda_runtime.h>
template <typename T, int N>
__global__ void scale(T* x, float by, int n) {
  __shared__ T tile[N];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { tile[threadIdx.x] = x[i]; __syncthreads(); x[i] = tile[threadIdx.x] * T(by); }
}
template __global__ void scale<float, 128>(float*, float, int);
template __global__ void scale<double, 256>(double*, float, int);
"""
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here")
STAND_IN = Path(compiler.__file__)


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)


def launch(identity: str, kernel: str = "scale.cu") -> Launch:
    return Launch(
        identity, "csrc", kernel, "ab", {}, {}, {}, {"nvcc": "-O3"}, None, "", 1, False, True, toolchain="nvcc"
    )


def test_what_depends_on_a_target_is_taken_out_of_a_command_and_the_letter_a_is_kept():
    words = ["-MD", "-MF", "a.o.d", "-I", "inc", "-gencode", "arch=compute_90a,code=sm_90a", "-arch=sm_70", "-O3"]
    words += ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "--threads", "4", "-dc", "-c", "a.cu", "-o", "a.o"]
    kept, specific = recorded._without_architecture(words)
    assert kept == ["-I", "inc", "-O3", "-rdc=true", "a.cu"]
    assert specific == {"90"}


def test_a_stand_in_writes_the_command_down_and_makes_an_object_and_its_dependencies(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "words.rsp").write_text("-O3 -DX=1")
    command = (STAND_IN, log, "nvcc", "", "@words.rsp", "-MF", "a.d", "-c", "a.cu", "-o", "out/a.o")
    done = run(sys.executable, *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [entry] = [json.loads(line) for line in log.read_text().splitlines()]
    assert entry["arguments"] == ["-O3", "-DX=1", "-MF", "a.d", "-c", "a.cu", "-o", "out/a.o"]
    assert entry["directory"] == str(tmp_path)
    assert (tmp_path / "out" / "a.o").read_bytes().startswith(b"\x7fELF")
    assert (tmp_path / "a.d").read_text() == "out/a.o:\n"
    asked = run(sys.executable, STAND_IN, log, "nvcc", "", "--version", cwd=tmp_path)
    assert "release 13.0" in asked.stdout
    assert len(log.read_text().splitlines()) == 1, "a question is no command"


def test_each_source_of_a_command_and_of_cmake_is_a_line_and_a_repetition_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.cu", "b.cu"):
        Path(name).write_text(name)
    log = tmp_path / "log"
    entry = {"kind": "nvcc", "directory": str(tmp_path), "arguments": ["-O3", "-c", "a.cu", "b.cu"]}
    log.write_text("".join(f"{json.dumps(one)}\n" for one in (entry, entry)))
    database = tmp_path / "compile_commands.json"
    commands = [
        {"directory": str(tmp_path), "command": "/usr/bin/nvcc -O3 -arch=sm_80 -c a.cu -o a.o", "file": "a.cu"},
        {"directory": str(tmp_path), "command": "/usr/bin/nvcc -O2 -c a.cu -o a.o", "file": "a.cu"},
        {"directory": str(tmp_path), "command": "c++ -c main.cpp -o main.o", "file": "main.cpp"},
    ]
    database.write_text(json.dumps(commands))
    found = recorded.recorded(log, [database], None)
    assert [(one.command.file, one.command.arguments, one.times) for one in found] == [
        ("a.cu", ("-O3",), 3),
        ("a.cu", ("-O2",), 1),
        ("b.cu", ("-O3",), 2),
    ]


@pytest.mark.parametrize(
    ("text", "name", "template", "arguments"),
    [
        ("scale(float*, int)", "scale", "", ["float*", "int"]),
        ("void scale<float, 128>(float*, float)", "scale", "float, 128", ["float*", "float"]),
        ("void a::b<x<1>, (bool)1>(p<x<1>, 2>)", "b", "x<1>, (bool)1", ["p<x<1>, 2>"]),
        ("(anonymous namespace)::add(float*, float const*)", "add", "", ["float*", "float const*"]),
        ("_Z3addPf", "_Z3addPf", "", []),
    ],
)
def test_the_parts_of_a_kernels_name(text, name, template, arguments):
    assert sources.parts_of(text) == (name, template, arguments)


def test_each_kernel_of_a_source_is_a_launch_on_all_targets_of_all_vendors():
    kernels = {"f(int)": {"registers": 9.0, "bytes": 5.0}, "g(int)": {"registers": 7.0, "bytes": 5.0}}
    nvidia, amd = known()["sm_90"], known()["gfx942"]
    recorded = [
        Recording(
            nvidia.vendor, nvidia, (nvidia, known()["sm_80"], known()["sm_120"]), "", launches=(launch("ab"),),
            compiled=(
                Compiled("ab", "sm_90", "", 1, kernels=kernels),
                Compiled("ab", "sm_80", "compile", 1, message="no"),
                Compiled("ab", "sm_120", "", 1, kernels={"f(int)": {"registers": 8.0, "bytes": 5.0}}),
            ),
        ),
        Recording(
            amd.vendor, amd, (amd,), "", launches=(launch("ab"),),
            compiled=(Compiled("ab", "gfx942", "unavailable", 0, message="no hipcc"),),
        ),
    ]  # fmt: skip
    first, second = sources.by_kernel(recorded)
    assert [one.kernel for one in first.launches] == ["f", "g"] == [one.kernel for one in second.launches]
    assert [one.identity for one in first.launches] == [one.identity for one in second.launches]
    of_target = {
        target: [(one.stage, one.figures.get("registers")) for one in first.compiled if one.target == target]
        for target in ("sm_90", "sm_80", "sm_120")
    }
    assert of_target["sm_90"] == [("", 9.0), ("", 7.0)]
    assert of_target["sm_80"] == [("compile", None)] * 2
    assert of_target["sm_120"] == [("", 8.0), ("unavailable", None)]
    assert [one.message for one in second.compiled] == ["no hipcc"] * 2


def test_what_clang_says_of_a_kernel_for_amd():
    told = (
        "VGPRs: 12",
        "TotalSGPRs: 20",
        "ScratchSize [bytes/lane]: 8",
        "VGPRs Spill: 2",
        "LDS Size [bytes/block]: 512",
    )
    figures = figures_of_clang("".join(f"a.hip:1:0: remark:     {one} [-Rpass-analysis]\n" for one in told))
    assert figures == {"registers": 12, "scalar_registers": 20, "spills": 8, "stack": 8, "shared": 512}


def test_without_a_hipcc_the_message_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KERNEL_MATRIX_HIPCC", raising=False)
    with pytest.raises(compiling.UnavailableError, match="`apt-get install hipcc`"):
        nvcc.compiler_of("hip")


@pytest.mark.slow
@needs_nvcc
def test_the_commands_of_cmake_are_compiled_for_every_target_without_torch(tmp_path):
    (tmp_path / "scale.cu").write_text(SOURCE)
    (tmp_path / "broken.cu").write_text("#include <no_such_header.h>\n")
    commands = [
        {"directory": str(tmp_path), "command": f"nvcc -O3 -arch=sm_80 -c {name} -o x.o", "file": name}
        for name in ("scale.cu", "broken.cu")
    ]
    database = tmp_path / "compile_commands.json"
    database.write_text(json.dumps(commands))
    build, options = tmp_path / "build", ("--jobs", "1", "--targets", "sm_80", "gfx942")
    done = harness("launches", "--build", str(build), *options, "--compile-commands", str(database))
    assert done.returncode == 1, done.stdout + done.stderr
    records = {record.case: record for record in records_in(build / "launches" / "results")}
    scales = [one for case, one in records.items() if "/sm_80/nvcc/scale.launch/" in case]
    assert {(one.outcome, one.metrics["artifact.shared"]) for one in scales} == {("pass", 512.0), ("pass", 2048.0)}
    assert all(one.metrics["artifact.registers"] > 0 and one.metrics["artifact.code_bytes"] > 0 for one in scales)
    [broken] = [one for case, one in records.items() if "/sm_80/nvcc/broken.cu.launch/" in case]
    assert (broken.outcome, broken.stage) == ("error", "compile")
    assert "no_such_header.h: No such file or directory" in broken.message
    folder = str(build / "launches")
    report = harness("toolchains", "report", "--matrix", f"{folder}/matrix.yaml", "--build", folder, broken.case)
    version = nvcc.version_of(shutil.which("nvcc"))
    assert report.stdout.startswith(f"# nvcc {version}: {broken.facts['kernel']} on sm_80: "), report.stderr
    if shutil.which("hipcc") is None:
        assert {one.outcome for case, one in records.items() if "/gfx942/" in case} == {"unavailable"}
        assert "unavailable: hipcc is not on this machine" in done.stdout
    again = harness("launches", "--build", str(build), *options, "--compile-commands", str(database))
    lines_of = (build / "launches" / "recorded" / "nvidia" / "compiled.jsonl").read_text().splitlines()
    kept = {one["stage"]: one.get("kept", False) for one in map(json.loads, lines_of)}
    assert kept == {"": True, "compile": False}, "a header may be there next time"
    assert again.returncode == 1


def test_a_list_of_commands_that_is_none_is_refused(tmp_path):
    (tmp_path / "file.json").write_text("{}")
    done = harness("launches", "--compile-commands", str(tmp_path / "file.json"))
    assert done.returncode == 2
    assert "this is no list of commands as CMake writes it" in done.stderr


def test_a_compiler_that_finds_its_code_in_a_cache_has_the_figures_of_the_first_time(tmp_path):
    process = compiling.Running(None, 0, SimpleNamespace(name=str(tmp_path)))
    (tmp_path / "result").write_text(json.dumps({"figures": {"bytes": 5}, "kept": str(tmp_path / "figures.json")}))
    for log in ("ptxas info    : Used 30 registers, used 0 barriers", "", ""):
        (tmp_path / "log").write_text(log)
        result = compiling._judged(process, None, 0, over=False)
        assert result == {"stage": "", "figures": {"bytes": 5, "registers": 30}}
