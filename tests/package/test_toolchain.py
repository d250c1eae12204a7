"""Backends share the finding of nvcc, the reading of its report, and the cache."""

from __future__ import annotations

import errno
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from kernel_matrix.job.ahead import figures
from mhc.backends.tilelang import headers
from mhc.toolchain import cache, compilers, intel

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 0 barriers
"""
CLANG = """\
kernel.hip:3:1: remark:     TotalSGPRs: 24 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:3:1: remark:     VGPRs: 61 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:3:1: remark:     ScratchSize [bytes/lane]: 8 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:3:1: remark:     VGPRs Spill: 2 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:3:1: remark:     LDS Size [bytes/block]: 2048 [-Rpass-analysis=kernel-resource-usage]
"""


def test_of_several_kernels_the_most_that_one_uses_is_reported():
    assert compilers.ptxas_resources(PTXAS) == {
        "registers": 168,
        "stack_bytes": 16,
        "shared_bytes": 512,
        "spill_bytes": 8,
    }
    assert compilers.clang_resources(CLANG) == {
        "registers": 61,
        "stack_bytes": 8,
        "shared_bytes": 2048,
        "spill_bytes": 8,
    }
    assert compilers.ptxas_resources("nothing of the kind") == {}


def test_the_package_and_the_harness_count_spills_alike():
    """Bytes that a thread stores, whoever counts them: ptxas the bytes, AMD's compilers vector registers."""
    metadata = "amdhsa.kernels:\n  - .vgpr_spill_count: 2\n    .sgpr_spill_count: 3\n"
    counted = [
        (figures.figures_of_log(PTXAS)["spills"], compilers.ptxas_resources(PTXAS)["spill_bytes"]),
        (figures.figures_of_clang(CLANG)["spills"], compilers.clang_resources(CLANG)["spill_bytes"]),
        (figures.figures_of_amd(metadata)["spills"], 8),
    ]
    assert counted == [(8, 8)] * 3
    assert figures.figures_of_amd(metadata)["scalar_spills"] == 3
    text = (Path(compilers.__file__).parents[1] / "backends" / "triton" / "ahead.py").read_text(encoding="utf-8")
    assert 'resources["spill_bytes"] *= 4' in text, "Triton is not in this environment"


# What ocloc 26.27 writes for a kernel without scratch, and for one that spills; sizes of zero are left out.
ZE_INFO = """\
version:         '1.73'
kernels:
  - name:            first
    execution_env:
      barrier_count:   1
      grf_count:       128
      slm_size:        6880
    payload_arguments:
      - arg_type:        global_id_offset
        size:            12
  - name:            second
    execution_env:
      grf_count:       256
      private_size:    2048
      spill_size:      512
"""


def test_of_several_kernels_of_an_intel_binary_the_most_is_reported():
    assert intel.figures(ZE_INFO) == {
        "registers": 256,
        "stack_bytes": 2048,
        "shared_bytes": 6880,
        "spill_bytes": 512,
    }
    assert intel.figures(ZE_INFO.partition("  - name:            second")[0])["spill_bytes"] == 0
    with pytest.raises(RuntimeError, match="describes no kernel"):
        intel.figures("version: '1.73'")


