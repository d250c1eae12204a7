"""The scripts of a runner, with fakes of nvidia-smi, docker and gh on PATH."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least
from ruamel.yaml import YAML
from together import first_are_quick

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.owner import owner
from kernel_matrix.ci.commands.labels import labels
from kernel_matrix.config.load import load
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

RUNNER = ROOT / "ci" / "runner"
PODS = sorted(at_least(1, (RUNNER / "kubernetes").glob("*.yaml")))
OURS = "owner/kernel-matrix"


@dataclass
class Box:
    """Hold a machine with a state folder, a /sys, and programs that are fakes."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def fake(self, name: str, script: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $@" >> {self.root}/called\n{script}\n')
        path.chmod(0o755)

    def gpu(self, used: int | str, driver: str = "580.1", user: str = "") -> None:
        self.fake(
            "nvidia-smi",
            f"""case "$1" in
            *memory.used*) echo "0, {used}";; *compute-apps*) echo "{user}";;
            *compute_cap*) echo "NVIDIA H200, 9.0, {driver}";; *driver_version*) echo {driver};; esac""",
        )

    @property
    def variables_of_a_job(self) -> dict[str, str]:
        """The variables that the account of the jobs has."""
        return {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "KERNEL_MATRIX_STATE": str(self.root / "state"),
            "KERNEL_MATRIX_SYSFS": str(self.root / "sys"),
            "KERNEL_MATRIX_SETTLE_SECONDS": "0",
            "KERNEL_MATRIX_FREE_GIB": "0",
            "KERNEL_MATRIX_REPOSITORY": OURS,
            "PYTHON": sys.executable,
            **self.variables,
        }

    def run(self, script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = {**self.variables_of_a_job, **more}
        command = [str(RUNNER / script), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    @property
    def called(self) -> str:
        path = self.root / "called"
        return path.read_text() if path.exists() else ""

    @property
    def out(self) -> Path:
        return self.root / "state" / "out-of-service"


@pytest.fixture
def box(tmp_path: Path) -> Box:
    made = Box(tmp_path)
    for name in ("docker", "podman", "nvidia-smi"):  # the tests must not use this machine's programs
        made.fake(name, "exit 1")
    return made


def job(box: Box, name: str, event: dict | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    path = box.root / "event.json"
    path.write_text(json.dumps(event or {}))
    ref = f"{OURS}/.github/workflows/main.yml@refs/heads/main"
    facts = {"GITHUB_EVENT_NAME": name, "GITHUB_REPOSITORY": OURS, "GITHUB_WORKFLOW_REF": ref}
    return box.run("admit", **{**facts, "GITHUB_EVENT_PATH": str(path), **more})


def pull(head: str | None) -> dict:
    return {"pull_request": {"head": {"repo": head and {"full_name": head}}, "base": {"repo": {"full_name": OURS}}}}


def by_a_bot(event):
    return {"pull_request": {**event["pull_request"], "user": {"login": "dependabot[bot]", "type": "Bot"}}}


def test_a_machine_takes_main_and_branches_of_its_own_repository(box):
    assert job(box, "push").returncode == 0
    assert job(box, "pull_request", pull(OURS)).returncode == 0
    hand = f"{OURS}/.github/workflows/by-hand.yml@refs/heads/main"
    assert job(box, "workflow_dispatch", GITHUB_WORKFLOW_REF=hand).returncode == 0


@pytest.mark.parametrize(
    ("name", "event", "more", "words"),
    first_are_quick(
        4,
        [
            ("pull_request", pull("stranger/kernel-matrix"), {}, "comes from stranger/kernel-matrix"),
            ("pull_request", by_a_bot(pull(OURS)), {}, "a bot made the pull request"),
            ("pull_request", pull(None), {}, "comes from a repository that is gone"),
            ("pull_request", {}, {}, "comes from a repository that is gone"),
            ("pull_request_target", pull("stranger/kernel-matrix"), {}, "no job of the event 'pull_request_target'"),
            ("issue_comment", {}, {}, "no job of the event 'issue_comment'"),
            ("workflow_run", {}, {}, "no job of the event 'workflow_run'"),
            ("push", {}, {"GITHUB_REPOSITORY": "stranger/kernel-matrix"}, f"takes jobs of {OURS} only"),
            (
                "push",
                {},
                {"GITHUB_WORKFLOW_REF": f"{OURS}/.github/workflows/main.yml@refs/heads/other"},
                "is not one of",
            ),
            ("push", {}, {"GITHUB_WORKFLOW_REF": f"{OURS}/.github/workflows/new.yml@refs/heads/main"}, "is not one of"),
            ("push", {}, {"KERNEL_MATRIX_REPOSITORY": ""}, "KERNEL_MATRIX_REPOSITORY is not set"),
            ("push", {}, {"GITHUB_EVENT_PATH": "/nonexistent"}, "the event cannot be read"),
        ],
    ),
)
def test_a_machine_refuses_what_is_not_its_own_to_run(box, name, event, more, words):
    done = job(box, name, event, **more)
    assert done.returncode == 1
    assert words in done.stdout


def test_a_clean_machine_stays_in_service(box):
    box.gpu(used=3)
    done = box.run("hygiene", "before")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "in service")
    assert "driver nvidia: 580.1" in done.stdout


def test_only_containers_of_ended_runs_are_removed_and_nothing_is_killed(box):
    """A container of a run that is alive may be a person's: it stays."""
    host, boot, namespace, *_ = owner().split()
    box.fake(
        "docker",
        f"""[ "$1" = ps ] && echo "beef {owner()}" && [ ! -e {box.root}/gone ] \
            && echo "c0ffee {host} {boot} {namespace} {2**22 + 1} 7"
        [ "$1" = rm ] && touch {box.root}/gone; true""",
    )
    for name in ("kill", "pkill", "killall"):
        box.fake(name, "")
    done = box.run("hygiene", "after")
    assert done.returncode == 0, done.stdout
    assert "removed the container c0ffee" in done.stdout
    assert "docker ps --all --filter label=kernel-matrix.owner" in box.called
    assert re.findall(r"docker rm .*", box.called) == ["docker rm --force c0ffee"]
    assert not re.search(r"^(kill|pkill|killall) ", box.called, re.MULTILINE)


LEFT = f"{' '.join(owner().split()[:3])} {2**22 + 1} 7"  # the owner of a container whose run has ended


@pytest.mark.parametrize(
    "engine",
    [
        # the first attempt is refused: its removal "is already in progress"
        """[ $1 = ps ] && [ ! -e {gone} ] && echo "c0ffee {left}"
           [ $1 = rm ] && {{ mv {begun} {gone} || touch {begun}; exit 1; }}; true""",
        # one is removed, and meanwhile another run ends
        """[ $1 = ps ] && [ ! -e {begun} ] && echo "c0ffee {left}"
           [ $1 = ps ] && [ -e {begun} ] && [ ! -e {gone} ] && echo "beef {left}"
           [ $1 = rm ] && {{ [ $3 = beef ] && touch {gone} || touch {begun}; }}; true""",
    ],
    ids=["removed-by-another", "ended-meanwhile"],
)
@pytest.mark.parametrize("seconds", ["0", "20"])
def test_a_container_that_needs_a_second_attempt_is_no_fault(box, engine, seconds):
    box.fake("docker", engine.format(left=LEFT, begun=box.root / "begun", gone=box.root / "gone"))
    done = box.run("hygiene", "after", KERNEL_MATRIX_SETTLE_SECONDS=seconds)
    refused = "exit 1" in engine and seconds == "0"
    assert done.returncode == int(refused), done.stdout


def test_a_container_that_stays_takes_the_machine_out(box):
    box.fake("docker", f'[ $1 = ps ] && echo "c0ffee {LEFT}"; [ $1 = rm ] && exit 1; true')
    assert box.run("hygiene", "after").returncode == 1
    assert "the container c0ffee of a job of ours cannot be removed" in box.out.read_text()
    assert "removed" not in box.run("hygiene", "after").stdout.replace("cannot be removed", "")


def test_a_leaking_gpu_takes_the_machine_out_and_names_who_holds_it(box):
    box.gpu(used=9000, user="4242, /usr/bin/game")
    done = box.run("hygiene", "after")
    assert done.returncode == 1
    assert "NVIDIA GPU 0 has 9000 MiB in use by 4242, /usr/bin/game" in box.out.read_text()
    box.gpu(used=3)
    again = box.run("hygiene", "before")
    assert again.returncode == 1, "it stays out until a person has looked"
    assert "took itself out of service" in again.stdout
    box.out.unlink()
    assert box.run("hygiene", "before").returncode == 0


@pytest.mark.parametrize("used", [300, "[N/A]"])
def test_a_process_that_computes_with_little_memory_is_a_fault(box, used):
    box.gpu(used=used, user="4242, /usr/bin/game")
    assert box.run("hygiene", "after").returncode == 1
    assert "a GPU is in use by 4242, /usr/bin/game" in box.out.read_text()


@pytest.mark.slow
def test_a_gpu_that_does_not_tell_its_memory_is_no_fault(box):
    box.gpu(used="[N/A]")
    done = box.run("hygiene", "before")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_memory_of_an_amd_gpu_is_read_from_the_driver(box):
    path = box.root / "sys" / "class" / "drm" / "card1" / "device" / "mem_info_vram_used"
    path.parent.mkdir(parents=True)
    path.write_text(f"{5000 * 2**20}\n")
    assert box.run("hygiene", "before").returncode == 1
    assert "AMD GPU card1 has 5000 MiB in use" in box.out.read_text()


@pytest.mark.slow
def test_a_full_disk_and_a_driver_that_is_gone_take_the_machine_out(box):
    assert box.run("hygiene", "before", KERNEL_MATRIX_FREE_GIB="1e9").returncode == 1
    assert "GiB are free below" in box.out.read_text()
    box.out.unlink()
    box.gpu(used=3)
    assert box.run("hygiene", "before").returncode == 0
    box.fake("nvidia-smi", "exit 9")
    assert box.run("hygiene", "before").returncode == 1
    assert "the driver nvidia 580.1 no longer answers" in box.out.read_text()


@pytest.mark.slow
def test_a_new_driver_is_said_and_is_no_fault(box):
    box.gpu(used=3)
    box.run("hygiene", "before")
    box.gpu(used=3, driver="590.2")
    done = box.run("hygiene", "before")
    assert done.returncode == 0
    assert "driver nvidia: 590.2, before: 580.1" in done.stdout


def test_looking_changes_nothing(box):
    box.gpu(used=9000)
    assert box.run("hygiene", "look").returncode == 1
    assert not (box.root / "state").exists()
    assert "docker rm" not in box.called


def test_the_hook_before_a_job_asks_who_it_is_first(box):
    box.gpu(used=9000)
    done = box.run("job-started.sh", GITHUB_EVENT_PATH="/nonexistent")
    assert done.returncode == 1
    assert "refuses the job" in done.stdout
    assert "not clean" not in done.stdout


def test_the_hook_after_a_job_leaves_the_job_s_own_verdict(box):
    box.gpu(used=9000)
    done = box.run("job-completed.sh")
    assert done.returncode == 0
    assert "takes no further job" in done.stdout


@pytest.mark.slow
def test_a_runner_is_registered_for_one_job_with_the_labels_of_its_hardware(box):
    box.gpu(used=3)
    box.fake("gh", "echo configuration-of-one-job")
    (box.root / "runner").mkdir()
    (box.root / "runner" / "run.sh").write_text("")
    into, token = box.root / "job", box.root / "token"
    token.write_text("x\n")
    (into / "of-the-job-before").mkdir(parents=True)
    stays = into.stat().st_ino
    facts = {"KERNEL_MATRIX_TOKEN_FILE": str(token), "KERNEL_MATRIX_RUNNER": str(box.root / "runner")}
    done = box.run("register", str(into), **facts)
    assert done.returncode == 0, done.stderr
    assert not (into / "of-the-job-before").exists()
    assert into.stat().st_ino == stays, "the unit mounts the folder, so it must not be made anew"
    assert (into / "jit").read_text() == "configuration-of-one-job\n"
    assert (into / "jit").stat().st_mode & 0o077 == 0
    assert f"repos/{OURS}/actions/runners/generate-jitconfig" in box.called
    assert "labels[]=self-hosted" in box.called
    assert "labels[]=sm_90" in box.called


def test_a_machine_out_of_service_does_not_register(box):
    box.gpu(used=9000)
    box.fake("gh", "echo x")
    assert box.run("register", str(box.root / "job"), GH_TOKEN="x").returncode == 1
    assert "gh " not in box.called


def test_the_unit_and_the_pods_name_scripts_that_are_here_and_that_the_runner_takes():
    unit = (RUNNER / "kernel-matrix-runner.service").read_text()
    named = set(re.findall(r"/opt/kernel-matrix/(ci/runner/[\w.-]+)", unit))
    assert {"ci/runner/register", "ci/runner/hygiene"} < named
    assert "LoadCredential" not in unit, "systemd lets the account of the jobs read a credential"
    assert "InaccessiblePaths=-/etc/kernel-matrix-runner.token" in unit
    assert {"RemoveIPC=yes", "PrivateIPC=yes"} < set(unit.splitlines())
    assert all(os.access(ROOT / path, os.X_OK) for path in named)
    hooks = re.findall(r"HOOK_JOB_\w+=(\S+)", unit)
    for vendor, file in ((path.stem, path) for path in PODS):
        values = YAML(typ="safe").load(file)
        [container] = values["template"]["spec"]["containers"]
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        hooks += [value for name, value in variables.items() if "HOOK" in name]
        assert f"{vendor}.com/gpu" in container["resources"]["limits"]
        assert values["template"]["spec"]["automountServiceAccountToken"] is False
    assert len(hooks) == 6
    assert all(hook.endswith(".sh") for hook in hooks), "the runner refuses a hook with another ending"
    assert all((RUNNER / Path(hook).name).exists() for hook in hooks)


def as_the_pod_has_it(values: Path, hooks: Path) -> dict[str, str]:
    """Copy the hooks as the init container of a pod does; return the variables of its runner, which name them."""
    spec = YAML(typ="safe").load(values)["template"]["spec"]
    [copies], [runner] = spec["initContainers"], spec["containers"]
    [place] = {mount["mountPath"] for mount in (*copies["volumeMounts"], *runner["volumeMounts"])}
    hooks.mkdir(parents=True)

    def here(text: str) -> str:
        return text.replace("/opt/kernel-matrix", str(ROOT)).replace(place, str(hooks))

    subprocess.run([here(word) for word in copies["command"]], check=True)
    return {variable["name"]: here(variable["value"]) for variable in runner["env"]}


def of_pod(box: Box, when: str, variables: dict[str, str], name: str, event: dict) -> subprocess.CompletedProcess[str]:
    """Run a hook of a pod as the runner does: by bash, from elsewhere, with what GitHub wrote about the job."""
    path = box.root / "event.json"
    path.write_text(json.dumps(event))
    facts = {"GITHUB_EVENT_NAME": name, "GITHUB_REPOSITORY": variables["KERNEL_MATRIX_REPOSITORY"]}
    state = {"KERNEL_MATRIX_STATE": str(box.root / "state"), "GITHUB_EVENT_PATH": str(path)}
    env = {**box.variables_of_a_job, **variables, **facts, **state}
    command = ["bash", "-e", variables[f"ACTIONS_RUNNER_HOOK_JOB_{when}"]]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)


@pytest.mark.parametrize("values", PODS, ids=lambda path: path.stem)
@pytest.mark.parametrize("folder", ["hooks", "a place/of several/folders"])
def test_a_pod_runs_both_hooks_from_where_its_init_container_copied_them(box, values, folder):
    variables = as_the_pod_has_it(values, box.root / folder)
    ours = {"repo": {"full_name": variables["KERNEL_MATRIX_REPOSITORY"]}}
    event = {"pull_request": {"head": ours, "base": ours}}
    for when, words in (("STARTED", "this machine takes the job\nclean\n"), ("COMPLETED", "clean\n")):
        done = of_pod(box, when, variables, "pull_request", event)
        assert (done.returncode, done.stdout, done.stderr) == (0, words, "")


@pytest.mark.parametrize("values", PODS, ids=lambda path: path.stem)
def test_a_pod_refuses_a_fork_and_names_what_a_job_left_behind(box, values):
    variables = as_the_pod_has_it(values, box.root / "hooks")
    done = of_pod(box, "STARTED", variables, "pull_request", pull("stranger/x"))
    assert done.returncode == 1
    assert "this machine refuses the job" in done.stdout
    assert done.stderr == ""
    box.gpu(used=9000, user="77, python")
    done = of_pod(box, "COMPLETED", variables, "push", {})
    assert done.returncode == 0
    assert "NVIDIA GPU 0 has 9000 MiB in use by 77, python" in done.stdout
    assert "this machine takes no further job" in done.stdout
    assert done.stderr == ""


def test_a_hook_that_is_a_link_finds_what_lies_beside_its_file(box):
    links = box.root / "links"
    links.mkdir()
    for name in ("job-started.sh", "job-completed.sh"):
        (links / name).symlink_to(RUNNER / name)
    done = subprocess.run(
        ["bash", links / "job-completed.sh"], env=box.variables_of_a_job, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "clean\n", "")


def test_labels_are_what_the_matrix_asks_for(matrix):
    h200 = Device("nvidia", "NVIDIA H200", ("sm_90",), "580.1")
    mi300 = Device("amd", "AMD gfx942", ("gfx942",))
    cpu = Device("cpu", "x", ("x86-64-v3",))
    assert labels(Machine((cpu, h200, h200)), "x86_64") == list(matrix.platforms["cuda"].labels("sm_90"))
    assert labels(Machine((cpu, mi300)), "x86_64") == list(matrix.platforms["rocm"].labels("gfx942"))
    with pytest.raises(UserError, match="GPUs of several kinds: amd gfx942, nvidia sm_90"):
        labels(Machine((cpu, h200, mi300)), "x86_64")


def test_on_kubernetes_the_label_is_the_scale_set_s_name(doubles):
    doubles.edit("runner: [linux]", 'runner: ["kernel-matrix-{target}"]')
    assert load(doubles.root / "matrix.yaml").platforms["here"].labels("gfx942") == ("kernel-matrix-gfx942",)
