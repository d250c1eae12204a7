"""Rows of Slurm inside of images: the command lines, played by stand-ins of the programs that a cluster has."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from suites import MATRIX, Suite

from kernel_matrix import pipeline
from kernel_matrix.ci.cluster import make_run
from kernel_matrix.ci.engines import engine_named
from kernel_matrix.ci.engines.slurm import script
from kernel_matrix.ci.event_plan import plan_rows
from kernel_matrix.run.proven import KEY

_SLURM = """
  cuda: {{ title: CUDA, device: nvidia, runner: [self-hosted], targets: [sm_90], toolchains: [plain] }}
  rocm: {{ title: ROCm, device: amd, runner: [self-hosted], targets: [gfx942], toolchains: [plain] }}
ci:
  slurm:
    image: "{images}/any"
    runtime: {runtime}
    targets:
      sm_90: {{ gres: "gpu:h100", image: "{images}/cuda" }}
      gfx942: {{ gres: "gpu:mi300x", image: "{images}/rocm" }}
"""
# It notes what it got, and runs what stands behind the image as the program would.
_STAND_IN = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
pathlib.Path(os.environ["NOTE"]).write_text(json.dumps({"words": words, "key": os.environ.get("%s", ""), "path": os.environ.get("PYTHONPATH", "")}))
sys.exit(3 if "kernel-matrix" in words else 9)
"""


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Return a function that runs the first row for a target in a shell, and returns the words of the program."""
    for name in ("apptainer", "ch-run", "podman", "srun"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(_STAND_IN % KEY)
        program.chmod(0o755)

    def play(runtime: str, target: str, root: Path = tmp_path / "a package") -> list[str]:
        matrix = MATRIX.rstrip() + _SLURM.format(runtime=runtime, images=tmp_path / "images")
        suite = Suite.made(root, {"tests/test_a.py": "def test_one(): pass\n"}, matrix)
        monkeypatch.chdir(suite.root)
        project = pipeline.load(Path("matrix.yaml"))
        run = make_run("slurm", project, plan_rows(project, machines=engine_named("slurm").machines(project.matrix)))
        number = next(number for number, batch in enumerate(run.batches) if batch.target == target)
        script.logs(run).mkdir(parents=True, exist_ok=True)
        variables = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "NOTE": str(tmp_path / "note")}
        variables |= {"SLURM_ARRAY_TASK_ID": "0", "SLURMD_NODENAME": "a", "SLURM_ARRAY_JOB_ID": "1", KEY: "secret"}
        variables |= {"SLURM_JOB_NAME": "name", "PYTHONPATH": "/modules/python"}
        done = subprocess.run(["bash", "-c", script.array(run, number)], env=variables, capture_output=True, text=True)
        assert done.returncode == 3, (done.stdout, done.stderr)
        noted = json.loads((tmp_path / "note").read_text())
        assert noted["key"] == "secret", "a row that goes on elsewhere believes what is signed with it"
        assert noted["path"] == "", "the node's packages are none of the image's Python"
        return noted["words"]

    return play


@pytest.mark.parametrize(
    ("runtime", "target", "flags", "image"),
    [
        ("apptainer", "sm_90", ["--nv"], "/images/cuda"),
        ("apptainer", "gfx942", ["--rocm"], "/images/rocm"),
        ("apptainer", "", [], "/images/any"),
        ("podman", "sm_90", ["--device=nvidia.com/gpu=all"], "/images/cuda"),
        ("podman", "gfx942", ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups"], "/images/rocm"),
        ("charliecloud", "", [], "/images/any"),
        ("pyxis", "sm_90", [], "/images/cuda"),
    ],
)
def test_a_row_runs_in_the_image_of_its_target_with_its_device(played, tmp_path, runtime, target, flags, image):
    words = played(runtime, target)
    text = " ".join(words)
    image = str(tmp_path) + image
    assert image in text
    assert runtime != "charliecloud" or Path(f"{image}{tmp_path}/a package").is_dir(), "it has a place to be mounted"
    assert [word for word in words if word in flags] == flags, "the flags are those of the target's vendor"
    assert text.count("--nv") == flags.count("--nv")
    assert text.count("--device") == sum("--device" in one for one in flags)
    assert str(tmp_path / "a package") in text, "the row sees the checkout"
    before, row = words[: words.index("kernel-matrix")], words[words.index("kernel-matrix") :]
    assert row[:2] == ["kernel-matrix", "run"]
    assert "--row" in row
    assert not flags or before.index(flags[0]) < next(place for place, word in enumerate(before) if image in word)


def test_without_an_image_a_row_runs_on_the_node(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    project = pipeline.load(suite.root / "matrix.yaml")
    run = make_run("slurm", project, plan_rows(project, machines=engine_named("slurm").machines(project.matrix)))
    assert not [*script.inside(run, run.batches[0]), *script.before(run, run.batches[0])]


@pytest.mark.parametrize("runtime", script._LINES)
def test_a_row_in_an_image_on_its_node_s_own_disk_sees_its_copy_and_nothing_of_the_checkout(
    tmp_path, monkeypatch, runtime
):
    matrix = f"{MATRIX.rstrip()}\nci: {{ slurm: {{ disk: /scratch, image: /images/any, runtime: {runtime} }} }}\n"
    suite = Suite.made(tmp_path / "a package", {"tests/test_a.py": "def test_one(): pass\n"}, matrix)
    monkeypatch.chdir(suite.root)
    project = pipeline.load(Path("matrix.yaml"))
    run = make_run("slurm", project, plan_rows(project, machines=engine_named("slurm").machines(project.matrix)))
    text = script.array(run, 0)
    assert run.root not in text
    [row, *words] = shlex.split(shlex.split(text.partition("rows=(\n")[2].partition("\n)")[0])[0])
    copy = f"/scratch/km-{run.id}/{row}/checkout"
    before, after = words[: words.index("kernel-matrix")], words[words.index("kernel-matrix") :]
    assert re.findall(rf"{copy}(?=[:,]|$)", "\n".join(before), re.MULTILINE), "it is mounted, and the row is there"
    assert after[after.index("--plan") + 1] == f"{copy}/build/cluster/plan.json"
    assert ('mkdir -p /images/any"$copy/checkout"' in text) is (runtime == "charliecloud")
