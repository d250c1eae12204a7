"""Sanitizers: a finding in the kernel's process goes to its case, and the results of the matrix stay as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from common import Doubles, harness

from kernel_matrix import pipeline
from kernel_matrix.matrix.dashboard import checks_of
from kernel_matrix.report.checks import Check, read, write
from kernel_matrix.run.progress import Lines
from kernel_matrix.run.settings import Settings
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.tools.sanitize.command import lines
from kernel_matrix.tools.sanitize.watch import folder_of, watch
from kernel_matrix.vendors.machine import detect

FOUND = Path(__file__).with_name("gpu_faults") / "found"
IN_INTERPRETER = Path(__file__).with_name("triton_faults") / "found" / "tilelens.json"
# In the place of compute-sanitizer: it finds something in the first process that it starts, and nothing in later ones.
STAND_IN = """#!{python}
import os, subprocess, sys
from pathlib import Path
if sys.argv[1:] == ["--version"]:
    sys.exit(print("Version 2025.3.1.0 (build 36398880)"))
log = sys.argv[sys.argv.index("--log-file") + 1]
marker = Path(__file__).with_name("found")
Path(log).write_text("========= COMPUTE-SANITIZER\\n" + ("" if marker.exists() else {finding!r}))
marker.touch()
at = next(k for k, word in enumerate(sys.argv) if word == {python!r})
sys.exit(subprocess.run(sys.argv[at:], close_fds=False).returncode)
"""
# In its place before any program: it writes a log, and runs the program.
WRITES_A_LOG = """#!{python}
import subprocess, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("Version 2025.3.1.0 (build 36398880)"))
with open(sys.argv[sys.argv.index("--log-file") + 1], "w") as file:
    file.write({log!r})
at = next(k for k, word in enumerate(sys.argv) if word.rpartition("/")[2] == "python")
sys.exit(subprocess.run(sys.argv[at:]).returncode)
"""
# A suite may ask whether other processes work while the kernel does. The sanitizer's are none of these.
ASKS_FOR_CHILDREN = """\
    children = case.kernel_children()
    case.call("kernel_side:run", {"x": x}, backend=case.backend, faulty=tokens == 2)
    assert case.kernel_children() == children, "another process worked"
