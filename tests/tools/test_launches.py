"""A program that launches Triton kernels is recorded without a GPU, and each launch is compiled for every target."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from common import ROOT, harness, program, python_of, records_in
from loops import at_least
from ruamel.yaml import YAML

from kernel_matrix import diagnosis
from kernel_matrix.config.load import load
from kernel_matrix.store.record import Record

pytestmark = [pytest.mark.environments, pytest.mark.slow]

PROGRAM = ROOT / "tests" / "tools" / "launched" / "launched_calls.py"
TARGETS = ("sm_120", "gfx942")
RED = 1


@dataclass(frozen=True)
class Done:
    """A run of the command, and its build folder."""

    status: int
    output: str
    build: Path

    @cached_property
    def records(self) -> dict[str, Record]:
        return {record.case: record for record in records_in(self.build / "launches" / "results")}

    def of(self, target: str, kernel: str) -> list[Record]:
        return [
            record for case, record in self.records.items() if f"/{target}/" in case and f"/{kernel}.launch/" in case
        ]

    def recording(self, vendor: str) -> dict:
        return json.loads((self.build / "launches" / "recorded" / vendor / "recording.json").read_text())

    def compiled(self, vendor: str) -> list[dict]:
        lines = (self.build / "launches" / "recorded" / vendor / "compiled.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter of Triton's environment."""
    return python_of("triton-3.7", "cuda")


