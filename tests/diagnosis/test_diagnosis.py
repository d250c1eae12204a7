"""Every rule knows its recorded real error, and an error without a rule is "not known"."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time

import pytest
from common import ROOT, Doubles, few_cells, harness, options
from judges import write_site
from loops import at_least
from shown import Page

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.patterns import is_found
from kernel_matrix.cli import main
from kernel_matrix.config.load import load_unchecked
from kernel_matrix.config.plan import Case, Job, Plan, plan
from kernel_matrix.diagnosis import NOT_KNOWN, Rule, diagnose, diagnose_all, in_words, rules_of
from kernel_matrix.diagnosis.rule import harness_rules
from kernel_matrix.report.diagnoses import Diagnoses
from kernel_matrix.report.document import Document
from kernel_matrix.store.record import Record

# Real errors that no rule was written for. They came from probes and from other work.
HELD_OUT = [
    ("lower", "tvm.error.InternalError: Check failed: value < 1LL << (dtype.bits() - 1) (2147483648 vs. 2147483648)"),
    ("compile", "error: 'tt.reduce' op requires the same element type for all operands"),
    (
        "launch",
        "RuntimeError: The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1",
    ),
    ("launch", "RuntimeError: expected scalar type Float but found BFloat16"),
    ("fail", "h_in: max_abs 0.12 is over its limit 0.01"),
    ("install", "error: Failed to parse: `torch=2.13.0`"),
    (
        "build",
        "COPY failed: file not found in build context or excluded by .dockerignore: stat lock.txt: file does not exist",
    ),
    ("launch", "ZeroDivisionError: division by zero"),
    ("launch", "TypeError: unsupported operand type(s) for ** or pow(): 'str' and 'int'"),
    ("launch", "KeyError: 'nvcc_options'"),
    # A general rule knows the first of the two errors, and the second one ended the program.
    (
        "launch",
        "ModuleNotFoundError: No module named 'fast_path'\nDuring handling of it:\nValueError: no kernel for float64",
    ),
]
LAYERS = {
    "docker: Error response from daemon: strange thing": "the container engine",
    "RuntimeError: CUDA error: a new thing was encountered": "the driver or the device",
    "NCCL WARN something that nobody has seen": "processes that compute together",
    "ptxas fatal   : Internal error: a new one": "the compiler of kernels",
    "clang-20: warning: odd\nclang-20: remark: odder": "the compiler or the linker of C++",
    "CMake Warning at a.cmake:3": "the build system",
    "The runner is unable to go on": "the CI service",
    "E: Sub-process /usr/bin/dpkg returned an error": "the installer of packages",
    "ValueError: no kernel for float64": "the package or a library of it",
}


@pytest.fixture(scope="module")
def all_rules() -> tuple[Rule, ...]:
    """Return the rules of the project: first its package's rules, then the harness's rules."""
    return rules_of(load_unchecked(ROOT / "matrix.yaml"), ROOT)


@pytest.fixture(scope="module")
def one_case(matrix) -> Plan:
    """Return a plan of one case of the real plan, which is expected to pass."""
    whole = plan(matrix, "quick")
    case = next(case for case in whole.cases if not case.exclusion and not case.expectations)
    return Plan(whole.package, whole.tier, (Job(case.cell.platform, case.cell.toolchain, (case,)),))


def seeded(planned: Plan, rule: Rule) -> tuple[Case, Record]:
    """Return the case of the plan, and its record where it ended with the recorded error of the rule."""
    [case] = planned.cases
    job = {f"version.{name}": version for name, version in rule.example_versions.items()}
    stage = "compile" if rule.example_stage in ("build", "") else rule.example_stage
    return case, Record(case.id, "error", "run", stage, rule.example.splitlines()[-1], rule.example, job=job)


def test_a_rule_knows_its_recorded_error_before_any_other_does(all_rules):
    errors = [(rule.example, rule.example_stage, (*rule.example_versions.items(),)) for rule in all_rules]
    found = [one.rule if one else None for one in diagnose_all(errors, all_rules)]
    assert found == [rule.name for rule in all_rules]


@pytest.fixture(scope="module")
def seeded_errors(matrix, all_rules, tmp_path_factory) -> tuple[Page, dict[str, tuple[Case, Record]], Document]:
    """Return the page of one case for each rule that ended with its recorded error, the cases, and the document."""
    whole, rules = plan(matrix, "quick"), [rule for rule in all_rules if rule.example_stage != "build"]
    cases = [case for case in whole.cases if not case.exclusion and not case.expectations][: len(rules)]
    jobs = tuple(Job(case.cell.platform, case.cell.toolchain, (case,)) for case in cases)
    alone = [Plan(whole.package, whole.tier, (job,)) for job in jobs]
    found = {rule.name: seeded(planned, rule) for planned, rule in zip(alone, rules, strict=True)}
    folder = tmp_path_factory.mktemp("site")
    records = [record for _, record in found.values()]
    document = write_site(matrix, Plan(whole.package, whole.tier, jobs), records, folder, rules=all_rules)
    return Page(folder), found, document


@pytest.mark.slow
def test_a_case_seeded_with_the_error_shows_cause_and_remedy_beside_it(seeded_errors, all_rules):
    page, found, _ = seeded_errors
    cells = page.cells
    for rule in at_least(40, (rule for rule in all_rules if rule.example_stage != "build")):
        case, record = found[rule.name]
        result = cells[case.cell.id]["results"][case.name]
        assert result["diagnosis"]["rule"] == rule.name
        assert result["diagnosis"]["remedy"] == rule.remedy
        assert result["reason"] == record.message, "the raw error stays"


@pytest.mark.slow
def test_no_case_seeded_with_the_error_of_a_rule_is_undiagnosed(seeded_errors):
    _, found, document = seeded_errors
    at_least(40, found)
    assert document.undiagnosed == ()


def test_an_error_without_a_rule_is_not_known(all_rules):
    found = diagnose_all([(error, stage, ()) for stage, error in HELD_OUT], all_rules)
    assert found == [None] * len(HELD_OUT)
    assert NOT_KNOWN in in_words(None, "")


@pytest.mark.parametrize(("text", "layer"), LAYERS.items())
def test_an_error_without_a_rule_names_who_speaks_and_the_line_that_decides(text, layer):
    assert diagnose(text) is None
    assert in_words(None, f"a line before\n{text}\nand one after") == (
        f"cause: {NOT_KNOWN}. It comes from {layer}: {text.splitlines()[-1]}"
    )


def test_a_general_rule_gives_way_to_an_exact_one_that_stands_before_it():
    text = "nvcc fatal   : Unsupported gpu architecture 'compute_70'\nERROR: Failed building wheel for a"
    assert diagnose(text).rule == "nvcc-arch-not-named"
    assert diagnose("ERROR: Failed building wheel for a").rule == "build-failed-for-pip"


def test_there_are_enough_rules_and_each_stands_for_itself(all_rules):
    names = [rule.name for rule in all_rules]
    assert len(names) == len(set(names)) >= 40
    assert sum(rule.recorded == "here" for rule in all_rules) >= 40
    for rule in all_rules:
        assert not re.search(r"/root/|/tmp/", rule.example), rule.name
        assert not rule.cause.endswith((" ", ",")), rule.name


def test_stage_and_versions_narrow_a_rule():
    base = dict.fromkeys(("cause", "remedy"), "a sentence that is long enough") | {"recorded": "here"}
    rule = Rule(
        name="one", match="exactly", stages=["lower"], versions=["tilelang<0.1.10"], example="exactly this", **base
    )
    assert rule.holds("lower", {"tilelang": "0.1.8"})
    assert not rule.holds("launch", {"tilelang": "0.1.8"})
    assert not rule.holds("lower", {"tilelang": "0.1.15"})
    assert not rule.holds("lower", {"torch": "2.13"})


def test_a_long_text_takes_no_more_time_than_it_has_characters(matrix):
    texts = ["libtvm" * 41_000, "from versions: " * 16_000, "could not select device driver" * 8_000]
    began = time.process_time()
    for text in texts:
        diagnose(text)
        assert not is_found("(x+x+)+y", text.replace("t", "x"))
    assert not is_found("(x+x+)+y", "x" * 200_000)
    assert time.process_time() - began < 10


@pytest.mark.slow
def test_what_is_not_known_is_listed_for_adding(matrix, tmp_path):
    planned = few_cells(plan(matrix, "quick"))
    cases = [case for case in planned.cases if not case.exclusion and not case.expectations][:3]
    records = [Record(case.id, "error", "run", "launch", "StrangeError: never seen", "", job={}) for case in cases]
    write_site(matrix, planned, records, tmp_path)
    compat = json.loads((tmp_path / "compat.json").read_text())
    assert compat["undiagnosed"] == [{"stage": "launch", "message": "StrangeError: never seen", "cases": 3}]
    assert NOT_KNOWN in Page(tmp_path).text
    summary = (tmp_path / "summary.md").read_text()
    assert NOT_KNOWN in summary
    assert "StrangeError: never seen" in summary


@pytest.mark.slow
def test_a_known_cause_is_in_every_form_of_the_report(matrix, all_rules, one_case, tmp_path):
    rule = next(rule for rule in all_rules if rule.name == "disk-full")
    _, record = seeded(one_case, rule)
    write_site(matrix, one_case, [record], tmp_path)
    texts = {name: (tmp_path / name).read_text() for name in ("compat.json", "summary.md")}
    for name, text in {**texts, "page": Page(tmp_path).text}.items():
        assert rule.cause in text, name
        assert "No space left on device" in text, name


@pytest.mark.slow
def test_the_command_line_says_the_cause_of_what_is_piped_in():
    command = [sys.executable, "-m", "kernel_matrix", "diagnose"]
    text = "RuntimeError: 0 active drivers ([]). There should only be one."
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    known = subprocess.run(command, cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False)
    assert known.returncode == 0
    assert "[triton-no-driver]" in known.stdout


def test_outside_of_a_project_the_command_line_asks_the_harness_s_own_rules(tmp_path, monkeypatch, capsys):
    def piped(text: str, *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return main(["diagnose", *words]), capsys.readouterr().out

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    assert "[disk-full]" in piped("No space left on device")[1]
    assert "[triton-no-driver]" in piped("RuntimeError: 0 active drivers ([]).")[1]
    status, said = piped("something new")
    assert (status, "not known" in said) == (1, True)
    assert piped("anything", "--matrix", "none.yaml")[0] == 2


RULE = """
- name: {name}
  match: 'device'
  cause: A rule that the package itself has named.
  remedy: try again
  recorded: here
  example: No space left on device
