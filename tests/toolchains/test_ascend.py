"""The kernels for Ascend NPUs: their equations on a CPU, and that 'lowered' is said only of real code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from common import python_of
from in_environment import records_of, run

from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # the matrix lowers these kernels

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("ascend.py")
# Beyond a few roundings of the dtype; a kernel with a wrong term is off by more than a tenth.
MOST = {"float32": 2e-6, "bfloat16": 1e-2}
OUTPUTS = {
    ("mhc_pre", "forward"): {"h_in", "h_post", "h_res", "m", "r"},
    ("mhc_pre", "backward"): {"x", "phi", "alpha", "bias", "gamma"},
    ("mhc_post", "forward"): {"out"},
    ("mhc_post", "backward"): {"x", "y", "h_post", "h_res"},
    ("mhc_head", "forward"): {"out", "m", "r"},
    ("mhc_head", "backward"): {"x", "phi", "alpha", "bias", "gamma"},
    ("sinkhorn", "forward"): {"matrix"},
    ("sinkhorn", "backward"): {"logits"},
    ("expand", "forward"): {"out"},
    ("expand", "backward"): {"x"},
}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """Read the project's own matrix.yaml."""
    return load(ROOT / "matrix.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "platform", "toolchain", "variables"),
    [
        ("triton", "cpu-llvm", "triton-3.7", {"TRITON_INTERPRET": "1"}),
        ("tilelang", "ascend", "tilelang-ascend-0.1.15", {}),
    ],
)
def test_the_equations_of_every_kernel_are_right_on_a_cpu(which, platform, toolchain, variables):
    """Triton's interpreter runs the device functions, and g++ compiles the AscendC with a header that stands in."""
    text = run(python_of(toolchain, platform), str(PROGRAM), which, "few", **variables)
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("RESULT ")]
    seen: dict[tuple[str, str], set[str]] = {}
    for op, direction, dtype, _, _, output, error in lines:
        seen.setdefault((op, direction), set()).add(output)
        assert float(error) < MOST["float32" if op == "sinkhorn" else dtype], (op, direction, dtype, output, error)
    few = {("mhc_pre", "forward"), ("mhc_pre", "backward"), ("sinkhorn", "backward")}
    assert seen == {cell: names for cell, names in OUTPUTS.items() if which == "triton" or cell in few}


LOOKED_AT = """
import sys
import torch
from mhc.backends import load
from mhc.ops.mhc_post import MhcPostSpec

backend, target = sys.argv[1:]
artifact = load(backend, "mhc_post").compile(MhcPostSpec(4, 64, torch.float32), target)
print("ARTIFACT", artifact.kind, len(artifact.data), artifact.is_machine_code)
text = artifact.data.decode()
if backend == "triton_ascend":
    from mhc.backends.triton_ascend.hivm import check

    name = "mhc_post_kernel"
    wrong = {
        "no store": text.replace("store_ubuf_to_gm", "load"),
        "no flags": text.replace("set_flag", "set"),
        "an operation of before": text + "\\n  %0 = linalg.fill ins(%1)",
        "another name": text.replace("@mhc_post_kernel", "@k"),
    }
else:
    from mhc.backends.tilelang_ascend.ascendc import check

    name = "mhc_post"
    wrong = {
        "no store": text.replace("asc_copy_ub2gm", "asc_copy"),
        "another name": text.replace("mhc_post_kernel", "k"),
        "an uncalled function": text.replace("asc_vf_call<", "asc_vf<"),
    }
check(text, name)
for fault, faulty in {"nothing": "", **wrong}.items():
    try:
        check(faulty, name)
    except RuntimeError as error:
        print("REFUSED", fault)
    else:
        print("TAKEN", fault)
"""


@pytest.mark.parametrize(
    ("toolchain", "backend", "target", "kind", "faults"),
    [
        ("triton-ascend-3.2", "triton_ascend", "ascend910b2", "hivm-source", 5),
        ("tilelang-ascend-0.1.15", "tilelang_ascend", "ascend950", "ascendc-source", 4),
    ],
)
def test_lowered_is_said_only_of_a_kernel_that_stores_something(toolchain, backend, target, kind, faults):
    """Each fault that is put into what a compiler wrote is refused, and an empty text is."""
    text = run(python_of(toolchain, "ascend"), "-c", LOOKED_AT, backend, target, PATH="/usr/bin:/bin")
    [(name, size, machine)] = re.findall(r"^ARTIFACT (\S+) (\d+) (\S+)$", text, re.MULTILINE)
    assert (name, machine) == (kind, "False")
    assert int(size) > 1000
    assert "TAKEN" not in text
    assert text.count("REFUSED") == faults


def test_a_case_is_lowered_and_no_better(tmp_path, matrix):
    case = "ascend/ascend910b2/triton-ascend-3.2/mhc_post.forward/tokens7-streams4-hidden200-bf16-scale1-seed0"
    [record] = records_of(tmp_path, [case])
    assert (record.action, record.facts["artifact.kind"]) == ("compile", "hivm-source")
