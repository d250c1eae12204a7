"""The parts of ``kernel-matrix launches`` that need neither triton nor torch."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from common import ROOT, records_in
from loops import at_least
from ruamel.yaml import YAML

from gpu_emulators.amd import decoding
from gpu_emulators.nvidia import launch
from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import locked
from kernel_matrix.config.load import load
from kernel_matrix.config.model.operators import Op
from kernel_matrix.config.plan import outputs_not_named, plan
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.diagnosis.rule import read_rules
from kernel_matrix.job.ahead import figures, nvcc
from kernel_matrix.job.ahead.targets import TARGETS
from kernel_matrix.tools.launches import matrix_file, naming, shapes, targets, words
from kernel_matrix.tools.launches.inside.recorder import logs, texts, user_program
from kernel_matrix.tools.launches.invocation import Invocation, invocation
from kernel_matrix.tools.launches.recording import Compiled, Launch, Options, Recording, record
from kernel_matrix.tools.launches.records import write_records
from kernel_matrix.tools.launches.reproducer import reproducer
from kernel_matrix.tools.launches.study import study
from kernel_matrix.tools.launches.targets import emulated_targets, known, over_limits, targets_named, told, vendors
from kernel_matrix.tools.toolchains.issue_report import of_launch
from kernel_matrix.vendors import amd

LAUNCH = Launch(
    identity="0123456789abcdef",
    module="package.ops.norm",
    kernel="_norm_fwd",
    source="ab",
    types={"x": "*bf16", "weight": "*fp32", "out": "*bf16", "n": "i32"},
    special={},
    constants={"BLOCK": "64"},
    options={"num_warps": "4", "num_stages": "2"},
    tuned=None,
    grid="8",
    times=1,
    emulated=False,
    taken=True,
)


def recording(target: str, *launches: Launch) -> Recording:
    versions = {"package": "1.2", "triton": "3.6.0"}
    return Recording(
        known()[target].vendor, known()[target], (known()[target],), "", launches=launches, versions=versions
    )


def test_every_vendor_has_default_targets_and_is_told_one_of_its_own():
    assert [target.name for target in targets_named([])] == [
        *("sm_80", "sm_90", "sm_100", "sm_120"),
        *("gfx90a", "gfx942", "gfx950", "gfx1100"),
    ]
    for vendor in vendors():
        assert vendor.recorded_as in vendor.targets
        assert len(vendor.source) > 40, "where the limits come from"


def test_a_target_that_is_not_known_is_said_with_the_closest():
    with pytest.raises(UserError, match=r"--targets gfx943: there is no such target\. Did you mean 'gfx94"):
        targets_named(["gfx943"])


def test_a_program_may_be_told_another_target_of_the_same_vendor():
    chosen = told(["sm_100"], targets_named(["sm_90", "gfx942"]))
    assert {vendor: target.name for vendor, target in chosen.items()} == {"nvidia": "sm_100", "amd": "gfx942"}
    assert list(told([], targets_named(["gfx1100"]))) == ["amd"], "nothing is recorded for a vendor without targets"


def test_each_target_of_the_table_is_compiled_for_and_told_only_where_its_device_is_known():
    assert {one.name for one in targets_named([*TARGETS])} == {*TARGETS}
    assert over_limits(known()["sm_121"], {"threads": 1025}) == "a block has 1025 threads, and sm_121 has 1024"
    with pytest.raises(UserError, match=r"--told: sm_121: no line of targets.toml says what its device is"):
        told(["sm_121"], targets_named(["sm_121"]))
    assert {one.name for one in known().values() if "device" not in one.facts}.isdisjoint(emulated_targets())


@pytest.mark.parametrize(
    ("target", "figures", "fault"),
    [
        ("sm_90", {"threads": 1024, "shared": 232448}, ""),
        ("sm_90", {"threads": 1056, "shared": 0}, "has 1056 threads, and sm_90 has 1024"),
        ("sm_120", {"threads": 128, "shared": 101377}, "needs 101377 bytes of shared memory, and sm_120 has 101376"),
        ("sm_100", {"tensor_memory": 513}, "needs 513 columns of tensor memory, and sm_100 has 512"),
        ("gfx950", {"threads": 1024, "shared": 163840}, ""),
        ("gfx942", {"threads": 1024, "shared": 65537}, "needs 65537 bytes of shared memory, and gfx942 has 65536"),
    ],
)
def test_the_limits_of_a_launch_are_those_of_the_target(target, figures, fault):
    assert over_limits(known()[target], figures) == (fault and f"a block {fault}")


def test_a_program_is_a_script_a_module_or_a_command_written_in_python(tmp_path, monkeypatch):
    python = sys.executable
    assert invocation([python, "-X", "dev", "-u", "calls.py", "-v"]).options == ("-X", "dev", "-u")
    assert invocation([python, "-m", "pytest", "-q"]).program == ("-m", "pytest", "-q")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, head in (
        ("short", f"#!{python}\n"),
        ("long", f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"),
    ):
        (tmp_path / name).write_text(head)
        (tmp_path / name).chmod(0o755)
        made = invocation([name, "-q"])
        assert (made.python, made.program) == (python, (str(tmp_path / name), "-q"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "there is no program"),
        (["no-such-command-here"], "there is no such command"),
        ([sys.executable], "this names no program"),
        ([sys.executable, "-m"], "this names no program"),
        (["/bin/sh", "run.sh"], "this is not written in Python"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_words(given, message):
    with pytest.raises(UserError, match=message):
        invocation(given)


def test_kernels_of_one_name_are_named_with_their_module():
    other = replace(LAUNCH, module="package.other", identity="f" * 16)
    assert naming.op_names([LAUNCH]) == {("triton", "package.ops.norm", "_norm_fwd"): "norm_fwd"}
    assert sorted(naming.op_names([LAUNCH, other]).values()) == ["norm-norm_fwd", "other-norm_fwd"]


def test_a_case_is_named_by_types_options_and_a_part_of_its_identity():
    same = replace(LAUNCH, identity="01234567ffffffff")
    assert naming.case_axes([LAUNCH])[LAUNCH.identity] == {
        "types": "bf16.fp32",
        "options": "w4.s2",
        "launch": "x01234567",
    }
    assert len({axes["launch"] for axes in naming.case_axes([LAUNCH, same]).values()}) == 2


def test_the_matrix_that_is_written_loads_and_plans_each_launch_where_it_is_launched(tmp_path):
    alone = replace(LAUNCH, identity="f" * 16, constants={"BLOCK": "128"})
    elsewhere = replace(LAUNCH, identity="e" * 16, kernel="only_amd")
    recordings = [recording("sm_90", LAUNCH), recording("gfx942", LAUNCH, alone, elsewhere)]
    names = matrix_file.names_of(recordings)
    path = matrix_file.write(tmp_path, recordings, names, "package")
    cases = plan(load(path), "full").cases
    planned = sorted(f"{case.cell.target} {case.cell.op} {case.axes['launch']}" for case in cases if not case.exclusion)
    assert planned == [
        "gfx942 norm_fwd x01234567",
        "gfx942 norm_fwd xffffffff",
        "gfx942 only_amd xeeeeeeee",
        "sm_90 norm_fwd x01234567",
    ]
    [excluded] = [case for case in cases if case.exclusion]
    assert (excluded.cell.target, excluded.axes["launch"]) == ("sm_90", "xffffffff")


def test_nobody_is_told_to_name_the_outputs_of_a_launch_that_was_emulated(tmp_path):
    compiled = Compiled(LAUNCH.identity, "gfx942", "", 1.0, without="")
    recorded = replace(recording("gfx942", LAUNCH), compiled=(compiled,))
    path = matrix_file.write(tmp_path, [recorded], matrix_file.names_of([recorded]), "package")
    planned = plan(load(path), "full")
    assert [case.owed.outputs for case in planned.cases] == [()]
    assert outputs_not_named(planned) == ()


_STAYS = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_a_program_has_started_ends_with_the_command_that_a_signal_ends(tmp_path, number):
    (tmp_path / "program.py").write_text(_STAYS)
    harness = [sys.executable, "-m", "kernel_matrix", "launches", "--targets", "sm_90", "--"]
    command = [*harness, sys.executable, "program.py"]
    said = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([*command, str(said)], cwd=tmp_path, env=environment, start_new_session=True)
    try:
        end = time.monotonic() + 60
        while not (said.is_file() and said.read_text()) and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(60) != 0
        assert not Path("/proc", said.read_text()).exists()
    finally:
        process.kill()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(said.read_text()), signal.SIGKILL)


def test_a_launch_outside_of_the_sample_is_excluded_with_that_reason(tmp_path):
    recordings = [
        recording("sm_90", LAUNCH, replace(LAUNCH, identity="f" * 16, taken=False)),
        recording("gfx942", LAUNCH, replace(LAUNCH, identity="f" * 16)),
    ]
    path = matrix_file.write(tmp_path, recordings, matrix_file.names_of(recordings), "package")
    [rule] = load(path).exclusions
    assert rule.reason == "launched as well, and not in the sample that is compiled"


def test_the_package_is_that_of_most_kernels():
    assert naming.package_of([recording("sm_90", LAUNCH, replace(LAUNCH, module="__main__", kernel="k"))]) == (
        "package",
        "1.2",
    )
    assert naming.package_of([recording("sm_90", replace(LAUNCH, module="__main__"))])[0] == "program"


def test_a_program_that_does_not_end_well_is_said():
    lines = list(words.recorded_lines(replace(recording("sm_90", LAUNCH), fault="KeyError: 'x' (calls.py:3)")))
    assert "did not end well, so what it would launch later is not known: KeyError" in lines[1]


def test_the_sample_is_said():
    assert words.sample_of(Options(configurations=None, specialisations=None)) == (
        "Compiled: of each kernel every specialisation, and of an autotuned one every configuration."
    )
    assert words.sample_of(Options(configurations=1, specialisations=5)) == (
        "Compiled: of each kernel at most 5 specialisations, and of an autotuned one the first configuration."
    )


# What Triton's pass manager leaves behind: the error, the module, and the pass in which it was.
OF_MLIR = """\
/a/b.py:17:26: error: 'tt.load' op operation destroyed but still has uses
#mma = x
module {
}
#-}
/a/b.py:40:0: error: Failures have been detected while processing an MLIR pass pipeline
/a/b.py:40:0: note: Pipeline failed while executing [`TritonAMDGPUPipeline` on 'builtin.module' operation]
"""
OF_AN_ASSERTION = "python: /x.cpp:1433: int f(): Assertion `a == b' failed.\nmodule {\n"
WITHOUT_WORDS = "CompileTimeAssertionFailure: at 42:4:\n):\n    tl.static_assert(N <= D)\n    ^\n"
SAYS_NOTHING = "RuntimeError: PassManager::run failed"


@pytest.mark.parametrize(
    ("error", "log", "message"),
    [
        ("ValueError: no such option", "", "ValueError: no such option"),
        ("CompilationError: at 3:4:\n  tl.store(\n  ^\nno such shape", "", "CompilationError: no such shape"),
        (SAYS_NOTHING, OF_MLIR, "'tt.load' op operation destroyed but still has uses, in TritonAMDGPUPipeline"),
        (SAYS_NOTHING, OF_AN_ASSERTION, "Assertion `a == b' failed."),
        (WITHOUT_WORDS, "", "CompileTimeAssertionFailure: tl.static_assert(N <= D)"),
        (SAYS_NOTHING, "nothing more", SAYS_NOTHING),
        ("", "LLVM ERROR: out of memory\nstack dump", "LLVM ERROR: out of memory"),
        ("", "", ""),
    ],
)
def test_a_message_says_what_the_compiler_says(error, log, message):
    assert logs.message_of(error, log) == message


def test_a_log_is_kept_without_the_module_that_the_compiler_failed_at():
    assert "module {" not in logs.shortened(OF_MLIR)
    assert "Pipeline failed" in logs.shortened(OF_MLIR)


def test_a_long_log_keeps_its_beginning_and_its_end():
    log = "first\n" + "x" * 100_000 + "\nlast"
    kept = logs.shortened(log)
    assert kept.startswith("first")
    assert kept.endswith("last")
    assert len(kept) < 6_000


def test_the_size_of_code_is_that_of_its_sections():
    names = b"\0.text.kernel\0.data\0.names\0"
    header = bytearray(64)
    header[:5] = b"\x7fELF\x02"
    sections = [(0, 0, 0), (1, 640, 4), (14, 100, 4), (20, len(names), 64)]
    struct.pack_into("<Q", header, 0x28, 64 + len(names))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sections), 3)
    table = b"".join(
        struct.pack("<IIQQQQ", name, 0, 0, 0, offset, size).ljust(64, b"\0") for name, size, offset in sections
    )
    assert figures.code_bytes(bytes(header) + names + table) == 640
    assert figures.code_bytes(b"no object") == 0


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("pass", user_program.Status(0)),
        ("import sys; sys.exit(3)", user_program.Status(3, "it ended with status 3")),
        ("raise KeyError('x')", user_program.Status(1, "KeyError: 'x' (<string>:1)")),
        ("raise SystemExit('no')", user_program.Status(1, "no")),
    ],
)
def test_a_program_ends_as_python_would_end_it(text, status, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["before"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert user_program.run(["-c", text]) == status


INSIDE = Path(user_program.__file__).parents[1]
LOADED = "import sys; print(*sys.path, sep='\\n'); print(*sys.modules)"


def test_the_recorder_imports_of_the_harness_what_compiles_ahead_and_what_changes_modules():
    """It runs in the environment of the user's program, which does not have the harness's libraries."""
    texts = [path.read_text() for path in at_least(30, INSIDE.rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"(?:import|from) (kernel_matrix[\w.]*)", text)}
    ahead = "kernel_matrix.job.ahead"
    own = "kernel_matrix.tools.launches.inside.recorder"
    assert {name for name in named if not name.startswith(ahead)} == {
        "kernel_matrix.job",
        "kernel_matrix.job.importing",
        own,
    }


@pytest.mark.parametrize("options", [("-S",), ("-S", "-P"), ("-S", "-I")])
def test_a_python_without_any_library_records_and_its_program_sees_nothing_of_the_harness(options, tmp_path, capfd):
    given, made = Options(cache=tmp_path / "cache", jobs=1), Invocation(sys.executable, options, ("-c", LOADED))
    done = record(made, known()["sm_90"], [known()["sm_90"]], given, tmp_path / "recorded")
    assert (done.fault, done.launches) == ("", ())
    *paths, modules = capfd.readouterr().out.splitlines()
    subprocess.run([sys.executable, *options, "-c", LOADED], check=True)
    *plain, own = capfd.readouterr().out.splitlines()
    assert paths == plain
    loaded = {name.partition(".")[0] for name in {*modules.split()} - {*own.split()}}
    assert loaded <= {*sys.stdlib_module_names, "kernel_matrix"}


def test_the_shapes_of_calls_are_axes_and_cases_with_their_number():
    calls = {
        '{"x": ["bfloat16", 4, 64], "w": ["bfloat16", 64], "out": ["bfloat16", 4, 64], "n_cols": 64, "eps": 1e-6}': 3,
        '{"x": ["bfloat16", 8, 64], "w": ["bfloat16", 64], "out": ["bfloat16", 8, 64], "n_cols": 64, "eps": 1e-6}': 5,
        '{"x": ["bfloat16", 8, 64], "w": ["bfloat16", 64], "out": ["bfloat16", 8, 64], "n_cols": 64, "eps": 1e-5}': 1,
        '{"x": ["float32", 4, 128], "w": ["float32", 128], "out": ["float32", 4, 128], "n_cols": 128, "eps": 1e-6}': 1,
    }
    found = shapes.shapes_of(calls)
    assert found.axes == ["x_0", "n_cols"]
    assert found.arguments == {"x": "[x_0, n_cols]", "w": "[n_cols]", "out": "[x_0, n_cols]"}
    assert [(dict(values), count) for values, count in found.calls.items()] == [
        ({"x_0": 8, "n_cols": 64, "dtype": "bf16"}, 6),
        ({"x_0": 4, "n_cols": 64, "dtype": "bf16"}, 3),
        ({"x_0": 4, "n_cols": 128, "dtype": "fp32"}, 1),
    ]


@pytest.mark.parametrize(
    ("calls", "axes", "first"),
    [
        ({'{"X": ["int32", 3]}': 1}, ["x_0"], {"x_0": 3}),
        ({'{"x": ["float16", 3], "dtype": 3}': 1}, ["dtype_size"], {"dtype_size": 3, "dtype": "fp16"}),
        ({'{"x": ["float16", 3], "b": ["float16", 5]}': 1, '{"x": ["float16", 3]}': 2}, ["x_0", "b_0"],
         {"x_0": 3, "b_0": 0, "dtype": "fp16"}),
        ({'{"_n": 2, "x": ["float32", 2, 2]}': 1}, ["n"], {"n": 2, "dtype": "fp32"}),
        ({'{"x": ["float32", 2], "X": ["float32", 7]}': 1}, ["x_0", "x_0_2"], {"x_0": 2, "x_0_2": 7, "dtype": "fp32"}),
        ({'{"x": ["float32"], "n": 4}': 1}, [], {"dtype": "fp32"}),
        ({'{"x": ["float32", 4], "flag": true, "n": 4}': 1}, ["n"], {"n": 4, "dtype": "fp32"}),
        ({'{"x": ["float32", 1], "flag": true}': 1}, ["x_0"], {"x_0": 1, "dtype": "fp32"}),
    ],
)  # fmt: skip
def test_an_axis_has_a_name_of_its_own_that_a_matrix_can_have(calls, axes, first):
    found = shapes.shapes_of(calls)
    assert found.axes == axes
    assert dict(next(iter(found.calls))) == first


def test_the_written_cases_are_operators_of_a_matrix():
    many = {json.dumps({"x": ["bfloat16", size, 64], "n": 64}): size for size in range(1, 12)}
    launch = replace(LAUNCH, calls=many)
    text = shapes.page(
        [
            recording("sm_90", launch),
            recording("gfx942", launch),
            recording("sm_90", replace(LAUNCH, kernel="no", identity="e" * 16)),
        ],
        "python calls.py",
    )
    ops = YAML(typ="safe").load(text)["ops"]
    op = Op(**ops["norm_fwd"])
    assert (op.axes, len(op.cases["quick"]), len(op.cases["full"])) == (["x_0", "n"], 8, 11)
    assert op.cases["quick"][0] == {"x_0": 11, "n": 64, "dtype": "bf16"}
    assert "norm_fwd: # package.ops.norm._norm_fwd of triton, 66 calls" in text, "the run for one vendor counts"
    assert "{ x_0: 11, n: 64, dtype: bf16 } # 11 calls" in text
    assert "# no: it was called with no tensor" in text


RULES = read_rules(Path(targets.__file__).with_name("rules.yaml"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_example_of_a_rule_is_known_by_that_rule(rule):
    found = diagnose(rule.example, rule.example_stage, rules=RULES)
    assert found
    assert found.rule == rule.name


def test_a_program_that_repeats_a_launch_has_all_that_the_compiler_is_given():
    launch = replace(
        LAUNCH,
        names=("x", "n", "BLOCK"),
        types={"x": "*bf16", "n": "i32"},
        special={"x": "DS", "BLOCK": "64"},
        literals={"BLOCK": "64"},
        importable=True,
    )
    text, _ = reproducer(launch, known()["gfx942"])
    compile(text, "reproducer", "exec")
    for line in (
        "from package.ops.norm import _norm_fwd as kernel",
        "target = GPUTarget('hip', 'gfx942', 64)",
        "    'BLOCK': 'constexpr',",
        "    (0,): make_backend(target).parse_attr('DS'),  # x",
        "options = {'num_warps': 4, 'num_stages': 2}",
    ):
        assert line in text.splitlines()
    assert "GPUTarget('cuda', 90, 32)" in reproducer(launch, known()["sm_90"])[0]


def test_a_kernel_that_its_package_generated_comes_with_its_source():
    """Whoever has the program has no cache of the package."""
    source = b"norm = 'found'\n"
    launch = replace(
        LAUNCH, kernel="norm", names=("x",), types={"x": "*bf16"}, constants={}, program=texts.packed(source)
    )
    text, _ = reproducer(launch, known()["sm_90"])
    assert "from generated import norm as kernel" in text
    before = text.partition("while not")[0].replace("from triton", "# from triton").replace("import triton", "#")
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\nprint(kernel)"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "found\n", done.stderr


def test_there_is_no_such_program_where_a_constant_cannot_be_written():
    assert reproducer(replace(LAUNCH, importable=True), known()["sm_90"])[0] == ""
    assert reproducer(replace(LAUNCH, literals={"BLOCK": "64"}), known()["sm_90"])[0] == "", "it is in no module"


@pytest.mark.slow
def test_an_exception_of_the_autotuner_is_said_to_be_skipped(tmp_path):
    tuned = replace(LAUNCH, tuned=(1, 2))
    compiled = Compiled(LAUNCH.identity, "gfx942", "", 1.0, figures={"threads": 2048, "bytes": 10})
    recorded = replace(recording("gfx942", tuned), compiled=(compiled,))
    names = matrix_file.names_of([recorded])
    project = pipeline.load(matrix_file.write(tmp_path, [recorded], names, "package"), tmp_path)
    [path] = write_records(project, pipeline.plan(project, "full"), [recorded], names, "2026-01-01T00:00:00Z", ["x"])
    [record] = records_in(path)
    assert (record.outcome, record.stage) == ("error", "launch")
    assert record.message.startswith("a block has 2048 threads, and gfx942 has 1024; it is configuration 3")


@pytest.mark.parametrize(("python", "end"), [("/bin/false", "status 1"), ("dying", "signal 9")])
def test_a_program_that_dies_before_its_end_is_a_fault_and_no_result(python, end, tmp_path, monkeypatch):
    (tmp_path / "dying").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "dying").chmod(0o755)
    path = python if python.startswith("/") else str(tmp_path / python)
    target = known()["sm_90"]
    made = record(Invocation(path, (), ("calls.py",)), target, [target], Options(), tmp_path / "recorded")
    assert made.fault == f"it ended with {end} before its launches could be written down"
    assert made.taken == []


def test_where_nothing_was_launched_the_input_cannot_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "kernel_matrix.tools.launches.study.record",
        lambda call, device, targets, options, folder: recording("sm_90"),
    )
    with pytest.raises(UserError, match=r"there is nothing to compile\. sm_90: nothing was launched"):
        study([sys.executable, "calls.py"], targets_named(["sm_90"]), [], Options(), tmp_path, "", print)


@pytest.mark.slow
def test_a_vendor_that_the_program_refuses_is_on_the_page_with_what_the_program_said(tmp_path, monkeypatch):
    compiled = Compiled(LAUNCH.identity, "sm_90", "", 1.0, figures={"bytes": 10.0, "code_bytes": 8.0})
    refused = replace(recording("gfx942"), fault="RuntimeError: CUDA\nis needed")
    by_vendor = {"sm_90": replace(recording("sm_90", LAUNCH), compiled=(compiled,)), "gfx942": refused}
    monkeypatch.setattr("kernel_matrix.tools.launches.study.record", lambda call, device, *_: by_vendor[device.name])
    chosen = targets_named(["sm_90", "gfx942"])
    done = study([sys.executable, "calls.py"], chosen, ["sm_90", "gfx942"], Options(), tmp_path, "", print)
    cells = {cell.target: (cell.state, cell.reason) for cell in done.dashboard.document.cells}
    assert cells["sm_90"][0] == "compiled"
    assert cells["gfx942"][0] == "excluded"
    assert cells["gfx942"][1].endswith("runs on gfx942, and does not end well: RuntimeError: CUDA is needed")
    assert done.exit_status == 1


def test_two_studies_in_one_folder_do_not_disturb_each_other(tmp_path):
    folder = tmp_path / "build" / "launches"
    (folder / "recorded").mkdir(parents=True)
    of_the_other = folder / "recorded" / "recording.json"
    of_the_other.write_text("{}")
    with locked(tmp_path / "build" / "launches.lock"), pytest.raises(UserError, match="another run of launches is at"):
        study([sys.executable, "-c", ""], targets_named(["sm_90"]), [], Options(), folder, "own", print)
    assert of_the_other.read_text() == "{}"
    with pytest.raises(UserError, match="there is nothing to compile"):  # the lock is free again
        study([sys.executable, "-c", ""], targets_named(["sm_90"]), [], Options(), folder, "own", print)


def test_a_command_of_nvcc_is_repeated_as_a_command_of_the_shell():
    options = {"nvcc": "-std=c++17 -DNAME='a b'", "specific": "90", "source": "own kernel.cu"}
    launch = replace(LAUNCH, toolchain="nvcc", kernel="add", options=options)
    comment, command = reproducer(launch, known()["sm_90"])[0].splitlines()
    assert comment.startswith("# own kernel.cu of the package, its content has the sha256 ab...")
    words = shlex.split(command)
    assert words[:3] == ["nvcc", "-std=c++17", "-DNAME=a b"]
    assert "-arch=sm_90a" in words
    assert words[-1] == "own kernel.cu"
    assert "-arch=sm_120" in shlex.split(reproducer(launch, known()["sm_120"])[0], comments=True)
    assert reproducer(launch, known()["gfx942"])[0] == "", "hipcc gets another source"


@pytest.mark.parametrize(("target", "words"), [("sm_120", "(12, 0)"), ("gfx942", "'gfx942'")])
def test_a_program_of_tilelang_is_in_its_report(target, words):
    packed = base64.b64encode(zlib.compress(b"{}" * 500, 0)).decode()
    options = {"pass_configs": json.dumps({"tl.x": True}), "compile_flags": json.dumps("-O1")}
    text, _ = reproducer(replace(LAUNCH, toolchain="tilelang", program=packed, options=options), known()[target])
    tree = ast.parse(text)
    [held] = [n.value.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "PACKED"]
    assert zlib.decompress(base64.b64decode(held)) == b"{}" * 500
    assert words in text
    assert "config={'tl.x': True, 'tl.device_compile_flags': ['-O1']}" in text
    assert f"enable_device_compile={target == 'sm_120'}" in text
    assert reproducer(replace(LAUNCH, toolchain="tilelang"), known()[target])[0] == ""


@pytest.mark.parametrize(
    ("target", "compiler", "name"),
    [("sm_90", ("nvcc", "13.0.88"), "nvcc 13.0.88"), ("gfx942", ("hipcc", "7.0.51831"), "hipcc 7.0.51831")],
)
def test_the_report_of_a_source_that_does_not_compile_names_the_compiler_and_its_version(
    target, compiler, name, tmp_path
):
    launch = replace(LAUNCH, toolchain="nvcc", kernel="add.cu", options={"nvcc": "-O3"})
    failed = Compiled(launch.identity, target, "compile", 1, message="add.cu(3): error: no")
    recorded = replace(recording(target, launch), compiled=(failed,), compilers={"nvcc": compiler})
    names = matrix_file.names_of([recorded])
    project = pipeline.load(matrix_file.write(tmp_path, [recorded], names, "package"), tmp_path)
    planned = pipeline.plan(project, "full")
    [path] = write_records(project, planned, [recorded], names, "2026-01-01T00:00:00Z", ["x"])
    [record_of_it] = records_in(path)
    text = of_launch(planned.cases[0], record_of_it, "nvcc add.cu\n").markdown(project)
    assert text.startswith(f"# {name}: package.ops.norm.add.cu on {target}: add.cu(3): error: no")
    assert f"\n- {name}\n" in text.partition("## Versions")[2]


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0", "13.0.88"),
        ("HIP version: 7.0.51831-7c9236b16\nclang version 21.1.8", "7.0.51831"),
        ("a compiler of somebody", "a compiler of somebody"),
    ],
)
def test_the_version_of_a_compiler_is_taken_out_of_what_it_says(words, version, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\ncat << EOF\n{words}\nEOF\n")
    compiler.chmod(0o755)
    assert nvcc.version_of(str(compiler)) == version


def test_emulated_targets_are_the_same_for_the_emulators_the_vendor_and_the_command():
    assert {*emulated_targets()} == {*decoding.TARGETS, *launch.TARGETS}
    assert {*amd._EMULATED} == {*decoding.TARGETS}