"""
FINDING = """========= Invalid __global__ read of size 4 bytes
=========     at double_it(const float *, float *, int)+0x110 in double.cu:20
=========     by thread (250,0,0) in block (0,0,0)
=========
"""


def watched(doubles: Doubles, monkeypatch: pytest.MonkeyPatch, minutes: float | None = None) -> Check:
    """Run the double ``good`` under memcheck, for which a program of ours stands in."""
    suite = doubles.root / "suite" / "test_doubles.py"
    suite.write_text(suite.read_text().replace("    golden = 2 * x", f"{ASKS_FOR_CHILDREN}    golden = 2 * x"))
    program = doubles.root / "bin" / tools.PROGRAM
    program.parent.mkdir(exist_ok=True)
    program.write_text(STAND_IN.format(python=sys.executable, finding=FINDING))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    project = pipeline.load(doubles.root / "matrix.yaml")
    jobs = [job for job in pipeline.plan(project, "quick").jobs if job.toolchain == "good"]
    settings = Settings(project.root, folder_of(project, "memcheck"), "current", 1)
    return watch(project, jobs, "memcheck", detect(), settings, Lines(), minutes)


@pytest.mark.slow
def test_a_finding_goes_to_its_case_with_kernel_and_line_and_the_next_case_runs(here: Doubles, monkeypatch):
    found = watched(here, monkeypatch)
    [cell], [finding] = found.cells, found.findings
    assert (cell.tried, cell.found, cell.explained, cell.unfinished) == (3, 1, 0, 0)
    assert found.program.startswith("compute-sanitizer 2025.3.1.0")
    assert finding.case.endswith("tokens1"), "the first case, whose process was the first"
    assert (finding.kernel, finding.line) == ("double_it(const float *, float *, int)", "double.cu:20")
    assert found.is_red
    assert "2 clean, 1 with a finding" in "\n".join(lines(found))
    assert not (here.root / "build" / "results").exists(), "the results of the matrix stay as they are"
    folder, build = here.root / "build" / "sanitize" / "memcheck", here.root / "build"
    assert (folder / "cache").resolve() == (build / "cache").resolve(), "what the matrix compiled is compiled no more"


@pytest.mark.slow
def test_a_finding_that_the_package_explains_is_shown_and_not_red(here: Doubles, monkeypatch):
    here.edit("suite: suite,", "suite: suite, probes: probes,")
    entry = {"tool": "memcheck", "kernel": "double_it", "finding": "Invalid", "reason": "The read is of padding."}
    (here.root / "probes").mkdir()
    (here.root / "probes" / "sanitize.yaml").write_text(json.dumps([entry]))
    found = watched(here, monkeypatch)
    text = "\n".join(lines(found))
    assert not found.is_red
    assert "2 clean, 1 explained" in text
    assert "explained: The read is of padding." in text


@pytest.mark.slow
def test_what_the_end_of_the_time_cuts_off_was_not_tried(here: Doubles, monkeypatch):
    found = watched(here, monkeypatch, minutes=1e-4)
    assert [(cell.tried, cell.untried) for cell in found.cells] == [(0, 3)]
    assert (found.unfinished, found.is_red, found.note) == ((), False, "Each job had 0.0001 minutes.")
    assert "0 clean, 3 not tried" in "\n".join(lines(found))


PROGRAM_LOG = f"""========= COMPUTE-SANITIZER
{FINDING}========= ERROR SUMMARY: 1 error
"""


def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, *words: str):
    """Run a program under memcheck, in whose place something writes a log and then runs the program."""
    program = tmp_path / "bin" / tools.PROGRAM
    program.parent.mkdir(exist_ok=True)
    program.write_text(WRITES_A_LOG.format(python=sys.executable, log=log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return harness("launches", "--build", str(tmp_path / "build"), "--sanitize", "memcheck", "--", *words)


def test_the_findings_of_any_program_have_kernel_and_line(tmp_path: Path, monkeypatch):
    done = launches(tmp_path, monkeypatch, PROGRAM_LOG, "python", "-c", "pass")
    assert done.returncode == 1, done.stderr
    assert "double_it(const float *, float *, int), double.cu:20" in done.stdout
    page = (tmp_path / "build" / "launches" / "sanitized.md").read_text()
    assert "| memcheck | `double_it(const float *, float *, int)` | double.cu:20 | Invalid __global__ read" in page
    [check] = read(tmp_path / "build" / "launches" / "checks")
    assert [(one.line, one.case) for one in check.findings] == [("double.cu:20", "python -c pass")]
    assert check.unfinished == ()


@pytest.mark.slow
def test_a_program_without_findings_is_clean_only_if_it_was_watched_to_its_end(tmp_path: Path, monkeypatch):
    ended = "========= ERROR SUMMARY: 0 errors"
    assert launches(tmp_path, monkeypatch, ended, "python", "-c", "pass").returncode == 0
    fails = launches(tmp_path, monkeypatch, ended, "python", "-c", "exit(3)")
    assert (fails.returncode, "it ended with status 3" in fails.stdout) == (1, True)
    unwatched = launches(tmp_path, monkeypatch, "", "python", "-c", "pass")
    assert (unwatched.returncode, "memcheck watched nothing" in unwatched.stdout) == (1, True)


def test_what_a_program_lacks_is_one_sentence(tmp_path: Path, monkeypatch):
    launch = ("launches", "--build", str(tmp_path), "--sanitize")
    for words, text in {
        (): "there is no program",
        ("no-such-program",): "no-such-program: there is no such command",
        ("python", "-c", "pass"): "pip install nvidia-cuda-sanitizer-api",
    }.items():
        done = harness(*launch, "--", *words)
        assert (done.returncode, done.stderr.count("\n"), text in done.stderr) == (2, 1, True), done.stderr
    done = harness(*launch, "memchek", "--", "python", "-c", "pass")
    assert (done.returncode, "memcheck" in done.stderr) == (2, True)


def test_what_is_lacking_is_one_sentence(here: Doubles, monkeypatch, tmp_path: Path):
    done = harness("sanitize", "--matrix", str(here.root / "matrix.yaml"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install nvidia-cuda-sanitizer-api" in done.stderr
    (tmp_path / tools.PROGRAM).write_text("")
    (tmp_path / tools.PROGRAM).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = harness("sanitize", "--matrix", str(here.root / "matrix.yaml"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no case of what was asked for runs on an NVIDIA GPU of this machine" in done.stderr
    done = harness("sanitize", "--tool", "tilelens", "--matrix", str(here.root / "matrix.yaml"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no case of what was asked for runs in Triton's interpreter" in done.stderr
    assert not (here.root / "build" / "tilelens").exists(), "nothing was fetched for that"
    here.edit("suite: suite,", "suite: suite, probes: .,")
    (here.root / "sanitize.yaml").write_text("- tool: memcheck\n")
    with pytest.raises(Exception, match=r"sanitize.yaml: .*kernel"):
        watched(here, monkeypatch)


@pytest.mark.slow
def test_a_check_s_file_is_on_the_page_and_a_broken_one_is_a_sentence(here: Doubles, monkeypatch):
    found = watched(here, monkeypatch)
    here.edit("suite: suite,", "suite: suite, checks: kept,")
    project = pipeline.load(here.root / "matrix.yaml")
    write(found, project.build)
    write(found.model_copy(update={"when": "2020-01-01T00:00:00Z"}), here.root / "kept")
    assert [check.when for check in checks_of(project)] == ["2020-01-01T00:00:00Z", found.when]
    (here.root / "kept" / "checks" / "memcheck.json").write_text("{}")
    done = harness("report", "--matrix", str(here.root / "matrix.yaml"), str(here.root / "kept"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "memcheck.json: it is no check's file" in done.stderr


def test_on_an_h100_each_tool_found_its_faults_and_no_others():
    """The kept runs of the kernels in ``gpu_faults``, each with one fault or none."""
    finds = {
        "memcheck": {"past-end", "index-of-32-bits"},
        "racecheck": {"shared-race", "elected-arrival"},  # the latter is sound: a limit of the tool
        "initcheck": {"never-written"},
        "synccheck": {"divergent-barrier"},
    }
    for tool, toolchains in finds.items():
        kept = Check.model_validate_json((FOUND / f"{tool}.json").read_text())
        assert {cell.cell.split("/")[2] for cell in kept.cells if cell.found} == toolchains, tool
        assert len(kept.cells) == 7


def test_tilelens_found_its_faults_and_no_others():
    """The kept run of the kernels in ``triton_faults``, each with one fault or none."""
    kept = Check.model_validate_json(IN_INTERPRETER.read_text())
    found = {finding.case.rpartition("/")[2]: finding for finding in kept.findings}
    faults = {"read-past", "read-before", "write-past", "loop-past", "view-past", "index-past"}
    assert set(found) == {*faults, "branch"}, "the last one is sound: a limit of the tool"
    [unfinished] = kept.unfinished
    assert "/descriptor: error: Cannot look at descriptor: " in unfinished
    source = (IN_INTERPRETER.parents[1] / "src" / "triton_faults" / "__init__.py").read_text().splitlines()
    finding = found["write-past"]
    assert (finding.kernel, source[int(finding.line.rpartition(":")[2]) - 1].split("(")[0]) == (
        "write_past",
        "    tl.store",
    )


# In place of Triton's interpreter and of tilelens: `past` reads past the end, and `odd` cannot be looked at.
LIBRARIES = {
    "triton/runtime/interpreter.py": """
