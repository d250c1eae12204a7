"""The headers of a CPU's kernel of TileLang: fewer of them give the same machine code."""

from __future__ import annotations

import platform
import shutil
import subprocess

import pytest

from mhc.backends.tilelang.headers import with_fetch, without_half

COMMON = """\
#pragma once

#include "half.hpp"
#include <math.h>

using half_float::half;
template <typename T, int N> struct vec_type { T data[N]; };
#define TL_DEFINE_VEC(T) using T##4 = vec_type<T, 4>;
TL_DEFINE_VEC(float)
TL_DEFINE_VEC(half)
"""
HALF = "#include <cmath>\n#include <cstdint>\nnamespace half_float { struct half { uint16_t bits; }; }\n"
HEAD = "#include <tl_templates/cpp/common.h>\n#include <tl_templates/cpp/gemm.h>\n"
KERNEL = """
extern "C" float expf(float);
extern "C" int32_t kernel(float* x, uint16_t* out, int32_t tokens) {
  float4 wide = *(float4*)x;
  for (int32_t i = 0; i < tokens; ++i) out[i] = (uint16_t)(expf(x[i]) + sqrtf(wide.data[i & 3]));
  return 0;
}
"""


@pytest.fixture
def templates(tmp_path):
    folder = tmp_path / "tl_templates" / "cpp"
    folder.mkdir(parents=True)
    for name, text in (("common.h", COMMON), ("gemm.h", "#pragma once\n"), ("half.hpp", HALF)):
        (folder / name).write_text(text)
    return tmp_path


def test_a_kernel_without_half_is_the_same_machine_code_without_its_library(templates, tmp_path):
    compiler = shutil.which("g++")
    assert compiler, "the tests of the package need g++, as its compiled backends do"
    short = without_half(HEAD + KERNEL, templates)
    assert "half" not in short
    assert "tl_templates" not in short
    made = []
    for source in (HEAD + KERNEL, short):
        path, into = tmp_path / "kernel.cc", tmp_path / "kernel.so"
        path.write_text(source)
        subprocess.run(
            [compiler, "-O3", "-std=c++17", "-w", "-shared", "-fPIC", f"-I{templates}", path, "-o", into], check=True
        )
        made.append(into.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("line", ["half v = half(1);", "half4* v;", "#include <vector>"])
def test_a_kernel_that_may_need_more_keeps_the_headers(templates, line):
    assert without_half(f"{HEAD}{line}\n{KERNEL}", templates) is None


@pytest.mark.parametrize(("name", "type_"), [("float32", "float"), ("uint16", "uint16_t")])
def test_a_kernel_that_fetches_early_has_what_it_calls_and_is_still_one_without_half(name, type_, templates, tmp_path):
    """TileLang declares what a kernel calls: that declaration and the definition have to go together."""
    declared = f'extern "C" void* mhc_fetch_{name}({type_}*);\n'
    body = f'extern "C" int32_t kernel({type_}* x) {{ mhc_fetch_{name}((&(x[64]))); return 0; }}\n'
    source = with_fetch(HEAD + declared + body)
    short = without_half(source, templates)
    assert short is not None
    path, into = tmp_path / "kernel.cc", tmp_path / "kernel.s"
    path.write_text(short)
    compiler = shutil.which("g++")
    assert compiler, "the tests of the package need g++, as its compiled backends do"
    subprocess.run([compiler, "-O3", "-std=c++17", "-w", "-S", path, "-o", into], check=True)
    assert "mhc_fetch" not in into.read_text(), "it is an instruction and no call"
    if platform.machine() == "x86_64":
        assert "prefetch" in into.read_text()


def test_a_kernel_that_does_not_fetch_stays_as_it_is():
    assert with_fetch(KERNEL) == KERNEL
