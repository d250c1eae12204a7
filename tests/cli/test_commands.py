"""The commands that people are told are right: the command line accepts each, as it is typed in a terminal."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import ROOT, Doubles
from loops import at_least
from records import TRITON
from ruamel.yaml import YAML

from kernel_matrix import cli
from kernel_matrix.base import installation as told
from kernel_matrix.base.commands import _revision, command, here, line_here
from kernel_matrix.ci.event_plan import make_row_plan
from kernel_matrix.ci.services import buildkite, gitlab
from kernel_matrix.cli import main
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import plan
from kernel_matrix.doctor.findings import examine
from kernel_matrix.doctor.reachable import prospects
from kernel_matrix.results.repeat import Commands
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import Machine, detect
from kernel_matrix.vendors.vendor import Device

HARNESS = ROOT / "src" / "kernel_matrix"
TEXTS = sorted(
    path
    for path in at_least(400, [*HARNESS.rglob("*"), *(ROOT / "probes").rglob("*.yaml")])
    if path.suffix in (".py", ".yaml", ".j2")
)
MARKED = re.compile(r"`kernel-matrix ([^`]+)`")
CASE = f"{TRITON}/tokens7-streams4-hidden200-bf16-gamma-fp32-scale1-seed0"
FACTS = {"commit": "0123456789ab", "executor": "container", "lock.sha256": "aa11", "image": "i:b"}


def marked() -> list[list[str]]:
    """Return the words of every command that a text of the harness marks, with a word for what stands in braces."""
    texts = [match for path in TEXTS for match in MARKED.findall(path.read_text(encoding="utf-8"))]
    return [
        shlex.split(re.sub(r"\{[^{}]+\}", "cuda", text.removesuffix("{options}")))
        for text in texts
        if "(" not in text and not text.startswith(("COMMAND", "{"))
    ]


@functools.cache
def parse(command: str) -> None:
    """Parse a command once: a parser of all commands is made for each. It exits where it does not accept one."""
    cli._parse(shlex.split(command))


@pytest.fixture(scope="module")
def findings(matrix, tmp_path_factory) -> list[Finding]:
    """Return what doctor finds on this machine."""
    return list(examine(matrix, ROOT, tmp_path_factory.mktemp("build"), detect()))


def printed(matrix: Matrix, findings: list[Finding]) -> Iterator[str]:
    """Yield the lines with commands that the harness makes for a matrix: to repeat, on a CI service, and by doctor."""
    yield Commands(matrix).command(TRITON, None)
    yield Commands(matrix).command(CASE, Record(CASE, "fail", "run", job=FACTS))
    made = make_row_plan(matrix, plan(matrix, "quick"))
    pipeline = YAML(typ="safe").load(gitlab.render(matrix, made))
    yield from (
        job["script"][0]
        for job in pipeline.values()
        if isinstance(job, dict) and job.get("stage") in ("test", "report")
    )
    steps = YAML(typ="safe").load(buildkite.render(matrix, made))["steps"]
    yield from (step["command"][-1] for step in steps if "command" in step)
    laptop = Machine((Device("cpu", "test", ("x86-64-v3",)),))
    texts = [prospect.command for inside in ("", "cuda") for prospect in prospects(matrix, findings, laptop, inside)]
    texts += [finding.remedy for finding in findings]
    yield from (here(text) for text in texts)


def test_no_module_rule_or_template_names_the_way_that_this_repository_starts_the_harness():
    own = HARNESS / "base" / "commands.py"
    named = [
        path for path in at_least(300, TEXTS) if re.search("ci/(nox|kernel-matrix)", path.read_text(encoding="utf-8"))
    ]
    assert [path for path in named if path != own] == []


@pytest.mark.slow
def test_every_command_in_a_text_is_marked():
    names = "|".join(cli.commands())
    for path in at_least(300, HARNESS.rglob("*.py")):
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
@pytest.mark.parametrize("typed", ["", "ci/kernel-matrix"])
def test_the_command_line_accepts_every_command_that_is_printed_for_a_matrix(matrix, findings, monkeypatch, typed):
    monkeypatch.setenv("KERNEL_MATRIX_START", typed)
    of_files = [Commands(matrix).command(TRITON, None)]
    lines = [line for line in printed(matrix, findings) if "kernel-matrix " in line]
    assert len(lines) > 20
    for line in lines:
        before, _, after = line.partition("kernel-matrix ")
        parse(after)
        assert "`" not in line
        assert before.endswith("ci/") or not typed or "git switch" in before or line in of_files


def test_a_text_of_a_machine_is_one_word_of_the_command():
    hostile = ["run", "--platform", "cuda", "--case", "`kernel-matrix x` $(y); rm -rf /"]
    assert shlex.split(command(hostile)) == ["kernel-matrix", *hostile]


LINE = "all tests: `kernel-matrix matrix --executor venv`, then `ls`"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make an environment with the harness's script, from which this process is said to come, and return its folder."""

    def make(folder: str) -> Path:
        script = tmp_path / folder / "bin" / "kernel-matrix"
        script.parent.mkdir(parents=True)
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        monkeypatch.delenv("KERNEL_MATRIX_START", raising=False)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
        monkeypatch.setattr(sys, "argv", [str(script), "init"])
        monkeypatch.setenv("PATH", str(script.parent))
        return tmp_path / folder

    return make


