"""``kernel-matrix launches --versions`` compiles the same launches with several versions, and says what differs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from common import harness
from test_axis import wheel_of

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.states import Verdict
from kernel_matrix.store.record import Record
from kernel_matrix.tools.launches import command, versions


def verdict(target: str, registers: int, state: str = "compiled") -> Verdict:
    cell = SimpleNamespace(op="norm", target=target)
    metrics = {"artifact.registers": registers, "artifact.shared": 64.0} if registers else {}
    record = Record("", "pass" if registers else "error", "compile", metrics=metrics)
    return Verdict(SimpleNamespace(cell=cell), state, "compiled", "", record)  # type: ignore[arg-type]


RESULTS = {
    "3.6.0": [verdict("sm_90", 90), verdict("gfx942", 20)],
    "3.7.0": [verdict("sm_90", 96), verdict("gfx942", 20)],
    "3.8.0": [verdict("sm_90", 96), verdict("gfx942", 0, "error")],
    "3.9.0": "python calls.py: there is nothing to compile.",
}


def test_what_differs_is_named_with_the_version_that_changed_it():
    assert list(versions.lines("triton", RESULTS)) == [
        "triton 3.9.0: python calls.py: there is nothing to compile.",
        "triton 3.7.0 (3.6.0 before): 1 of 2 kernels on a target differ",
        "  norm on sm_90: compiled, 90 / 0 / 64 / 0 / 0 -> compiled, 96 / 0 / 64 / 0 / 0",
        "triton 3.8.0 (3.7.0 before): 1 of 2 kernels on a target differ",
        "  norm on gfx942: compiled, 20 / 0 / 64 / 0 / 0 -> error",
        "triton 3.9.0 (3.8.0 before): 2 of 2 kernels on a target differ",
        "  norm on sm_90: compiled, 96 / 0 / 64 / 0 / 0 -> nothing launched",
        "  norm on gfx942: error -> nothing launched",
    ]
    assert (
        "| norm | gfx942 | compiled, 20 / 0 / 64 / 0 / 0 | compiled, 20 / 0 / 64 / 0 / 0 | **error** |"
        in versions.page("triton", "python calls.py", RESULTS)
    )


@pytest.mark.parametrize("text", ["triton", "triton=3.6.0", "=1,2", "triton=1,,2"])
def test_versions_of_another_form_are_bad_input(text, tmp_path):
    done = harness("launches", "--versions", text, "--build", str(tmp_path), "--", "python", "calls.py")
    assert (done.returncode, "write NAME=VERSION,VERSION" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_each_version_has_a_folder_and_the_program_finds_it_first(tmp_path, monkeypatch):
    for version in ("1.0", "2.0"):
        wheel_of(tmp_path / "wheels", version)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    seen: list[str] = []

    def study(words, targets, told, options, folder: Path, *_):
        seen.append((options.packages[0] / "helper_of_doubles.py").read_text())
        if folder.name == "helper-of-doubles-2.0":
            raise UserError("python calls.py: there is nothing to compile.")
        return SimpleNamespace(dashboard=None, exit_status=0, not_compared=(), verdicts=(verdict("sm_90", 90),))

    monkeypatch.setattr(command, "study", study)
    monkeypatch.setattr(command, "print_dashboard", print)
    build = str(tmp_path / "build")
    done = harness("launches", "--versions", "helper-of-doubles=1.0,2.0", "--build", build, "--", "python", "calls.py")
    assert seen == ["VERSION = '1.0'\n", "VERSION = '2.0'\n"]
    assert done.returncode == 1, "the launches of a version are not known"
    assert "helper-of-doubles 2.0 (1.0 before): 1 of 1 kernels on a target differ" in done.stdout
    assert "**nothing launched**" in (tmp_path / "build" / "launches" / "versions.md").read_text()
    done = harness("launches", "--versions", "helper-of-doubles=1.0,3.0", "--build", build, "--", "python", "calls.py")
    assert (done.returncode, "helper-of-doubles 3.0 cannot be installed" in done.stderr) == (2, True), done.stderr