"""


def with_rules(doubles: Doubles, text: str) -> tuple[Rule, ...]:
    doubles.edit("suite: suite,", "suite: suite, rules: rules.yaml,")
    (doubles.root / "rules.yaml").write_text(text)
    return rules_of(doubles.matrix, doubles.root)


def test_the_rules_of_the_package_are_asked_before_those_of_the_harness(doubles: Doubles):
    rules = with_rules(doubles, RULE.format(name="own"))
    found = diagnose("No space left on device", rules=rules)
    assert found is not None
    assert found.rule == "own"
    assert diagnose("No space left on device") == diagnose("No space left on device", rules=rules[1:])


def test_a_package_can_name_several_files_of_rules(doubles: Doubles):
    doubles.edit("suite: suite,", "suite: suite, rules: [rules.yaml, more.yaml],")
    (doubles.root / "rules.yaml").write_text(RULE.format(name="own"))
    (doubles.root / "more.yaml").write_text(RULE.format(name="more"))
    rules = rules_of(doubles.matrix, doubles.root)
    assert [rule.name for rule in rules[:2]] == ["own", "more"]
    assert rules[2:] == harness_rules()
    (doubles.root / "more.yaml").write_text(RULE.format(name="triton-no-driver"))
    with pytest.raises(UserError, match=r"more\.yaml: another rule is called 'triton-no-driver' too"):
        rules_of(doubles.matrix, doubles.root)


def test_an_error_of_python_outside_of_the_interpreter_is_none_of_its_limits(all_rules):
    assert diagnose("AttributeError: 'float' object has no attribute 'to'", "launch", rules=all_rules) is None


def test_the_rules_of_the_harness_are_of_no_package():
    for path in at_least(10, (ROOT / "src/kernel_matrix/diagnosis").rglob("*.yaml")):
        assert not re.search(r"mhc|ci/locks|docs/", path.read_text()), path


def test_a_package_without_rules_has_those_of_the_harness(doubles: Doubles):
    rules = rules_of(doubles.matrix, doubles.root)
    assert [rule.name for rule in rules] == [rule.name for rule in harness_rules()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULE.format(name="disk-full"), "another rule is called 'disk-full' too"),
        (RULE.format(name="own") + "  matches: x\n", "matches: Extra inputs are not permitted"),
        (RULE.format(name="own").replace("'device'", "'((((('"), "match: .*this is not a regular expression: missing"),
        ("- name: [", r"rules\.yaml:\d+: .* Correct the YAML there"),
    ],
)
def test_a_faulty_file_of_rules_is_bad_input_with_its_name(doubles: Doubles, text, message):
    with pytest.raises(UserError, match=message) as caught:
        with_rules(doubles, text)
    assert "rules.yaml" in str(caught.value)
    assert harness("check", *options(doubles)).stderr == f"kernel-matrix: {caught.value}\n"


def test_where_no_error_is_diagnosed_no_rules_are_read():
    assert Diagnoses(None, None).of([]) == []


def test_pytorch_s_build_for_a_cpu_is_a_cause_that_no_toolkit_is_found(all_rules):
    found = diagnose("OSError: CUDA_HOME environment variable is not set.", "install", rules=all_rules)
    assert found is not None
    assert "PyTorch's build for a CPU looks for none" in found.cause