@pytest.fixture
def ocloc(tmp_path, monkeypatch):
    """Put a program in the place of Intel's compiler; it knows one device."""
    program = tmp_path / "bin" / "ocloc"
    program.parent.mkdir()
    program.write_text(f"""#!{sys.executable}
import pathlib, sys
if "bmg" not in sys.argv:
    sys.exit("Could not determine device target: " + sys.argv[sys.argv.index("-device") + 1])
if sys.argv[1] == "compile":
    source = pathlib.Path(sys.argv[sys.argv.index("-file") + 1]).read_bytes()
    pathlib.Path("made").mkdir()
    pathlib.Path("made/kernel_bmg.bin").write_bytes(b"of " + source)
else:
    pathlib.Path("parts").mkdir()
    pathlib.Path("parts/.ze_info").write_text({ZE_INFO!r})
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_ocloc_is_asked_for_the_binary_and_for_its_description(ocloc):
    assert intel.find_ocloc() == str(ocloc)
    data, figures = intel.machine_code(str(ocloc), "bmg", "source")
    assert (data, figures["registers"]) == (b"of source", 256)
    with pytest.raises(RuntimeError, match="Could not determine device target: dg2"):
        intel.machine_code(str(ocloc), "dg2", "source")


def test_without_ocloc_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert intel.find_ocloc() is None


@pytest.fixture
def no_packages(monkeypatch):
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)


def test_nvcc_of_cuda_home_goes_before_the_one_on_path(no_packages, monkeypatch, tmp_path):
    for name in ("home", "path"):
        nvcc = tmp_path / name / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text("#!/bin/sh\n")
        nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert compilers.find_nvcc() == str(tmp_path / "home" / "bin" / "nvcc")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    assert compilers.find_nvcc() == str(tmp_path / "path" / "bin" / "nvcc")


def test_no_nvcc_is_said_with_the_places_that_were_looked_at(no_packages, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    with pytest.raises(FileNotFoundError, match="nvcc is missing: neither among this environment's packages"):
        compilers.find_nvcc()


def test_a_compiler_s_own_words_are_the_error():
    failing = [sys.executable, "-c", "import sys; sys.exit('error: no such thing')"]
    with pytest.raises(RuntimeError, match=r"^error: no such thing\s*$"):
        compilers.compile_source(failing, "text", ".cu", ".cubin")


def test_a_compiler_gets_the_source_and_its_output_comes_back():
    copy = "import sys; open(sys.argv[-2], 'wb').write(open(sys.argv[-1], 'rb').read()[::-1]); print('log')"
    data, log = compilers.compile_source([sys.executable, "-c", copy], "source", ".cu", ".cubin")
    assert (data, log.strip()) == (b"ecruos", "log")


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return b"code\nwith a line", {"log": f"call {self.calls}"}


def test_code_is_made_once_for_each_key(monkeypatch, tmp_path):
    monkeypatch.setenv("MHC_CACHE_DIR", str(tmp_path / "cache"))
    make = Counting()
    first = cache.cached(lambda: ["a", "b"], make)
    assert cache.cached(lambda: ["a", "b"], make) == first == (b"code\nwith a line", {"log": "call 1"})
    assert cache.cached(lambda: ["a b"], make)[1] == {"log": "call 2"}
    assert len(list((tmp_path / "cache").iterdir())) == 2, "an entry is one file, and no part is left"


DAMAGES = {
    "cut": lambda entry: entry[:-1],
    "empty": lambda entry: b"",
    "of another shape": lambda entry: b"[]\n",
    "changed": lambda entry: entry.replace(b"call 1", b"call 9"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_made_again(monkeypatch, tmp_path, damage):
    monkeypatch.setenv("MHC_CACHE_DIR", str(tmp_path))
    make = Counting()
    cache.cached(lambda: ["key"], make)
    [entry] = tmp_path.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.cached(lambda: ["key"], make)[1] == {"log": "call 2"}
    assert cache.cached(lambda: ["key"], make)[1] == {"log": "call 2"}


def half_of_it(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_code_is_made_where_the_folder_takes_no_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MHC_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert cache.cached(lambda: ["key"], Counting())[1] == {"log": "call 1"}
    monkeypatch.setenv("MHC_CACHE_DIR", str(tmp_path / "full"))
    monkeypatch.setattr(Path, "write_bytes", half_of_it)
    assert cache.cached(lambda: ["key"], Counting())[1] == {"log": "call 1"}
    assert list((tmp_path / "full").iterdir()) == [], "no part is left"


def test_a_thread_waits_for_what_another_one_makes(monkeypatch, tmp_path):
    monkeypatch.setenv("MHC_CACHE_DIR", str(tmp_path))
    make, began = Counting(), threading.Event()

    def slowly():
        began.set()
        time.sleep(0.2)
        return make()

    first = threading.Thread(target=lambda: cache.cached(lambda: ["key"], slowly))
    first.start()
    began.wait()
    assert cache.cached(lambda: ["key"], make)[1] == {"log": "call 1"}
    first.join()
    assert make.calls == 1


def test_the_folder_is_the_user_s_where_none_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("MHC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.cached(lambda: ["key"], Counting())
    assert len(list((tmp_path / "mhc").iterdir())) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    assert cache.cached(lambda: ["key"], Counting())[1] == {"log": "call 1"}


def test_without_a_folder_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("MHC_CACHE_DIR", "")
    make = Counting()
    for _ in range(2):
        cache.cached(lambda: pytest.fail("the key is not needed"), make)
    assert make.calls == 2


def test_a_compiler_is_known_by_its_version_and_by_what_native_means_here():
    compiler = shutil.which("g++") or pytest.skip("needs g++")
    plain, native = compilers.identity(compiler), compilers.identity(compiler, ("-O3", "-march=native"))
    assert native.startswith(plain)
    assert "#define __x86_64__ 1" in native or "#define __aarch64__ 1" in native


COMMON = """
// Pack two values.
TL_DEVICE unsigned __pack(const half_t x, const half_t y) {
  return 1;
}
TL_DEVICE unsigned __pack(const bfloat16_t x, const bfloat16_t y) {
  return 2;
}
"""


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ("out[0] = expf(x[0]) + min(i, 3);", []),
        ("bfloat16_t v = x[0]; out[0] = rsqrtf((float)v);", ["bfloat16_t"]),
        ("half_t v = x[0];", ["half_t"]),
    ],
)
def test_a_plain_kernel_gets_the_headers_of_its_types_alone(tmp_path, body, types):
    short = headers.with_few_headers(cuda_source(body), templates(tmp_path))
    assert short is not None
    assert [name for name in ("bfloat16_t", "half_t") if f"using cutlass::{name};" in short] == types
    assert "tl_templates" not in short
    assert short.endswith(cuda_source(body).split("\n\n")[1])


def test_a_function_of_the_templates_is_taken_from_there_for_the_types_of_the_kernel(tmp_path):
    short = headers.with_few_headers(cuda_source("bfloat16_t v; u = __pack(v, v);"), templates(tmp_path))
    assert "return 2;" in short
    assert "return 1;" not in short


@pytest.mark.parametrize(
    "body",
    [
        "tl::gemm_ss<16>(a, b, c);",
        "out[0] = hexp(x[0]);",  # a macro of the templates
        "bfloat16_t v = max((bfloat16_t)x[0], y);",  # an overload of theirs
        "unknown(x);",
    ],
)
def test_a_kernel_that_may_use_the_templates_keeps_them(tmp_path, body):
    assert headers.with_few_headers(cuda_source(body), templates(tmp_path)) is None


def cuda_source(body):
    return (
        "#include <tl_templates/cuda/copy.h>\n#include <tl_templates/cuda/debug.h>\n\n"
        f'extern "C" __global__ void __launch_bounds__(128, 1) k(float* x, float* out, int i) {{\n{body}\n}}\n'
    )


def templates(folder):
    path = folder / "tl_templates" / "cuda" / "common.h"
    path.parent.mkdir(parents=True)
    path.write_text(COMMON)
    return folder
