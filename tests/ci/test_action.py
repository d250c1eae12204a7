"""The action that other repositories use: its form, and its steps, executed as GitHub would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci"))

from workflow_policy import read  # noqa: E402

TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION = YAML(typ="safe").load(TEXT)
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}

GITHUB = {
    "steps.report.outputs.artifact": "site-here",
    "github.token": "a-token",
    "github.event.pull_request.number": "7",
    "github.server_url": "https://code.example",
    "github.repository": "me/thing",
    "github.run_id": "9",
}


def filled(text: str, inputs: dict[str, str]) -> str:
    """Return a text with GitHub's expressions replaced by their values."""
    values = {"github.action_path": str(ROOT), **GITHUB, **{f"inputs.{name}": value for name, value in inputs.items()}}
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: values[match[1]], text)


class Runner:
    """Run steps in a folder, with the files and variables that GitHub gives to a step."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        defaults = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
        self.work, self.inputs = folder / "work", {**defaults, **inputs}
        (folder / "temp" / "kernel-matrix" / "bin").mkdir(parents=True)
        self.program = folder / "temp" / "kernel-matrix" / "bin" / "kernel-matrix"
        self.summary, self.output = folder / "summary", folder / "output"
        self.variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.output),
        }

    def step(self, name: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a step; ``more`` are options for its ``pip install``."""
        step = STEPS[name]
        assert step["shell"] == "bash"
        script = self.work / f"{name}.sh"
        script.write_text(step["run"].replace("pip install", " ".join(["pip install", *more])))
        environment = {**self.variables, **{key: filled(text, self.inputs) for key, text in step["env"].items()}}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)


def runner(tmp_path: Path, toolchain_options: str = "", **inputs: str) -> Runner:
    """Return a runner in a copy of the doubles' package, with the harness of this checkout in place of an installed one."""
    made = Runner(tmp_path, {"options": toolchain_options, **inputs})
    shutil.copytree(ROOT / "tests" / "support" / "doubles", made.work)
    matrix = made.work / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace("targets: [any]", "targets: [x86-64]"))
    made.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kernel_matrix "$@"\n')
    made.program.chmod(0o755)
    return made


def test_the_action_has_five_inputs_and_no_expression_in_a_script():
    assert list(ACTION["inputs"]) == ["platform", "options", "history", "artifact", "comment"]
    assert all(entry["default"] == "" and entry["description"] for entry in ACTION["inputs"].values())
    assert not [step for step in STEPS.values() if "${{" in step["run"]]


def test_the_action_pins_what_the_workflows_pin():
    ours = "\n".join(read(ROOT).values())
    used = re.findall(r"uses: (\S+ # \S+)", TEXT)
    assert len(used) == 2
    assert [pin for pin in used if pin not in ours] == []


@pytest.mark.slow
def test_a_red_case_makes_both_steps_red_and_still_leaves_the_page(tmp_path):
    """A green platform is run by act, as GitHub would: ``test_act.py``."""
    made = runner(tmp_path, "--executor current --toolchain 'raises'", platform="here")
    assert made.step("Run").returncode == 1
    reported = made.step("Report")
    assert reported.returncode == 1
    assert "::error" in reported.stdout
    assert made.output.read_text() == "site=build/site\nartifact=site-here\n"
    assert (made.work / "build" / "site" / "index.html").exists()
    assert "doubles" in made.summary.read_text()


def test_options_are_words_and_never_a_command(tmp_path):
    made = runner(tmp_path, "--toolchain '$(touch here)' --executor current; touch there")
    done = made.step("Run")
    assert done.returncode == 2
    assert not (made.work / "here").exists()
    assert not (made.work / "there").exists()


def test_without_options_everything_is_asked_for(tmp_path):
    made = runner(tmp_path)
    made.program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    assert made.step("Run").stdout == "<run><--write-cases><build/cases.txt>"
    made.inputs["platform"] = "here there"
    assert made.step("Run").stdout == "<run><--write-cases><build/cases.txt><--platform><here there>"


def test_a_history_is_handed_to_the_report_if_there_is_one(tmp_path):
    made = runner(tmp_path, history="build/old site")
    made.program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (made.work / "build").mkdir()
    (made.work / "build" / "cases.txt").touch()
    words = "<report><--cases><build/cases.txt><--annotate>"
    assert made.step("Report").stdout == words
    (made.work / "build" / "old site").mkdir()
    assert made.step("Report").stdout == f"{words}<--history><build/old site>"


def test_a_comment_compares_with_the_history_and_has_the_name_of_the_page(tmp_path):
    made = runner(tmp_path, history="build/old site", comment="true")
    made.program.write_text('#!/bin/sh\nprintf "<%s>" "$@" "$GITHUB_TOKEN"\n')
    assert made.step("Comment").stdout == (
        "<ci><comment><build/old site><build/site><--post><--number><7><--name><site-here>"
        "<--page><https://code.example/me/thing/actions/runs/9><a-token>"
    )
    assert "inputs.comment == 'true'" in STEPS["Comment"]["if"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in STEPS["Comment"]["if"]


@pytest.mark.slow
def test_what_could_not_begin_has_no_page_to_upload(tmp_path):
    made = runner(tmp_path, "--toolchain nobody")
    assert made.step("Run").returncode == 2
    assert made.step("Report").returncode == 0
    assert not made.output.exists()


@pytest.mark.parametrize(
    ("inputs", "name"),
    [({}, "site"), ({"platform": "here"}, "site-here"), ({"platform": "here", "artifact": "mine"}, "mine")],
)
def test_each_platform_has_an_artifact_of_its_own_and_an_input_names_another(tmp_path, inputs, name):
    made = runner(tmp_path, **inputs)
    made.program.write_text("#!/bin/sh\n")
    (made.work / "build").mkdir()
    (made.work / "build" / "cases.txt").touch()
    made.step("Report")
    assert f"artifact={name}\n" in made.output.read_text()


def test_one_job_never_replaces_the_page_of_another_in_silence():
    [upload] = [step["with"] for step in ACTION["runs"]["steps"] if "upload-artifact@" in step.get("uses", "")]
    assert upload["overwrite"] == "${{ github.run_attempt != '1' }}"
    assert upload["if-no-files-found"] == "error"


@pytest.mark.nightly
def test_the_harness_is_installed_from_the_action_s_own_checkout(tmp_path):
    """By day ``test_act.py`` plays the action: its steps run the program that this step installs."""
    made = Runner(tmp_path, {})
    made.work.mkdir()
    shutil.rmtree(made.program.parents[1])
    done = made.step("Install", "--no-deps")  # test_distributions installs them all
    assert done.returncode == 0, done.stderr
    python = made.program.with_name("python")
    command = [python, "-I", "-c", "import kernel_matrix; print(kernel_matrix.__file__)"]
    where = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(tmp_path / "temp"))
    assert made.program.exists()
