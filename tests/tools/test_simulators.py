"""Launches run in simulators of other projects. Here are doubles of these."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from common import ROOT, harness, records_in
from loops import at_least

from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.common.memory import Memory
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import Request
from kernel_matrix.tools.launches import simulators
from kernel_matrix.tools.launches.inside.recorder.triton.emulated import simulated

HERE = ROOT / "tests" / "tools" / "simulators"
BOTH = pytest.mark.parametrize(("name", "target"), [("pantheonsim", "sm_90"), ("rocjitsu", "gfx942")])
SAYS = {"pantheonsim": "vgpu 0.2.0", "rocjitsu": "rocjitsu 0.3.0\ngit revision: abc123\ngit commit: 2026-09-09 A title"}
VERSIONS = {"pantheonsim": "0.2.0", "rocjitsu": "0.3.0 git revision: abc123"}
COMMAND = """#!/bin/sh
[ "$1" = --version ] && exec echo "{says}"
echo "$@" >> "$0.calls"
ulimit -v > "$0.limit"
while [ "$1" != -- ]; do shift; done
shift
LD_LIBRARY_PATH={drivers} exec "$@"
"""


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """Compile the double of the drivers."""
    folder = tmp_path_factory.mktemp("drivers")
    names = [folder / name for name in ("libcuda.so.1", "libamdhip64.so.6")]
    words = ["-shared", "-fPIC", "-w", str(HERE / "driver.c"), "-o", str(names[0])]
    subprocess.run(["gcc", *words], check=True)
    names[1].symlink_to(names[0])
    return folder


@pytest.fixture
def on_path(tmp_path, drivers, monkeypatch):
    """Put a double of each simulator on PATH, with its files next to it."""
    programs, configs = tmp_path / "bin", tmp_path / "share" / "rocjitsu" / "configs"
    programs.mkdir()
    configs.mkdir(parents=True)
    for name, simulator in simulators.SIMULATORS.items():
        command = programs / simulator.command
        command.write_text(COMMAND.format(says=SAYS[name], drivers=drivers))
        command.chmod(0o755)
    for file, content in {
        "gfx942.json": {"vm": {"gpu": {}}},
        "gfx942_mi300x.json": {"vm": {"gpu": {"device": {"gfx_target_version": 90402}}}, "max_ticks": 5},
        "gfx942_mi300x_2gpu.json": {"vm": {"gpu": {"device": {}}}},
        "gfx9420_other.json": {"vm": {"gpu": {"device": {}}}},
    }.items():
        (configs / file).write_text(json.dumps(content))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return programs


def program(name, target, kernel, folder):
    found = simulators.found(name, [target], folder)
    api = "cuda" if target.startswith("sm_") else "hip"
    return simulated.Program(found.for_recorder, target, api, b"code\0", kernel)


def launch(made, x, o, **options):
    size = struct.pack("<i", x.size)
    return made.launch((3, 1, 1), 64, [Memory.of("x", x), Memory.of("o", o), size, bytes(8), bytes(8)], **options)


@BOTH
def test_a_kernel_runs_on_copies_of_its_memory_which_are_written_back(on_path, tmp_path, name, target):
    x, o = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    assert launch(program(name, target, "doubled", tmp_path), x, o, shared=60 << 10).findings == ()
    assert o.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    whole = np.arange(12, dtype=np.float32)  # two arguments are parts of one tensor, and begin at odd places
    launch(program(name, target, "placed", tmp_path), whole[1:5], whole[3:7])
    assert whole.tolist() == [0, 1, 2, (whole.ctypes.data + 4) % 16, 364, 4, 8, *range(7, 12)]


def test_each_is_started_as_its_documents_say(on_path, tmp_path):
    for name, target, command in (("pantheonsim", "sm_89", "vgpu"), ("rocjitsu", "gfx942", "rocjitsu")):
        launch(program(name, target, "doubled", tmp_path), *np.ones((2, 8), np.float32))
        words = (on_path / f"{command}.calls").read_text().split()
        config = ["--config", str(tmp_path / "gfx942.json"), "--"]
        assert (
            words[: words.index("--") + 1]
            == {
                "vgpu": ["run", "--gpu", "nvidia/l4", "--race", "--"],
                "rocjitsu": config,
            }[command]
        )
        assert Path(words[words.index("--") + 4]).name == "host.py"
    content = json.loads((tmp_path / "gfx942.json").read_text())
    assert content["vm"]["gpu"]["device"] == {"gfx_target_version": 90402}
    assert (content["max_ticks"], content["plugins"]) == (5, {"race": {}})


@BOTH
def test_a_race_is_a_finding_and_its_numbers_are_not_taken(on_path, tmp_path, name, target):
    x, o = np.ones((2, 8), np.float32)
    [finding] = launch(program(name, target, "racing", tmp_path), x, o).findings
    assert (
        finding
        == {
            "pantheonsim": "VirtualGPU error [data-race]: shared memory word 4 is written by warp 1 "
            "in kernel 'racing', PTX line 30",
            "rocjitsu": "RACE kernel=racing type=LDS access=read wave=0 Race on LDS byte 508",
        }[name]
    )
    assert (o == 1).all()


@BOTH
@pytest.mark.parametrize("kernel", ["refused", "absent", "dies"])
def test_what_a_simulator_does_not_run_is_an_error_with_its_name_and_version(on_path, tmp_path, name, target, kernel):
    said = {
        "refused": {"pantheonsim": r"VirtualGPU error \[unsupported-ptx\]: tcgen05\.mma", "rocjitsu": "error: v_new"},
        "absent": {
            "pantheonsim": "cuModuleGetFunction failed with error 500",
            "rocjitsu": "hipModuleGetFunction .* 500",
        },
        "dies": dict.fromkeys(SAYS, "it ended with status -6"),
    }
    x, o = np.ones((2, 8), np.float32)
    with pytest.raises(EmulatorError, match=rf"^{name} {VERSIONS[name]}: {said[kernel][name]}$"):
        launch(program(name, target, kernel, tmp_path), x, o)
    assert (o == 1).all()


def test_a_machine_without_the_driver_is_told_which_library_is_missing(on_path, tmp_path, drivers, monkeypatch):
    command = on_path / "rocjitsu"
    command.write_text(command.read_text().replace(str(drivers), "/nowhere"))
    with pytest.raises(EmulatorError, match=r"the loader finds no libamdhip64\.so\.7 or .*, by which kernels"):
        launch(program("rocjitsu", "gfx942", "doubled", tmp_path), *np.ones((2, 8), np.float32))


def test_what_is_missing_is_said_in_a_sentence_with_status_2(on_path, tmp_path, monkeypatch):
    def refused(*words):
        run = harness("launches", "--build", str(tmp_path / "build"), *words, "--", sys.executable, "-c", "")
        assert run.returncode == 2
        return run.stderr

    assert "there is no such simulator. Did you mean 'rocjitsu'?" in refused(
        "--emulate", "gfx942", "--with", "rocjitsi"
    )
    assert "there is no such target of rocjitsu" in refused("--emulate", "sm_90", "--with", "rocjitsu")
    assert "name its targets too, such as --emulate gfx90a" in refused("--with", "rocjitsu")
    assert "describes a device of gfx1100" in refused("--emulate", "gfx1100", "--with", "rocjitsu")
    (on_path / "vgpu").write_text("#!/bin/sh\necho 0.0.5\n")
    assert "does not say a version of pantheonsim: is it another program?" in refused(
        "--emulate", "sm_90", "--with", "pantheonsim"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=r"there is no command rocjitsu on PATH\. .* ROCm/rocm-systems on GitHub\.$"):
        simulators.found("rocjitsu", ["gfx942"], tmp_path)


def test_the_docs_have_each_deviation_that_the_output_names():
    text = " ".join((ROOT / "docs" / "emulation.md").read_text().split())
    at_least(3, (one for simulator in simulators.SIMULATORS.values() for one in simulator.deviations))
    for simulator in simulators.SIMULATORS.values():
        assert all(f"{one.text} ({one.source})" in text for one in simulator.deviations)
        assert all(f"`{target}`" in text for target in simulator.targets)


@pytest.mark.slow
@pytest.mark.environments
def test_launches_of_a_program_are_compared_and_the_records_name_the_simulator(on_path, tmp_path, monkeypatch):
    kept = ROOT / "build" / "cache" / "emulated"  # what was compiled is kept for the next time
    kept.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").symlink_to(kept)
    (ROOT / "build" / "envs").mkdir(exist_ok=True)
    request = Request(ROOT, ROOT / "build", load(ROOT / "matrix.yaml"), Job("rocm", "triton-3.7", ()), None, print)
    python = venv.prepare(request).python
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    words = ("--build", str(tmp_path), "--emulate", "sm_90", "--with", "pantheonsim", "--", str(python))
    run = harness("launches", *words, str(HERE / "calls.py"))
    records = {one.case.split("/")[3].removesuffix(".launch"): one for one in records_in(tmp_path / "launches/results")}
    assert {name: (one.outcome, one.action, one.stage) for name, one in records.items()} == {
        "doubled": ("pass", "emulate", ""),
        "tripled": ("fail", "emulate", ""),
        "racing": ("error", "compile", "launch"),
    }
    assert records["doubled"].metrics["canary.caught"] > 0
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    assert (on_path / "vgpu.limit").read_text().strip() == ("unlimited" if most < 0 else str(most >> 10))
    assert "data-race" in records["racing"].message
    job = records["doubled"].job
    assert (job["version.pantheonsim"], job["device"]) == ("0.2.0", "NVIDIA GPU, emulated by pantheonsim 0.2.0")
    assert "emulated on sm_90 by pantheonsim 0.2.0: 3 launches ran, 2 were compared, 1 have findings" in run.stdout
    assert "known of pantheonsim: a store that changes nothing in shared memory is no race (README.md)" in run.stdout
    assert "buffer" not in run.stdout, "what is known of AMD's targets does not concern this one"
    assert run.returncode == 1
