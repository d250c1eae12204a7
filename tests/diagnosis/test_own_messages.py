"""Ask for a rule of every message of the harness: none is "not known", and its remedy is shown whole."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from common import harness
from loops import at_least
from own_messages import own_messages
from suites import MATRIX, Suite

from kernel_matrix.diagnosis import diagnose
from kernel_matrix.job.suite_compare import Comparer
from kernel_matrix.job.suite_plugin import _other_tests
from kernel_matrix.vendors.machine import detect

# What stands only inside of other texts, what a check of the kit has a code for, why a check was not asked, and what
# the harness catches itself.
PARTS = (
    "7 is no dtype of numbers",
    "is the result bit by bit, and ",
    "7  7 7: largest error 7, limit 7",
    "a mode that takes operators",
    "7 (7) sees 7 of 7 faults",
    ". The file now skips itself: 7",
    "an interpreter or an emulator takes long",
    "a backward runs as its forward did",
    "a CPU has no streams",
    "torch.compile lets it run once: donated buffers",
    "7 is not in the container",
    "7. Run it again; if the machine has too little memory, with --jobs 1",
)
# Those whose parts are put together from several places.
WHOLE = {
    "7 ended with status 7": "NVIDIA H200 is not fit for work: nvidia.py ended with status 1",
    "7 of 7 s ended it in 77": "the job's time limit of 1500 s ended it in launch",
    "7 of 7 s came first": "the job's time limit of 1500 s came first",
    "the process 7 in stage 77": "the process ended with exit status 3 in stage launch",
    "ended with exit status 7": "the process ended with exit status 3 in stage collect",
    "it printed nothing": "RuntimeError: Exception: SegFault: it printed nothing",
}
OWN = [
    (place, WHOLE.get(text, text))
    for place, text in at_least(90, own_messages())
    if text not in PARTS and not text.startswith("kit-")
]
SIBLINGS = [  # as results have them
    "the tests of test_seed are not those that were listed before the run: 3 gone (test_rand[0.29])",
    _other_tests("test_port", ["test_port[1]"], ["test_port[2]"]),
    "code in build/envs/python.cpu-cpu-1 was changed since it was built. Remove the folder, and run again",
    "the suite did not start its next case within 60 s; it waited 3 s more, which do not count (load 4.2)",
    "the job's folder has more than 4 GiB",
    "ValueError: y: the golden is float32: give it as float64, or declare a budget with its source",
    "the process ended with exit status 0 in stage launch",
]


def test_every_message_of_the_harness_has_a_rule():
    assert [f"{place} {text}" for place, text in OWN if diagnose(text) is None] == []


@pytest.mark.parametrize("text", SIBLINGS)
def test_a_message_of_the_harness_is_known_with_what_it_was_filled_with(text):
    assert diagnose(text) is not None
    assert diagnose(f'{text}\nFile "a.py", line 1\n') is not None


PORT = "import os\nimport pytest\n\n@pytest.mark.parametrize('port', [os.getpid(), 1])\ndef test_port(port): pass\n"


@pytest.mark.slow
def test_what_repeats_a_test_whose_name_changes_runs_its_whole_file(tmp_path):
    target = detect().devices[0].targets[-1]
    files = {"tests/test_a.py": PORT, "tests/test_b.py": "def test_b(): pass\n"}
    suite = Suite.made(tmp_path / "thing", files, MATRIX.replace("[any]", f"[{target}]"))
    words = ("run", "--matrix", str(suite.root / "matrix.yaml"), "--executor", "current")
    said = harness(*words).stdout
    assert "[test-names-change]" in said
    assert "3 cases: 1 error, 2 held" in said, "only the test that changed is red"
    [line] = [line for line in said.splitlines() if line.startswith("  repeat it: ")]
    again = shlex.split(line)
    again = again[again.index("run") :]
    assert again[again.index("--case") + 1] == f"here/{target}/plain/test_a.tests"
    done = harness(*again)
    assert (done.returncode, "2 cases: 1 error, 1 held" in done.stdout) == (1, True), done


@pytest.mark.parametrize(
    "given",
    [
        {"golden": "float32", "eager": 1e-7},
        {"eager": 0.01},
        {"eager": 1e-7, "nudged": 0.1},
        {"budget": 0.5, "scale": 1e-4, "source": "a sentence that is long enough"},
        {"budget": 0.02, "few": 3, "source": "a sentence that is long enough"},
    ],
)
def test_what_makes_a_comparison_no_measure_has_its_rule(given):
    exact = np.random.default_rng(0).normal(size=(32, 64)) * given.get("scale", 1.0)
    exact[given.get("few", 32) :] *= 1e-3
    result = exact.astype(np.float32)
    words = {name: given[name] for name in ("budget", "source") if name in given}
    if "eager" in given:
        words["eager"] = result * np.float32(1 + given["eager"])
    if "nudged" in given:
        words["nudged"] = [exact * (1 + given["nudged"])]
    golden = result.astype(np.float64) if "golden" in given else exact
    with pytest.raises(ValueError, match="y: ") as raised:
        Comparer("a test", None).compare(result, golden, name="y", **words)
    found = diagnose(f"ValueError: {raised.value}")
    assert found, raised.value
    assert found.rule == "comparison-without-measure"
