"""The rows as Jobs of Kubernetes: what each pod gets, what it runs, and whether the API's schema takes it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from common import harness
from ruamel.yaml import YAML
from suites import MATRIX, Suite

_CUDA = """
  cuda:
    title: CUDA
    device: nvidia
    runner: [self-hosted]
    targets: [sm_80, sm_90]
    machines: [sm_80, sm_90]
    toolchains: [plain]
ci:
  kubernetes:
    claim: kernels
    image: registry.example/kernels@sha256:1
    memory: 8Gi
    targets:
      sm_90: { resources: { nvidia.com/gpu: 1 }, nodes: { gpu: h100 } }
      sm_80: { resources: { nvidia.com/gpu: 1 }, nodes: { gpu: a100 }, image: other.example/kernels@sha256:2 }
"""


def rendered(root: Path, text: str = _CUDA) -> tuple[int, str, str]:
    suite = Suite.made(root, {"tests/test_a.py": "def test_one(): pass\n"}, MATRIX.rstrip() + text)
    done = harness("ci", "plan", "--kubernetes", "--write", str(root / "build/plan.json"),
                   "--matrix", str(suite.root / "matrix.yaml"))  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def jobs_of(root: Path) -> dict[str, dict]:
    """Return the Jobs by the label of the nodes that they ask for; the report by its name."""
    status, text, said = rendered(root)
    assert status == 0, said
    items = YAML(typ="safe").load(text)["items"]
    return {"report" if item["metadata"]["name"].endswith("-report")
            else item["spec"]["template"]["spec"].get("nodeSelector", {}).get("gpu", ""): item for item in items}  # fmt: skip


def container(job: dict) -> dict:
    [found] = job["spec"]["template"]["spec"]["containers"]
    return found


def test_each_target_has_a_job_that_asks_for_its_device_and_no_other_has_one(tmp_path):
    jobs = jobs_of(tmp_path)
    assert {gpu: container(job)["resources"]["limits"] for gpu, job in jobs.items()} == {
        "h100": {"memory": "8Gi", "nvidia.com/gpu": 1},
        "a100": {"memory": "8Gi", "nvidia.com/gpu": 1},
        "": {"memory": "8Gi"},
        "report": {"memory": "8Gi"},
    }
    assert container(jobs["a100"])["image"] == "other.example/kernels@sha256:2"
    assert jobs["report"]["spec"]["suspend"] is True, "it begins when somebody says that the rows have ended"
    for job in jobs.values():
        pod = job["spec"]["template"]["spec"]
        assert not pod["automountServiceAccountToken"]
        assert pod["securityContext"]["runAsNonRoot"]


@pytest.mark.parametrize(
    ("ends", "times", "status", "again"),
    [(0, 1, 0, False), (1, 1, 0, False), (2, 1, 2, False), (137, 1, 137, False), (1, 2, 0, True)],
    ids=["green", "red", "input", "killed", "second pod of an index"],
)
def test_a_red_row_is_no_failed_pod_and_a_second_pod_goes_on(tmp_path, ends, times, status, again):
    job = jobs_of(tmp_path)["h100"]
    program = tmp_path / "bin" / "kernel-matrix"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@"\nexit {ends}\n')
    program.chmod(0o755)
    variables = {"PATH": f"{program.parent}:{os.environ['PATH']}", "JOB_UID": "u", "JOB_COMPLETION_INDEX": "0"}
    for _ in range(times):
        done = subprocess.run(container(job)["command"], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert "--row cuda.plain.sm_90" in done.stdout
    assert ("--resume" in done.stdout) is again


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    image: registry.example/kernels@sha256:1\n", "", "'image' is missing"),
        ("      sm_80: {", "      sm_70: {", "unknown target 'sm_70'. Did you mean"),
        ("    claim: kernels\n", "", "'claim' is missing"),
        ("memory: 8Gi", "memory: '8 Gi'", "ci.kubernetes.memory"),
        (_CUDA[_CUDA.index("ci:") :], "", "matrix.yaml has no such entry"),
        (("      sm_80: { resources: { nvidia.com/gpu: 1 }, nodes: { gpu: a100 }, "
         "image: other.example/kernels@sha256:2 }\n"), "", "'sm_80' has a machine, and no entry"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_entry_is_said(tmp_path, old, new, words):
    assert old in _CUDA
    status, _, said = rendered(tmp_path, _CUDA.replace(old, new))
    assert (status, words in said) == (2, True), said


@pytest.mark.nightly
def test_the_schema_of_kubernetes_takes_the_jobs(tmp_path):
    validate = pytest.importorskip(
        "kubernetes_validate", reason="it is in ci/locks/kubernetes.txt: ci/nox -s tests -- FILE"
    )
    for job in jobs_of(tmp_path).values():
        validate.validate(job, "1.31", strict=True)
        with pytest.raises(validate.ValidationError):
            validate.validate({**job, "spec": {**job["spec"], "completion": 1}}, "1.31", strict=True)
