"""Probes: headers are data, verdicts are strict for success and for failure, and a probe that dies ends no other."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

import docs_tables
import pytest
from common import ROOT, Doubles, records_in
from loops import at_least

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.model import Tier
from kernel_matrix.config.plan import Job
from kernel_matrix.pipeline import load
from kernel_matrix.probes.expected import judge, judge_all, record_id
from kernel_matrix.probes.forked import first_imports, groups
from kernel_matrix.probes.probe import Probe, load_probes, select_probes
from kernel_matrix.probes.probe_toolchains import environments, probe_toolchains, probing, write
from kernel_matrix.probes.probing import last_exception, run_probes
from kernel_matrix.run.environments import venv
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Request
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

PROBES = at_least(80, load_probes(ROOT / "probes"))
HERE = Machine((Device("cpu", "test", ("any",)),))

HEADER = """\
# /// probe
# asks = "Does it hold what it promises?"
# means = "It holds what it promises."
# met = "a test"
# truth = "It was a test."
# requires = ["numpy"]
# {more}
# ///
"""


def make(folder: Path, name: str, program: str, more: str = '[[expect]]\n# verdict = "works"') -> Probe:
    path = folder / "family" / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER.replace("{more}", more) + textwrap.dedent(program))
    return next(probe for probe in load_probes(folder) if probe.path == path)


def fails(match: str, versions: str = "") -> str:
    where = f"\n# versions = [{versions!r}]" if versions else ""
    return f"[[expect]]{where}\n# verdict = \"fails\"\n# match = '{match}'"


def test_every_probe_says_what_it_asks_and_is_a_program_of_its_own():
    for probe in PROBES:
        text = probe.path.read_text()
        imported = {node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
        assert not any(name.startswith(("kernel_matrix", "mhc")) for name in imported), probe.id
        assert probe.asks.endswith("?"), probe.id
        assert probe.truth.endswith("."), probe.id
        assert (
            "assert" in text
            or "raise" in text
            or any(window.verdict == "fails" for window in probe.expect)
            or (probe.path.stem in ("imports", "cpu_dialect", "utils_target", "is_cpu"))
        ), f"{probe.id}: a program that cannot fail asks nothing"


def test_a_known_failure_is_not_any_failure():
    """If a pattern also matched a broken installation, every fault would look known."""
    foreign = [
        "OSError: site-packages/tvm/lib/libtvm_runtime.so: undefined symbol: _ZN3tvm3ffi4json9StringifyERKNS0_3AnyE",
        "ModuleNotFoundError: No module named 'numpy'",
        "the process died of SIGKILL in stage launch",
        "ImportError: cannot import name 'Tensor' from partially initialized module 'torch' (circular import)",
    ]
    for probe in (probe for probe in PROBES if probe.path.stem != "imports"):
        for window in (window for window in probe.expect if window.verdict == "fails"):
            assert not any(re.search(window.match, text) for text in foreign), f"{probe.id}: {window.match}"


# Failures that were met in other work, before there were probes.
MET = (
    "tilelang/assign_through_several_indices",
    "tilelang/lazy_jit",
    "tilelang/eager_jit",
    "tilelang/copy_instead_of_assignment",
    "tilelang/jit_stacked_on_prim_func",
    "tilelang/imports",
    "tilelang/nvcc_absent",
    "tvm/buffer_before_its_declaration",
    "tvm/te_slice",
    "tvm/te_nested_reduction",
    "tvm/te_power_of_slice",
    "tvm/te_create_schedule",
    "tvm/unequal_thread_extents",
    "tilelang/cpu_tensor_to_cuda_kernel",
    "tvm/shared_memory_over_48_kib_in_nvcc",
    "tvm/threads_2048",
    "tvm/axis_not_in_schedule",
    "tvm/no_gpu",
    "tilelang/llvm_target",
    "tvm/compile_for_cuda_without_nvcc",
    "tilelang/hip_headers_are_complete",
    "tvm/arch_not_named",
    "tilelang/is_cpu",
    "tilelang/utils_target",
    "tvm/nothing_bound_for_cuda",
    "tvm/shared_memory_512_kib",
    "triton/interpreter_dot_in_bf16",
    "tilelang/c_max_in_unrolled_loop",
    "tvm/nan_becomes_zero_in_bf16",
    "triton/where_between_pointers_amd",
)


@pytest.mark.slow
def test_every_failure_that_was_met_has_a_probe_and_its_sentence_in_the_documentation():
    page = docs_tables.filled((ROOT / "docs" / "toolchains.md").read_text(encoding="utf-8"))  # as the site has it
    truths = {probe.id: probe.truth for probe in PROBES}
    assert [name for name in at_least(10, MET) if truths[name] not in page] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print()\n", "a probe begins with a block"),
        (HEADER.replace("{more}", "asks ="), "its header is not TOML"),
        (HEADER.replace("{more}", 'wants = 1\n# [[expect]]\n# verdict = "works"'), "wants: Extra inputs"),
        (HEADER.replace("{more}", '[[expect]]\n# verdict = "fails"'), "says which error by 'match'"),
        (HEADER.replace("{more}", ""), "expect: Field required"),
    ],
)
def test_a_faulty_header_is_bad_input_with_the_file_s_name(tmp_path, text, message):
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "wrong.py").write_text(text)
    with pytest.raises(UserError, match=r"wrong\.py") as caught:
        load_probes(tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("outcome", "message", "version", "verdict"),
    [
        ("pass", "", "2.0", "works"),
        ("pass", "", "1.0", "changed"),
        ("error", "ValueError: old limit", "1.0", "known"),
        ("error", "ValueError: another", "1.0", "changed"),
        ("error", "ValueError: old limit", "2.0", "changed"),
        ("unavailable", "needs nvcc", "1.0", "unavailable"),
    ],
)
def test_a_verdict_is_strict_both_ways(tmp_path, outcome, message, version, verdict):
    probe = make(tmp_path, "one", "", fails("old limit", "numpy<2") + '\n# [[expect]]\n# verdict = "works"')
    record = Record(record_id("tool", probe), outcome, message=message, job={"version.numpy": version})
    assert judge(probe, "tool", record).verdict == verdict
    assert judge(probe, "tool", None).verdict == "missing"


@pytest.mark.slow
def test_a_probe_that_dies_or_hangs_costs_only_itself(tmp_path):
    make(tmp_path, "good", "print('fine')")
    make(tmp_path, "raises", "raise ValueError('exactly this')", fails("exactly this"))
    make(tmp_path, "aborts", "import os; os.abort()", fails("SIGABRT"))
    make(
        tmp_path, "hangs", "import time; time.sleep(60)", fails("no end after") + "\n# [[expect]]\n# verdict = 'works'"
    )
    make(tmp_path, "leaves", "import os; os._exit(7)")
    probes = [probe.model_copy(update={"seconds": 3.0}) for probe in load_probes(tmp_path)]
    records = run_probes(
        probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {"CACHE": "{cache}/x"}, workers=2
    )
    judged = {one.probe.path.stem: one for one in judge_all(probes, records, ["tool"])}
    assert {name: one.verdict for name, one in judged.items()} == {
        "good": "works",
        "raises": "known",
        "aborts": "known",
        "hangs": "known",
        "leaves": "changed",
    }
    assert judged["raises"].record.message == "ValueError: exactly this"
    assert "exit status 7" in judged["leaves"].record.message
    assert str(tmp_path) not in "".join(record.detail for record in records)


@pytest.mark.slow
def test_probes_that_begin_with_the_same_import_share_it_and_end_as_programs_of_their_own(tmp_path):
    """The same programs, with a statement before the import, are run apart: the records are the same."""
    parent = "import os, sys\nprint('parent', os.getppid())"
    programs = {
        "good": f"import numpy\n{parent}\nprint('fine', __name__, len(sys.argv), numpy.__name__)",
        "raises": "import numpy\n\ndef f():\n    raise ValueError('exactly this')\n\nf()",
        "aborts": "import numpy\nimport os\nos.abort()",
        "hangs": "import numpy\nimport time\ntime.sleep(60)",
        "leaves": "import numpy\nraise SystemExit('in words')",
        "source": "import numpy\nimport inspect\n\ndef f():\n    return 7\n\nprint(inspect.getsource(f))",
        "cache": f"import numpy\n{parent}\nprint(os.environ['CACHE'] == os.getcwd() + '/cache/x')",
    }
    records = {}
    for kind, before in (("shared", ""), ("apart", "pass\n")):
        (tmp_path / kind).mkdir()
        for name, program in programs.items():
            make(tmp_path / kind, name, before + program)
        probes = [probe.model_copy(update={"seconds": 5.0}) for probe in load_probes(tmp_path / kind)]
        assert len(groups(probes)) == (kind == "shared")
        made = run_probes(probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {"CACHE": "{cache}/x"})
        records[kind] = {record.case.split("/")[-1]: record for record in made}
    for name, record in records["shared"].items():
        apart = records["apart"][name]
        assert (record.outcome, record.stage, record.message) == (apart.outcome, apart.stage, apart.message)
        if name != "aborts":  # faulthandler prints the stack, where the common process is too
            assert without_numbers(record.detail) == without_numbers(apart.detail)
    parents = {re.search(r"parent (\d+)", records["shared"][name].detail)[1] for name in ("good", "cache")}
    assert len(parents) == 1
    assert "fine __main__ 1 numpy" in records["shared"]["good"].detail
    assert "return 7" in records["shared"]["source"].detail
    assert "True" in records["shared"]["cache"].detail
    assert records["shared"]["hangs"].stage == "timeout"
    assert records["shared"]["leaves"].detail.strip() == "in words"


def test_the_first_error_of_tvm_comes_before_the_probes_and_once_for_all(tmp_path):
    """Only the first error is slow: TVM reads symbols for its traceback, and a child of the process has them."""
    (tmp_path / "tvm_ffi.py").write_text(
        "import os\nmet = []\ndef get_global_func(name):\n    met.append(os.getpid())\n    raise TypeError(name)\n"
    )
    for name in ("one", "other"):
        make(
            tmp_path,
            name,
            "import tvm_ffi\nimport os\nprint('by the parent', [p == os.getppid() for p in tvm_ffi.met])",
        )
    probes = load_probes(tmp_path)
    records = run_probes(
        probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {"PYTHONPATH": str(tmp_path)}, workers=1
    )
    assert [(record.outcome, record.detail.strip()) for record in records] == [("pass", "by the parent [True]")] * 2


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


@pytest.mark.slow
def test_probes_of_a_package_that_does_not_import_are_run_apart_and_say_so(tmp_path):
    for name in ("one", "other"):
        make(tmp_path, name, f"import nowhere_at_all\nprint({name!r})")
    probes = load_probes(tmp_path)
    assert [group.modules for group in groups(probes)] == [("nowhere_at_all",)]
    records = run_probes(probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {})
    assert {record.message for record in records} == {"ModuleNotFoundError: No module named 'nowhere_at_all'"}


@pytest.mark.parametrize(
    ("program", "packages"),
    [
        ("import a.b\nfrom c import d\nimport os", {"a", "c"}),
        ("import os\nos.environ['X'] = ''\nimport a", set()),
        ('"""Words."""\nimport a\nx = 1\nimport b', {"a"}),
        ("this is no program", set()),
    ],
)
def test_only_the_imports_at_the_beginning_of_a_probe_are_shared(program, packages):
    assert first_imports(program) == packages


def test_a_probe_is_not_run_where_it_makes_no_sense_or_its_need_is_not_met(tmp_path):
    make(tmp_path, "elsewhere", "raise SystemExit(3)")
    path = tmp_path / "family" / "elsewhere.py"
    path.write_text(path.read_text().replace('requires = ["numpy"]', 'requires = ["a-package-nobody-has"]'))
    make(tmp_path, "gpu", "raise SystemExit(3)", 'needs = ["nvidia"]\n# [[expect]]\n# verdict = "works"')
    probes = load_probes(tmp_path)
    [record] = run_probes(probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {})
    assert record.outcome == "unavailable"
    assert "needs nvidia" in record.message


def test_records_of_probes_travel_as_tables_and_a_lost_one_is_missing(tmp_path):
    make(tmp_path, "good", "print('fine')")
    make(tmp_path, "other", "print('fine')")
    probes = load_probes(tmp_path)
    records = run_probes(probes, "tool", LocalInterpreter(Path(sys.executable)), HERE, {})
    path = write(tmp_path / "results", "tool", records, {"executor": "current"})
    back = records_in(path)
    assert [record.case for record in back] == ["probe/tool/family/good", "probe/tool/family/other"]
    assert back[0].job["version.numpy"]
    assert [one.verdict for one in judge_all(probes, back[:1], ["tool"])] == ["works", "missing"]


@pytest.mark.slow
def test_every_environment_of_the_project_is_probed_once(doubles: Doubles):
    """All toolchains of the doubles share one lock, so there is one environment."""
    doubles.edit("suite: suite,", "suite: suite, probes: probes,")
    (doubles.root / "probes").mkdir()
    make(doubles.root / "probes", "good", "print('fine')")
    make(doubles.root / "probes", "breaks", "raise OSError('No space left on device')")
    project = load(doubles.root / "matrix.yaml")
    probes = select_probes(project.matrix, project.root)
    [probed] = probe_toolchains(project, probes, [], HERE, "current")
    assert probed.changed
    assert {one.probe.id: one.verdict for one in probed.judged} == {"family/good": "works", "family/breaks": "changed"}
    assert "[disk-full]" in "\n".join(probed.lines), "the cause of what was not expected"
    assert [record.case for record in records_in(project.results, "probes.lock")] == [
        "probe/lock/family/breaks",
        "probe/lock/family/good",
    ]
    assert not next(probe_toolchains(project, probes[1:], ["good"], HERE, "current")).changed
    with pytest.raises(UserError, match=r"--toolchain goood: .* Did you mean 'good'"):
        next(probe_toolchains(project, probes, ["goood"], HERE, "current"))


def test_the_quick_tier_asks_a_probe_once_of_the_same_versions_and_the_full_one_everywhere(doubles: Doubles):
    doubles.edit("suite: suite,", "suite: suite, probes: probes,")
    doubles.edit(
        "toolchains:\n",
        "toolchains:\n  newer: { backend: good, lock: newer.txt }\n  equal: { backend: good, lock: equal.txt }\n",
    )
    (doubles.root / "lock.txt").write_text("numpy==2.0.0\npytest==9\n")
    (doubles.root / "newer.txt").write_text("numpy==2.1.0 ; python_version > '3'\n    # via nobody\n")
    (doubles.root / "equal.txt").write_text("numpy==2.0.0\n")
    (doubles.root / "probes").mkdir()
    make(doubles.root / "probes", "one", "print('fine')")
    project = load(doubles.root / "matrix.yaml")
    chosen = ["good", "newer", "equal"]

    def pieces(tier: Tier) -> list[str]:
        return [piece.args[0] for piece in probing(project, chosen, HERE, "current", print, tier=tier)]

    assert sorted(pieces("full")) == ["equal", "lock", "newer"]
    assert sorted(pieces("quick")) == ["equal", "newer"], "of the two with numpy 2.0.0 the smaller"


def test_a_probe_that_was_asked_of_the_same_versions_elsewhere_is_not_missing(tmp_path):
    first, second = (make(tmp_path, name, "print('fine')") for name in ("first", "second"))
    names = {"small": "1.0", "large": "1.0", "other": "2.0"}
    records = [
        Record(record_id(name, probe), "pass", "run", job={"version.Numpy": version, "version.torch": name})
        for name, version in names.items()
        for probe in (first, second)
        if name == "small" or probe is first
    ]
    judged = {
        (one.toolchain, one.probe.path.stem): one.verdict for one in judge_all((first, second), records, ["small"])
    }
    assert judged == {
        ("small", "first"): "works",
        ("small", "second"): "works",
        ("large", "first"): "works",
        ("other", "first"): "works",
        ("other", "second"): "missing",
    }


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_is_said_with_its_cause(doubles: Doubles):
    (doubles.root / "lock.txt").write_text("numpy==0.0.999\n")
    [probed] = probe_toolchains(load(doubles.root / "matrix.yaml"), (), ["good"], HERE, "venv")
    assert probed.changed
    assert probed.broken
    assert probed.lines[0] == "lock: its environment cannot be made"
    assert "[no-such-version]" in probed.lines[-1]


def test_the_exception_that_ended_a_program_is_found_among_its_output():
    output = "Traceback (most recent call last):\n  File x\nKeyError: 1\nnoise\n" * 2 + "\nmore noise"
    assert last_exception(output).startswith("KeyError: 1")
    assert last_exception("no traceback") == ""
    several = "Traceback (most recent call last):\n  File x\ntvm.error.InternalError: a\n  b\nc"
    assert last_exception(several) == "tvm.error.InternalError: a\n  b\nc"


@pytest.mark.environments
@pytest.mark.parametrize(
    ("environment", "probe", "verdict", "words"),
    [
        (
            "tilelang-0.1.15",
            "tilelang/jit_stacked_on_prim_func",
            "known",
            "i, j] = h_res_local[i, j] is not a callable object",
        ),
        ("torch-2.13", "torch/cuda_on_a_cpu_build", "works", ""),
    ],
)
@pytest.mark.nightly  # ``ci/nox -s matrix`` asks every probe
def test_a_probe_gives_its_verdict_in_the_real_toolchain(matrix, environment, probe, verdict, words):
    job = Job("", environments(matrix)[environment], ())
    interpreter = venv.prepare(Request(ROOT, ROOT / "build", matrix, job, None, lambda _: None))
    probes = select_probes(matrix, ROOT, [probe])
    bytecode = ROOT / "build" / "cache" / "bytecode"
    records = run_probes(probes, environment, interpreter, HERE, matrix.package.environment, bytecode=bytecode)
    [one] = judge_all(probes, records, [environment])
    assert one.verdict == verdict, one.record.detail
    assert words in f"{one.record.message}"


def test_the_probe_of_every_gpu_names_those_of_the_matrix(matrix):
    """A target that the matrix has, and its Triton compiles for, is asked for; others are not."""
    content = vars_of(ROOT / "probes" / "triton" / "compiles_for_every_gpu_without_one.py", "CUDA", "HIP")
    asked = {f"sm_{arch}" for arch in content["CUDA"]} | {*content["HIP"]}
    entries = [(platform, entry) for platform in matrix.platforms.values() for entry in platform.entries]
    targets = {
        target
        for platform, entry in entries
        if matrix.toolchains[entry.toolchain].backend == "triton" and not entry.emulated
        for target in entry.targets or platform.targets
    }
    known = {rule.where["target"] for rule in matrix.expectations if rule.where.get("toolchain") == "triton-3.7"}
    assert asked == targets - known


def vars_of(path: Path, *names: str) -> dict[str, tuple[object, ...]]:
    """Return constants of a program, without running it."""
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in nodes if node.targets[0].id in names}


def test_a_lesson_of_a_platform_that_is_not_there_is_bad_input(doubles: Doubles):
    header = 'asks = "Does it work at all?"\nmeans = "It works here."\nmet = "the test"\ntruth = "It does."\n'
    header += 'platforms = ["hree"]'
    lines = [*header.splitlines(), 'requires = ["numpy"]', "[[expect]]", 'verdict = "works"']
    folder = doubles.root / "probes" / "family"
    folder.mkdir(parents=True)
    text = "".join(f"# {line}\n" for line in lines)
    (folder / "one.py").write_text(f"# /// probe\n{text}# ///\n")
    doubles.edit("suite: suite", "suite: suite, probes: probes")
    with pytest.raises(UserError, match=r"one\.py: platforms.*hree.*Did you mean 'here'"):
        select_probes(doubles.matrix, doubles.root)
