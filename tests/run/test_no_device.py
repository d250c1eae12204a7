"""A test needs a GPU on a lane that has none: unavailable. What only looks like it is red, and so it is on a GPU."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from loops import at_least
from ruamel.yaml import YAML
from suites import MATRIX, Suite, verdicts

from kernel_matrix.config.load import load_unchecked
from kernel_matrix.diagnosis import says_no_device
from kernel_matrix.diagnosis.rule import harness_rules
from kernel_matrix.run.no_device import as_unavailable, has_device
from kernel_matrix.store.record import Record

TEXTS = YAML(typ="safe").load((Path(__file__).parent / "no_device.yaml").read_text())


def says_so(text: str, stage: str = "launch") -> bool:
    return says_no_device(text, stage, harness_rules())


def test_the_family_of_messages_is_known_in_many_spellings():
    assert [text for text in at_least(20, TEXTS["no_device"]) if not (says_so(text) and says_so(text, "import"))] == []


def test_what_only_looks_like_it_stays_red():
    assert [text for text in at_least(5, TEXTS["only_looks_so"]) if says_so(text)] == []


def test_what_a_toolchain_s_rule_knows_better_is_no_matter_of_the_last_file():
    names = [rule.name for rule in harness_rules()]
    assert names[-1] == "device-required", "the words of programs are asked last"


RAISES = 'raise RuntimeError("triton-sigmoid requires a CUDA GPU but none was detected")\n'
FILES = {
    "needy/__init__.py": RAISES,
    "asserting/__init__.py": """
        class cuda:
            def is_available(): return False

        assert cuda.is_available()
    """,
    "tests/test_imports.py": "import needy\n\ndef test_one(): pass\n",
    "tests/test_asserts.py": "import asserting\n\ndef test_one(): pass\n",
    "tests/test_breaks.py": "raise RuntimeError('CUDA error: invalid device function')\n",
    "tests/test_inside.py": """
        import sys
        import pytest

        @pytest.fixture
        def gpu():
            raise RuntimeError("No CUDA GPUs are available")

        @pytest.fixture
        def leaves():
            yield
            raise RuntimeError("No HIP GPUs are available")

        @pytest.fixture
        def leaves_badly():
            yield
            raise RuntimeError("a leak")

        def test_here(): pass
        def test_fixture(gpu): pass
        def test_call(): raise RuntimeError("0 active drivers ([]). There should only be one.")
        def test_torch(): raise AssertionError("Torch not compiled with CUDA enabled")
        def test_fails(): pytest.fail("needs a GPU")
        def test_teardown(leaves): pass
        def test_both(leaves): raise RuntimeError("No CUDA GPUs are available")
        def test_numba(): raise RuntimeError("Error at init: \\n\\nCUDA driver library cannot be found.\\nIf you\\n:")
        def test_skips(): pytest.skip("needs a GPU")

        def test_memory(): raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        def test_driver(): raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040)")
        def test_wrong(): assert 1 == 2
        def test_says():
            print("RuntimeError: No CUDA GPUs are available")
            print("E   RuntimeError: No CUDA GPUs are available")
            assert 1 == 2
        def test_wrong_and_leaves(leaves): assert 1 == 2
        def test_leaves_badly(leaves_badly): raise RuntimeError("No CUDA GPUs are available")
        def test_other():
            try:
                raise RuntimeError("No CUDA GPUs are available")
            except RuntimeError:
                raise ValueError("wrong answer")
    """,
}
HELD = {"here"}
LACKING = {"fixture", "call", "torch", "fails", "teardown", "both", "numba", "skips"}


@pytest.mark.slow
def test_on_a_lane_without_a_gpu_what_needs_one_is_unavailable_wherever_it_is_raised(tmp_path):
    suite = Suite.made(tmp_path, {**FILES, "tests/conftest.py": "import sys\nsys.path.insert(0, '.')\n"})
    found = verdicts(suite.run())
    states = {name: verdict.state for name, verdict in found.items()}
    assert states.pop("test_breaks/import") == "error"
    assert (states.pop("test_imports/import"), states.pop("test_asserts/import")) == ("unavailable", "unavailable")
    assert states.pop("suite/collected", "pass") in ("pass", "held")
    inside = {name.removeprefix("test_inside/test_"): state for name, state in states.items()}
    assert {name for name, state in inside.items() if state == "unavailable"} == LACKING
    assert {name for name, state in inside.items() if state in ("pass", "held")} == HELD
    assert all(state in ("error", "fail") for name, state in inside.items() if name not in LACKING | HELD)
    reason = found["test_imports/import"].reason
    assert reason.startswith("it needs a GPU, or a device of its kind, and this lane has none: ")
    assert "triton-sigmoid requires a CUDA GPU but none was detected" in reason


EXITS = {
    "at_import": ("import sys\nsys.exit('You must have a GPU to run these tests. Exiting.')\n", "unavailable"),
    "by_name": ("raise SystemExit('No CUDA GPUs are available')\n", "unavailable"),
    "in_a_list": ("import pytest\n@pytest.mark.parametrize('x', exit('no GPU'))\ndef test_a(x): 1\n", "unavailable"),
    "generated": ("def pytest_generate_tests(metafunc): exit('needs a GPU')\ndef test_a(x): 1\n", "unavailable"),
    "in_a_module": ("import exiting\n", "unavailable"),
    "for_another_cause": ("exit('the configuration gpu.yaml was not found')\n", "error"),
    "quietly": ("import sys\nsys.exit(0)\n", "error"),
    "with_a_number": ("import sys\nsys.exit(3)\n", "error"),
    "as_a_program": ("import unittest\nunittest.main()\n", "error"),
}  # fmt: skip


@pytest.mark.slow
def test_a_file_that_ends_the_process_is_the_only_one_that_does_not_run(tmp_path):
    files = {f"tests/test_{name}.py": text for name, (text, _) in EXITS.items()}
    files |= {"exiting/__init__.py": "import sys\nsys.exit('mykern requires an AMD GPU')\n"}
    files |= {"tests/conftest.py": "import sys\nsys.path.insert(0, '.')\n", "tests/test_z.py": "def test_one(): pass\n"}
    found = verdicts(Suite.made(tmp_path, files).run())
    states = {name.removesuffix("/import").removeprefix("test_"): verdict.state for name, verdict in found.items()}
    assert states.pop("z/test_one") == "held"
    assert states == {name: state for name, (_, state) in EXITS.items()}
    assert found["test_quietly/import"].reason.startswith("SystemExit: 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "state"),
    [(RAISES, "unavailable"), ("raise RuntimeError('no')\n", "error"), *[EXITS[n] for n in ("at_import", "quietly")]],
)
def test_a_conftest_that_needs_a_gpu_makes_its_whole_suite_unavailable(tmp_path, text, state):
    suite = Suite.made(tmp_path, {"tests/conftest.py": text, "tests/test_a.py": "def test_one(): pass\n"})
    found = verdicts(suite.run())
    assert {verdict.state for verdict in found.values()} == {state}, [v.reason for v in found.values()]


def record(message: str, **fields: str) -> Record:
    return replace(Record("a/b/c/d.tests/e", "error", "run", "launch", message), **fields)


def test_only_a_test_that_ended_by_itself_is_unavailable():
    text = TEXTS["no_device"][1]
    assert as_unavailable(record(text), harness_rules()).outcome == "unavailable"
    for stage in ("timeout", "crash", "machine", "install"):
        assert as_unavailable(record(text, stage=stage), harness_rules()).outcome == "error"
    passed = record("", outcome="pass", stage="")
    assert as_unavailable(passed, harness_rules()) == passed


def test_a_lane_of_a_gpu_should_have_one(tmp_path, matrix):
    platforms = {name: has_device(matrix, name) for name in matrix.platforms}
    assert {name for name, has in platforms.items() if not has} == {
        name for name, platform in matrix.platforms.items() if platform.device == "cpu"
    }
    (tmp_path / "matrix.yaml").write_text(textwrap.dedent(MATRIX).replace("device: cpu", "device: nvidia"))
    assert has_device(load_unchecked(tmp_path / "matrix.yaml"), "here")
