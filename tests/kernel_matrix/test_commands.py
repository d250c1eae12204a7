"""The commands that people are told are right in their repository: the command line or a session accepts each."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Doubles
from ruamel.yaml import YAML
from test_compare import TRITON

from kernel_matrix import cli
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.commands import command, spelled
from kernel_matrix.config.model import Matrix, Start
from kernel_matrix.config.plan import plan
from kernel_matrix.doctor.findings import examine
from kernel_matrix.doctor.reachable import prospects
from kernel_matrix.machines.row_plan import make_row_plan
from kernel_matrix.machines.services import buildkite, gitlab
from kernel_matrix.results.record import Record
from kernel_matrix.results.repeat import Commands
from kernel_matrix.vendors.machine import Device, Machine, detect

HARNESS = ROOT / "src" / "kernel_matrix"
TEXTS = sorted(
    path for path in (*HARNESS.rglob("*"), *(ROOT / "probes").rglob("*.yaml")) if path.suffix in (".py", ".yaml", ".j2")
)
MARKED = re.compile(r"`kernel-matrix ([^`]+)`")
CASE = f"{TRITON}/tokens7-streams4-hidden200-bf16-gamma-fp32-scale1-seed0"
FACTS = {"commit": "0123456789ab", "executor": "container", "lock.sha256": "aa11", "image": "i:b"}


def marked() -> list[list[str]]:
    """Return the words of every command that a text of the harness marks, with a word for what stands in braces."""
    texts = [match for path in TEXTS for match in MARKED.findall(path.read_text(encoding="utf-8"))]
    return [shlex.split(re.sub(r"\{[^{}]+\}", "cuda", text)) for text in texts if "(" not in text]


def printed(matrix: Matrix, build: Path) -> Iterator[str]:
    """Yield the lines with commands that the harness makes for a matrix: to repeat, on a CI service, and by doctor."""
    yield Commands(matrix).command(TRITON, None)
    yield Commands(matrix).command(CASE, Record(CASE, "fail", "run", job=FACTS))
    made = make_row_plan(matrix, plan(matrix, "quick"), {})
    pipeline = YAML(typ="safe").load(gitlab.render(matrix, made))
    yield from (job["script"][0] for job in pipeline.values() if isinstance(job, dict) and "script" in job)
    steps = YAML(typ="safe").load(buildkite.render(matrix, made))["steps"]
    yield from (step["command"][0].splitlines()[-1] for step in steps)
    laptop = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    findings = examine(matrix, ROOT, build, detect())
    told = [prospect.command for inside in ("", "cuda") for prospect in prospects(matrix, findings, laptop, inside)]
    told += [finding.remedy for finding in findings]
    yield from (spelled(matrix.start, text) for text in told)


def test_no_module_rule_or_template_names_the_way_that_this_repository_starts_the_harness():
    named = [path for path in TEXTS if "ci/nox" in path.read_text(encoding="utf-8")]
    assert named == []


def test_every_command_in_a_text_is_marked():
    names = "|".join(cli.commands())
    for path in HARNESS.rglob("*.py"):
        if path.relative_to(HARNESS).parts[0] in ("cli", "job"):  # their help says which command writes a file
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef
                | ast.ClassDef) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                assert not re.search(rf"(?<!`)kernel-matrix (?:{names}|--)\b", node.value), path


def test_the_command_line_accepts_every_command_that_a_text_marks():
    assert len(marked()) > 10
    for words in marked():
        cli._parse(words)  # exits where it does not


@pytest.mark.slow
def test_the_command_line_accepts_every_command_that_is_printed_for_a_matrix_without_start(matrix, tmp_path):
    lines = [
        line for line in printed(matrix.model_copy(update={"start": Start()}), tmp_path) if "kernel-matrix " in line
    ]
    assert len(lines) > 20
    for line in lines:
        assert "ci/nox" not in line
        cli._parse(shlex.split(line.partition("kernel-matrix ")[2]))


@pytest.mark.slow
def test_the_sessions_that_are_printed_for_this_repository_exist(matrix, tmp_path):
    lines = [*printed(matrix, tmp_path), *(command(matrix.start, words) for words in marked())]
    named = {name for line in lines for name in re.findall(r"ci/nox -s ([\w-]+)", line)}
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "-l"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {"test-cuda", "test-cpu-llvm", "sweep", "plan", "matrix", "doctor"} <= named
    assert named <= set(re.findall(r"^[*-] ([\w-]+) ->", listed, re.MULTILINE))
    assert not [line for line in lines if "kernel-matrix run" in line]


def test_a_command_is_written_as_the_matrix_says():
    ours = Start(command="go {command} -- {options}", platform="go test-{platform} -- {options}")
    assert command(ours, ["plan"]) == "go plan"
    assert command(ours, ["plan", "--rows"]) == "go plan -- --rows"
    assert command(ours, ["run", "--platform", "cuda", "--case", "a b"]) == "go test-cuda -- --case 'a b'"
    assert command(ours, ["run", "--tier", "full"]) == "go run -- --tier full"
    assert command(Start(), ["run", "--platform", "cuda"]) == "kernel-matrix run --platform cuda"
    assert spelled(ours, "input: `kernel-matrix it's`") == "input: `kernel-matrix it's`"
    assert spelled(ours, "do it: `kernel-matrix plan --rows`, then `ls`") == "do it: go plan -- --rows, then `ls`"


def test_a_text_of_a_machine_is_no_part_of_the_template():
    hostile = ["run", "--platform", "cuda", "--case", "{command} {platform}; rm -rf /"]
    assert shlex.split(command(Start(), hostile))[1:] == hostile


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ('{ command: "make {command}" }', r"start.command: this needs \{command\} and \{options\}"),
        ('{ platform: "make {command} {options}" }', r"start.platform: this needs \{options\} and \{platform\}"),
    ],
)
def test_a_template_that_lacks_a_part_is_bad_input(doubles: Doubles, start, message):
    doubles.edit("limits:", f"start: {start}\nlimits:")
    with pytest.raises(UserError, match=message):
        _ = doubles.matrix


def test_the_message_of_an_error_has_the_repository_s_own_command(doubles: Doubles, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    arguments = ["report", "--matrix", str(doubles.root / "matrix.yaml"), str(doubles.root / "nowhere")]
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.endswith("Run the matrix first: kernel-matrix matrix\n")
    doubles.edit("limits:", 'start: { command: "make {command} WITH={options}" }\nlimits:')
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.endswith("Run the matrix first: make matrix WITH=\n")
