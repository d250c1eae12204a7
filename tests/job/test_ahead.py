"""A suite compiles ahead of time with a few lines: the service `kernel_matrix.job.ahead`, for Triton and TileLang."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from common import ROOT, python_of
from loops import at_least

from kernel_matrix.config.checks.names import unknown_targets
from kernel_matrix.job.ahead import Artifact, sent
from kernel_matrix.job.ahead.targets import TARGETS, LimitError, target_named
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.journal import Journal
from kernel_matrix.run.harness import copy_for_jobs
from kernel_matrix.tools.launches.targets import known

TRITON = """
    import json, triton, triton.language as tl
    from kernel_matrix.job import ahead
    from kernel_matrix.job.ahead.targets import LimitError

    @triton.jit
    def scale(x, y, n, factor, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at, at < n) * factor, at < n)

    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "factor": "fp32"}
    made = {}
    for target in ("sm_90", "gfx942"):
        for _ in range(2):  # the second time Triton's cache has it, and the figures are the same
            given = {"constants": {"SIZE": 256}, "options": {"num_warps": 4}, "aligned": ["n"]}
            one = ahead.of_triton(scale, target, types, **given)
            made.setdefault(target, []).append([one.kind, one.code[:4] == b"\\x7fELF", dict(one.resources)])
    for name, call in {
        "absent": lambda: ahead.of_triton(scale, "sm_90", {"x": "*fp32"}),
        "unknown": lambda: ahead.of_triton(scale, "sm_90", {**types, "z": "i32"}, constants={"SIZE": 256}),
        "target": lambda: ahead.of_triton(scale, "sm90", types, constants={"SIZE": 256}),
        "threads": lambda: ahead.of_triton(scale, "gfx942", types, constants={"SIZE": 2048}, options={"num_warps": 32}),
    }.items():
        try:
            made[name] = repr(call())
        except (ValueError, LimitError) as error:
            made[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(made))