def test_a_script_that_the_shell_finds_is_named_by_its_name(installed):
    installed("here")
    assert here(LINE) == "all tests: kernel-matrix matrix --executor venv, then `ls`"


def test_a_script_that_the_shell_does_not_find_is_named_by_its_path(installed, monkeypatch):
    script = installed("with a blank") / "bin" / "kernel-matrix"
    monkeypatch.setenv("PATH", "/nowhere")
    assert here(LINE) == f"all tests: '{script}' matrix --executor venv, then `ls`"


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (None, "uvx kernel-matrix"),
        ('{"url": "file:///a/k.whl", "archive_info": {}}', "uvx --from file:///a/k.whl kernel-matrix"),
        (
            '{"url": "https://host.example/k", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "uvx --from git+https://host.example/k@abc kernel-matrix",
        ),
    ],
)
def test_uvx_is_named_with_what_it_was_given(tmp_path, installed, monkeypatch, origin, words):
    (tmp_path / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    installed("archive-v0/a1b2")
    distribution = SimpleNamespace(read_text=lambda _: origin)
    monkeypatch.setattr(told.importlib.metadata, "distribution", lambda _: distribution)
    assert here(LINE) == f"all tests: {words} matrix --executor venv, then `ls`"


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        (None, "kernel-matrix==0.9"),
        ('{"url": "file:///a/clone", "dir_info": {}}', ""),
        (
            '{"url": "https://host.example/k", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "kernel-matrix @ git+https://host.example/k@abc",
        ),
    ],
)
def test_another_machine_gets_what_is_installed_here_and_a_folder_is_nowhere_else(monkeypatch, origin, named):
    distribution = SimpleNamespace(read_text=lambda _: origin, version="0.9")
    monkeypatch.setattr(told.importlib.metadata, "distribution", lambda _: distribution)
    assert told.requirement() == named


def test_what_started_the_process_is_named_also_in_a_line_that_is_pasted(installed, monkeypatch):
    installed("here")
    monkeypatch.setenv("KERNEL_MATRIX_START", "ci/kernel-matrix")
    assert here(LINE) == "all tests: ci/kernel-matrix matrix --executor venv, then `ls`"
    assert (
        line_here("git switch -d a && kernel-matrix run --case a") == "git switch -d a && ci/kernel-matrix run --case a"
    )


def test_a_line_for_another_checkout_names_its_file_and_switches_that_checkout(monkeypatch):
    monkeypatch.setenv("KERNEL_MATRIX_START", "ci/kernel-matrix")
    line = line_here("git switch -d a && kernel-matrix run --case a", ["--matrix", "/a b/matrix.yaml", "--build", "/c"])
    switch = "git -C '/a b' switch -d a"
    assert line == f"{switch} && ci/kernel-matrix run --case a --matrix '/a b/matrix.yaml' --build /c"


@pytest.mark.parametrize(("length", "is_there"), [(7, True), (12, True), (40, True), (12, False)])
def test_a_checkout_that_is_at_the_commit_is_not_switched_to_it(tmp_path, monkeypatch, length, is_there):
    """A switch to the commit that is there would leave the branch, and change no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_MATRIX_START", "ci/kernel-matrix")
    _revision.cache_clear()
    someone = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), (*someone, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    name = head[:length] if is_there else "0123456789ab"
    line = f"git switch --detach {name} && kernel-matrix run --case a"
    matrix = ["--matrix", str(tmp_path / "matrix.yaml")]
    assert line_here(line, matrix).startswith("git -C ") != is_there
    assert line_here(line).startswith(f"git switch --detach {name} && ") != is_there
    _revision.cache_clear()


def test_the_message_of_an_error_has_the_command_as_it_is_typed(doubles: Doubles, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("KERNEL_MATRIX_START", "ci/kernel-matrix")
    arguments = ["report", "--matrix", str(doubles.root / "matrix.yaml"), str(doubles.root / "nowhere")]
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.endswith("Run the matrix first: ci/kernel-matrix matrix\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["matirx"], "matrix"), (["ci", "take-junti"], "take-junit"), (["toolchains", "swep"], "sweep")],
)
def test_a_misspelt_command_is_told_what_it_was_meant_to_be(capsys, words, meant):
    with pytest.raises(SystemExit):
        main(words)
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