class InterpretedFunction:
    def __init__(self, fn): self.fn = fn
    def run(self, *args, **options): print("launched", self.fn.__name__)
""",
    "tilelens/clients/__init__.py": """
class Sanitizer:
    def __init__(self, abort_on_error): self.records = []
""",
    "tilelens/clients/sanitizer/__init__.py": "",
    "tilelens/clients/sanitizer/sanitizer.py": "_fn_symbolic_cache_set = {'looked at before'}",
    "tilelens/core/client.py": """
class ClientManager:
    def loop_iter_wrapper(self, make, args, options, site, kind): return ["a symbol"]
""",
    "tilelens/core/trace.py": """
from types import SimpleNamespace
from tilelens.clients.sanitizer import sanitizer
from tilelens.core.client import ClientManager
class Load: pass
class Tensor:
    shape, dtype = (250,), "torch.float32"
    def data_ptr(self): return 1000
    def stride(self): return (1,)
    def element_size(self): return 4
class TritonTrace:
    def __init__(self, function, client): self.function, self.client = function, client
    def run(self, *args, **options):
        assert not sanitizer._fn_symbolic_cache_set
        for kind in ("tl_range", "tl_static_range"):
            print(kind, *ClientManager().loop_iter_wrapper(None, (2,), {}, None, kind))
        self.function.run()
        if self.function.fn.__name__ == "odd": raise TypeError("no such\\nthing")
        if self.function.fn.__name__ == "past":
            frame = SimpleNamespace(filename="kernel.py", lineno=7)
            self.client.records.append(SimpleNamespace(tensor=Tensor(), op_type=Load, tensor_name="x",
                                                       violation_address=2000, user_code_tracebacks=[frame]))
""",
}
SCRIPT = """
import sys
from triton.runtime.interpreter import InterpretedFunction
def odd(): pass
def past(): pass
assert __name__ == "__main__" and sys.argv[1:] == ["--kernel", "3"]
InterpretedFunction(odd).run()
try: InterpretedFunction(past).run()
except RuntimeError as error: print(error)
"""


def test_a_launch_is_looked_at_before_it_runs_and_does_not_run_with_a_finding(tmp_path: Path):
    for name, text in {**LIBRARIES, "script/start.py": SCRIPT}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    watcher = json.loads(tools.watcher(str(tmp_path), "tilelens"))
    command = [word.replace("{log}", str(tmp_path / "log")) for word in watcher["command"]]
    start = [sys.executable, str(tmp_path / "script" / "start.py"), "--kernel", "3"]
    done = subprocess.run([*command, *start], capture_output=True, text=True, check=False)
    looked = ["tl_range a symbol", "tl_static_range 0 1"]
    assert done.stdout.splitlines() == [
        *looked, "launched odd", "launched odd", *looked, "launched past",
        "past would touch memory outside of its tensors"], done.stderr  # fmt: skip
    log = (tmp_path / "log").read_text()
    assert re.search(watcher["finding"], log, re.MULTILINE).start() == 0
    assert log.splitlines()[0] == "========= Cannot look at odd: TypeError: no such thing"
    [finding] = tools.findings("tilelens", log)
    assert finding.splitlines()[0] == "========= Out of bounds: load of x"
    assert tools.place("tilelens", finding) == tools.Place("past", "kernel.py:7")
    assert finding.endswith("4 bytes behind its last element; its shape is (250,), float32")