"""

TILELANG = """
    import json, tilelang, tilelang.language as T
    from kernel_matrix.job import ahead

    @T.prim_func
    def add(x: T.Tensor((1024,), "float32"), y: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as block:
            for i in T.Parallel(128):
                y[block * 128 + i] = x[block * 128 + i] + 1.0

    one = ahead.of_tilelang(add, TARGET)
    print(json.dumps([one.kind, len(one.code), dict(one.resources)]))
"""


def in_environment(toolchain: str, program: str, tmp_path: Path) -> object:
    """Run a program in the environment of a toolchain with what jobs have of the harness; return what it prints."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(copy_for_jobs(tmp_path)),
        "HOME": str(tmp_path),
    }
    done = subprocess.run([python_of(toolchain), path], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.environments
@pytest.mark.slow
def test_a_kernel_of_triton_is_compiled_for_both_vendors(tmp_path):
    made = in_environment("triton-3.7", TRITON, tmp_path)
    for target, kind in (("sm_90", "cubin"), ("gfx942", "hsaco")):
        first, second = made[target]
        assert first == second
        assert first[:2] == [kind, True]
        assert first[2]["registers"] > 0
        assert first[2]["threads"] == 4 * (32 if kind == "cubin" else 64)
    assert made["absent"] == "ValueError: scale: give y, n, factor, SIZE a type or a constant"
    assert made["unknown"].startswith("ValueError: scale has no argument 'z'")
    assert made["target"].startswith("ValueError: 'sm90' is no target")
    assert made["threads"] == "LimitError: a block has 2048 threads, and gfx942 has 1024"


@pytest.mark.environments
@pytest.mark.slow
def test_a_program_of_tilelang_becomes_source_for_amd(tmp_path):
    kind, size, figures = in_environment("tilelang-0.1.15", TILELANG.replace("TARGET", "'gfx942'"), tmp_path)
    assert (kind in ("hip-source", "hsaco"), size > 100, figures["threads"]) == (True, True, 128)


def test_the_limits_are_those_that_launches_are_held_to():
    for name, target in at_least(15, known().items()):
        described = target_named(name)
        assert (described.backend, described.warp) == (target.vendor.backend, target.facts["warp"])
        described.hold({"threads": target.facts["threads"], "shared": target.facts["shared"]})
        for figures in ({"threads": target.facts["threads"] + 1}, {"shared": target.facts["shared"] + 1}):
            with pytest.raises(LimitError, match=f"and {name} has"):
                described.hold(figures)


@pytest.mark.parametrize(
    ("target", "resources", "words"),
    [
        ("sm_90", {"shared": 227 * 1024.0, "threads": 1024.0}, ""),
        ("sm_90", {"shared": 227 * 1024.0 + 1}, "a block needs 232449 bytes of shared memory, and sm_90 has 232448"),
        ("sm_120", {"shared_bytes": 131072.0}, "a block needs 131072 bytes of shared memory, and sm_120 has 101376"),
        (
            "gfx942",
            {"shared": 0.0, "shared_bytes": 65537.0},
            "a block needs 65537 bytes of shared memory, and gfx942 has",
        ),
        ("gfx1100", {"threads": 1025.0}, "a block has 1025 threads, and gfx1100 has 1024"),
        ("gfx950", {"shared": 163840.0}, ""),
        ("sm_199", {"shared": 1e9}, ""),
        ("x86-64-v3", {"shared": 1e9, "threads": 1e6}, ""),
    ],
)
def test_a_case_of_what_its_target_cannot_launch_is_an_error_whoever_compiled_it(tmp_path, target, resources, words):
    planned = {"id": "a/b/c/d.forward/x", "name": "x", "op": "d", "direction": "forward", "axes": {}}
    planned |= {"target": target, "action": "compile"}
    case = RunningCase(
        {"backend": "good", "device": "cpu", "accuracy": {}}, planned, Journal(tmp_path / "journal.jsonl")
    )
    if not words:
        case.compiled("cubin", b"1", resources)
        assert case.facts["artifact.kind"] == "cubin"
        return
    with pytest.raises(LimitError, match=re.escape(words)) as raised:
        case.compiled("cubin", b"1", resources)
    assert raised.value.stage == "compile"
    assert "artifact.kind" not in case.facts, "what cannot be launched is no artifact"


def test_no_other_module_has_a_table_of_targets():
    """The emulators import nothing of the harness; what simulators and references can do is theirs alone."""
    own = ("gpu_emulators", "kernel_matrix/tools/launches/simulators.py", "recorder/triton/emulated/reference.py")
    found = []
    for path in at_least(500, sorted((ROOT / "src").rglob("*.py"))):
        if path.name == "targets.py" or any(part in str(path) for part in own):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            several = [*getattr(node, "elts", ()), *(getattr(node, "keys", ()) if isinstance(node, ast.Dict) else ())]
            named = {one.value for one in several if isinstance(one, ast.Constant) and one.value in TARGETS}
            if len(named) > 2:
                found.append(f"{path}:{node.lineno}: {sorted(named)}")
    assert found == []
    assert len(TARGETS) > 20


def test_a_target_that_nobody_knows_is_named_and_its_results_are_as_good(matrix, monkeypatch):
    assert list(unknown_targets(matrix)) == []
    assert set(known()) <= TARGETS.keys()
    cuda, rocm = (matrix.platforms[name] for name in ("cuda", "rocm"))
    others = {
        "cuda": cuda.model_copy(update={"targets": [*cuda.targets, "sm_90a", "sm_100f", "sm_999"]}),
        "rocm": rocm.model_copy(update={"targets": [*rocm.targets, "gfx9422"]}),
    }
    found = list(unknown_targets(matrix.model_copy(update={"platforms": {**matrix.platforms, **others}})))
    assert [sentence.partition(", so")[0] for sentence in found] == [
        "platforms.cuda.targets: nothing is known of 'sm_999'",
        "platforms.rocm.targets: nothing is known of 'gfx9422'",
    ]
    assert "Did you mean 'gfx942'?" in found[1]
    assert target_named("sm_999").shared is None


def test_several_artifacts_are_sent_by_their_names():
    told, codes = sent({"a": Artifact("cubin", b"12", {"registers": 3}), "b": Artifact("cubin", b"3")})
    assert told["a"] == {"kind": "cubin", "resources": {"registers": 3}}
    assert (codes["a"].tobytes(), codes["b"].tobytes()) == (b"12", b"3")
