"""Programs of TileLang and extensions of PyTorch are recorded without a GPU, each in its own environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from common import ROOT, harness, python_of, records_in

from kernel_matrix.store.record import Record

pytestmark = [pytest.mark.environments, pytest.mark.slow]

FOLDER = ROOT / "tests" / "tools" / "launched"
# A hipcc that is none: it says what it was given, and writes an object with a size. The real one is on AMD's machines.
HIPCC = """\
#!/bin/sh
for word in "$@"; do last="$word"; done
while [ "$1" != -o ]; do shift; done
grep -q hipLaunchKernelGGL "$last" || { echo "$last:1:1: error: not hipified" >&2; exit 1; }
echo "$last:3:1: remark:     VGPRs: 7 [-Rpass-analysis=kernel-resource-usage]" >&2
echo object > "$2"
"""


@dataclass(frozen=True)
class Done:
    """A run of the command, and its records by case."""

    status: int
    output: str
    records: dict[str, Record]

    def of(self, target: str, kernel: str) -> list[Record]:
        return [one for case, one in self.records.items() if f"/{target}/" in case and f"/{kernel}.launch/" in case]


def launches(toolchain: str, script: str, build: Path, *options: str) -> Done:
    """Run the command on a small program in the environment of a toolchain."""
    done = harness("launches", "--build", str(build), *options, "--", str(python_of(toolchain)), str(FOLDER / script))
    records = {record.case: record for record in records_in(build / "launches" / "results")}
    return Done(done.returncode, done.stdout + done.stderr, records)


@pytest.mark.nightly
def test_programs_of_tilelang_are_compiled_for_every_target(tmp_path):
    """The tests without a GPU compile for sm_90 with the older TileLang, for which nvcc takes five seconds a kernel."""
    toolchain, on_nvidia = "tilelang-0.1.15", ("sm_80", "sm_90")
    options = ("--targets", *on_nvidia, "gfx942", "--launches", "all", "--jobs", "2", "--seconds", "300")
    done = launches(toolchain, "launched_programs.py", tmp_path / "build", *options)
    assert "did not end well" not in done.output, done.output
    for target in on_nvidia:
        for kernel, count in (("product", 2), ("add", 1)):
            records = done.of(target, kernel)
            assert [(one.outcome, one.action) for one in records] == [("pass", "compile")] * count
            assert all(
                one.metrics["artifact.registers"] > 0 and one.metrics["artifact.threads"] >= 128 for one in records
            )
        assert {one.metrics["artifact.shared"] > 0 for one in done.of(target, "product")} == {True}
        assert [one.metrics["artifact.shared"] for one in done.of(target, "add")] == [0]
        [wrong] = done.of(target, "wrong")
        assert (wrong.outcome, wrong.stage) == ("error", "compile")
        assert "no_such_function" in wrong.message
    [added] = done.of("gfx942", "add")
    assert added.outcome == "pass"
    assert added.facts["artifact.kind"] == "hip-source"
    assert f"/{toolchain}/" in next(iter(done.records))


@pytest.mark.nightly
def test_the_sources_of_an_extension_of_pytorch_are_compiled_kernel_by_kernel(tmp_path, monkeypatch):
    """Put a hipcc there; ``test_launch_sources.py`` has what is said without one."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hipcc").write_text(HIPCC)
    (tmp_path / "bin" / "hipcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    options = ("--targets", "sm_90", "gfx942", "--jobs", "2", "--seconds", "300")
    done = launches("reference", "launched_extension.py", tmp_path / "build", *options)
    scales = done.of("sm_90", "scale")
    assert {one.metrics["artifact.shared"] for one in scales} == {512.0, 2048.0}, done.output
    [added] = done.of("sm_90", "add")
    assert added.outcome == "pass", "a kernel without a name outside its file"
    on_amd = done.of("gfx942", "add")
    assert [(one.outcome, one.metrics["artifact.registers"]) for one in on_amd] == [("pass", 7.0)]
    assert "the C++ extension scaling is built" in done.output
    assert "not answered by the stand-in for a GPU: the C++ extension scaling, scale()" in done.output
