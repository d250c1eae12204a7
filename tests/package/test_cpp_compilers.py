"""The compiler that the backend ``cpp`` takes for a target, and what becomes of its sources."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

from mhc.backends import NotSupportedError, load
from mhc.backends.cpp import compilers
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.sinkhorn import SinkhornInputs, SinkhornSpec, empty_outputs

NVCC_LOG = """\
ptxas info    : Compiling entry function 'mhc_pre_factors' for 'sm_90'
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compiling entry function 'mhc_pre_forward' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 88 registers, used 1 barriers, 1024 bytes smem
"""
CLANG_LOG = """\
mhc_pre.cu:96:5: remark: Function Name: mhc_pre_factors [-Rpass-analysis=kernel-resource-usage]
mhc_pre.cu:96:5: remark:     VGPRs: 133 [-Rpass-analysis=kernel-resource-usage]
mhc_pre.cu:47:5: remark: Function Name: mhc_pre_forward [-Rpass-analysis=kernel-resource-usage]
mhc_pre.cu:47:5: remark:     VGPRs: 126 [-Rpass-analysis=kernel-resource-usage]
"""
# Compilers of a test: one lists the GPUs that it knows, and writes its arguments where its output belongs.
CLANG = """\
#!/bin/sh
for word; do
  case $word in
    --print-supported-cpus) echo "  gfx90a gfx942" >&2; exit 1;;
    --version) echo "clang of a test"; exit;;
  esac
done
while [ "$1" != -o ]; do words="$words $1"; shift; done
echo "$0$words" > "$2"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts programs on a ``PATH`` that has nothing else but a shell's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MHC_CACHE_DIR", "")
    for function in (compilers.artifact, compilers._amd_gpus, compilers.identity):
        function.cache_clear()

    def put(*names):
        for name in names:
            path = tmp_path / name
            path.write_text(CLANG)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    yield put
    for function in (compilers.artifact, compilers._amd_gpus, compilers.identity):
        function.cache_clear()


def compiled(target):
    return load("cpp", "mhc_head").compile(MhcHeadSpec(4, 64, torch.bfloat16, True), target)


def test_without_a_compiler_for_amd_the_artifact_is_the_whole_source(programs):
    made = compiled("gfx942")
    assert made.kind == "hip-source"
    assert not made.is_machine_code
    text = made.data.decode()
    assert text.startswith("#define STREAMS 4\n#define ELEMENT bf16\n")
    assert "mhc_pre_forward" in text
    assert "__shfl_xor_sync" in text, "the headers are in it"
    assert '#include "' not in text
    programs("clang++-19")
    compilers.artifact.cache_clear()
    assert compiled("gfx942").kind == "hip-source", "a clang without LLVM's linker makes no code object"


def test_a_clang_compiles_for_the_amd_gpus_that_it_knows(programs):
    programs("clang++-19", "ld.lld-19")
    made = compiled("gfx942")
    assert made.kind == "hsaco"
    assert b"clang++-19 -x hip --cuda-device-only" in made.data
    assert b"--offload-arch=gfx942" in made.data
    assert compiled("gfx950").kind == "hip-source"


def test_hipcc_comes_first(programs):
    programs("hipcc", "clang++-19", "ld.lld-19")
    assert b"hipcc --genco --offload-arch=gfx950" in compiled("gfx950").data


def test_a_missing_compiler_is_named(programs, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"g\+\+ is missing: the cpp backend") as caught:
        compiled("x86-64-v3")
    assert caught.value.stage == "compile"
    monkeypatch.setattr("mhc.toolchain.compilers.importlib.util.find_spec", lambda _: None)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    with pytest.raises(FileNotFoundError, match="nvcc is missing"):
        compiled("sm_90")


def test_the_resources_are_those_of_the_direction_s_own_kernels():
    forward, backward = ("mhc_pre_forward",), ("mhc_pre_factors", "mhc_pre_sums")
    assert compilers._resources(NVCC_LOG, forward)["registers"] == 88
    assert compilers._resources(NVCC_LOG, backward) == {
        "registers": 168,
        "stack_bytes": 16,
        "shared_bytes": 512,
        "spill_bytes": 8,
    }
    assert compilers._resources(CLANG_LOG, forward) == {"registers": 126}
    assert compilers._resources(CLANG_LOG, backward) == {"registers": 133}


def test_a_line_of_a_source_is_named_by_its_file_without_a_folder():
    lines = Source("sinkhorn", 4).text.splitlines()
    places = [line for line in lines if line.startswith("#line ")]
    assert '#line 1 "sinkhorn.cu"' in places
    assert '#line 1 "fibers.h"' in places
    assert not any("/" in place for place in places)
    at = lines.index("constexpr int MATRICES = THREADS / LANES;  // of a block")
    number, name = next(line for line in reversed(lines[:at]) if line.startswith("#line ")).split()[1:]
    first = len(lines[:at]) - lines[:at][::-1].index(f"#line {number} {name}")
    own = Path(compilers.__file__).parent / "sinkhorn" / "sinkhorn.cu"
    assert own.read_text().splitlines()[int(number) - 1 + at - first] == lines[at]


def test_too_many_streams_and_a_target_that_is_not_here_are_refused():
    kernel = load("cpp", "sinkhorn")
    assert "takes up to 16" in kernel.supports(SinkhornSpec(17), None)
    inputs = SinkhornInputs(torch.zeros(2, 17, 17))
    with pytest.raises(NotSupportedError, match="there are 17 streams") as caught:
        kernel.run(inputs, empty_outputs(inputs))
    assert caught.value.stage == "lower"
    inputs = SinkhornInputs(torch.zeros(2, 4, 4))
    with pytest.raises(ValueError, match="target is sm_90, and the inputs are on a CPU"):
        kernel.run(inputs, empty_outputs(inputs), "sm_90")