def launches(python: Path, build: Path, *options: str, **environment: str) -> Done:
    """Run the command on the small program."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"OMP_NUM_THREADS": "1", **environment}.items():
            patch.setenv(name, value)
        done = harness("launches", "--build", str(build), *options, "--", str(python), str(PROGRAM))
    return Done(done.returncode, done.stdout + done.stderr, build)


@pytest.fixture(scope="module")
def done(python, tmp_path_factory) -> Done:
    build = tmp_path_factory.mktemp("launches") / "build"
    return launches(
        python, build, "--targets", *TARGETS, "--configs", "all", "--launches", "all", "--seconds", "10", "--jobs", "4",
        "--cases", str(build / "cases.yaml"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def rules(done):
    """Return the rules of the matrix.yaml that the command writes."""
    written = done.build / "launches" / "matrix.yaml"
    return diagnosis.rules_of(load(written), written.parent)


def test_what_compiles_is_compiled_with_its_figures(done):
    for target in TARGETS:
        [record] = [
            one for one in done.of(target, "mean_of_two") if "fp32-default" in one.case and one.facts["grid"] == "4"
        ][:1]
        assert (record.outcome, record.action) == ("pass", "compile")
        assert record.facts["artifact.kind"] == ("hsaco" if target.startswith("gfx") else "cubin")
        assert record.metrics["artifact.registers"] > 0
        assert record.metrics["artifact.spills"] == 0
        assert 0 < record.metrics["artifact.code_bytes"] < record.metrics["artifact.bytes"]
        assert record.metrics["artifact.threads"] == 4 * (64 if target.startswith("gfx9") else 32)


def test_every_configuration_of_an_autotuned_launch_is_compiled_once(done):
    for target in TARGETS:
        records = done.of(target, "tuned")
        configurations = {
            (json.loads(one.facts["constants"])["block"], json.loads(one.facts["options"])["num_warps"])
            for one in records
        }
        assert configurations == {(block, warps) for block in ("64", "128") for warps in ("2", "4")}
        assert len(records) == 4
        assert {one.outcome for one in records} == {"pass"}


def test_the_shapes_of_the_calls_are_written_as_cases(done):
    text = (done.build / "cases.yaml").read_text()
    ops = YAML(typ="safe").load(text)["ops"]
    assert ops["tuned"]["cases"]["quick"] == [{"n": 1000, "dtype": "fp32"}]
    assert "{ n: 1000, dtype: fp32 } # 1 call\n" in text, "what its autotuner tries is no call"
    assert {"n": 64, "dtype": "fp16"} in ops["mean_of_two"]["cases"]["full"]
    assert ops["product"]["axes"] == ["a_0"]


def test_a_heuristic_gives_its_constant(done):
    constants = [json.loads(one.facts["constants"]) for one in done.of("sm_120", "tuned")]
    assert {one["even"] for one in constants} == {"False"}, "1000 is no multiple of a block"


@pytest.mark.parametrize(
    ("kernel", "targets", "stage", "words", "rule"),
    [
        ("only_nvidia", ("gfx942",), "compile", "Implicit conversion of CUDA __nv_rsqrtf", "cuda-libdevice-on-amd"),
        ("wrong_shapes", TARGETS, "lower", "incompatible dimensions at index 0: 64 and 128", None),
        ("refused", TARGETS, "lower", "Cannot access global variable GREETING", "global-not-constexpr"),
        ("product", ("sm_120",), "launch", "131072 bytes of shared memory, and sm_120 has", "too-much-shared-memory"),
        ("mean_of_two", ("gfx942",), "launch", "2048 threads, and gfx942 has 1024", "too-many-threads"),
        ("endless", ("gfx942",), "timeout", "no end after 10 s, in stage compile", "compiler-time-limit"),
        ("greedy", ("gfx942",), "lower", "Cannot allocate memory", "no-memory-for-an-array"),
        ("crashing", TARGETS, "crash", r"signal 11 \(SIGSEGV\)", "compiler-died"),
    ],
)  # fmt: skip
def test_a_fault_costs_its_own_cell_and_has_its_stage_and_cause(done, rules, kernel, targets, stage, words, rule):
    for target in TARGETS:
        errors = [record for record in done.of(target, kernel) if record.outcome == "error"]
        assert len(errors) == (target in targets), target
        for record in errors:
            assert record.stage == stage
            assert re.search(words, record.message)
            known = diagnosis.diagnose(record.text, record.stage, rules=rules)
            assert (known and known.rule.removeprefix("triton-")) == rule


def test_the_dashboard_is_that_of_any_matrix(done):
    assert done.status == RED
    site = done.build / "launches" / "site"
    assert (site / "index.html").exists()
    assert re.search(r"^Of 16 cells 5 compiled\. Red: 11 error\.$", done.output, re.MULTILINE), done.output
    matrix = load(done.build / "launches" / "matrix.yaml")
    assert matrix.package.name == "launched_kernels"
    assert {name: platform.targets for name, platform in matrix.platforms.items()} == {
        "cuda": ["sm_120"],
        "rocm": ["gfx942"],
    }
    folder = str(done.build / "launches")
    again = harness("report", "--matrix", f"{folder}/matrix.yaml", "--build", folder)
    assert again.returncode == RED
    assert "Of 16 cells 5 compiled. Red: 11 error." in again.stdout


def test_a_launch_of_one_vendor_only_is_excluded_on_the_other_with_its_reason(done):
    matrix = load(done.build / "launches" / "matrix.yaml")
    [rule] = matrix.exclusions
    assert rule.where["platform"] == "cuda"
    assert "does not launch this when it is told that it runs on sm_90" in rule.reason
    assert "1 excluded" in done.output


def test_the_program_goes_the_way_that_it_goes_with_a_gpu(done):
    assert "did not end well" not in done.output


def test_what_a_program_keeps_of_its_tuning_does_not_get_into_the_home_of_the_user(done):
    for vendor in ("nvidia", "amd"):
        assert (done.build / "launches" / "recorded" / vendor / "home" / "measured").exists()
    assert not (Path.home() / "measured").exists()


def test_what_the_stand_in_does_not_know_is_listed(done):
    assert re.search(
        r"not answered .*get_device_properties\(\)\.pci_bus_id \(launched/launched_calls\.py:\d+\)", done.output
    )
    assert "answered without knowing: torch.testing.assert_close holds" in done.output


def test_no_folder_of_this_machine_is_in_a_result(done, python):
    for record in at_least(5, done.records.values()):
        assert str(python.parent.parent) not in record.text


def test_a_second_run_takes_what_was_compiled_from_the_cache(done, python, tmp_path):
    shutil.copytree(done.build / "cache", tmp_path / "cache")
    few = ("--configs", "first", "--launches", "1", "--seconds", "20")
    again = launches(python, tmp_path, "--targets", "sm_120", *few)
    assert again.status == RED
    kept = {one["identity"]: one.get("kept", False) for one in again.compiled("nvidia")}
    stages = {one["identity"]: one["stage"] for one in again.compiled("nvidia")}
    assert {stages[identity] for identity, was_kept in kept.items() if was_kept} == {"", "lower"}
    assert {stages[identity] for identity, was_kept in kept.items() if not was_kept} == {"crash"}
    assert sum(launch["taken"] for launch in again.recording("nvidia")["launches"]) == 7, "one launch of each kernel"


@pytest.mark.nightly
def test_with_the_interpreter_the_programs_own_assertions_are_real(python, tmp_path):
    holds = launches(python, tmp_path, "--targets", "sm_90", "--interpret", FEW="1")
    assert holds.status == 0, holds.output
    assert "the interpreter computed" in holds.output
    assert "answered without knowing" not in holds.output
    wrong = launches(python, holds.build, "--targets", "sm_90", "--interpret", FEW="1", WRONG="1")
    assert wrong.status == RED
    assert "did not end well" in wrong.output
    assert "Tensor-likes are not close" in wrong.output


def test_a_report_has_a_program_that_repeats_the_error_without_the_harness(done, python):
    folder = str(done.build / "launches")
    [cell] = {case.rpartition("/")[0] for case in done.records if "/gfx942/" in case and "/only_nvidia.launch/" in case}
    report = harness("toolchains", "report", "--matrix", f"{folder}/matrix.yaml", "--build", folder, cell)
    assert report.returncode == 0, report.stderr
    [text] = re.findall(r"^```python\n(.*?)^```$", report.stdout, re.DOTALL | re.MULTILINE)
    repeated = program(python, "-c", text, PYTHONPATH=str(PROGRAM.parent))
    assert repeated.returncode == 1
    assert "Implicit conversion of CUDA __nv_rsqrtf" in repeated.stderr
