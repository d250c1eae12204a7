"""A suite may list other tests before a run than it has in it. Then nothing that differs is green."""

from __future__ import annotations

import importlib.util
import json
import textwrap

import pytest
from common import harness
from judges import judged_files
from suites import MATRIX, Suite, states, verdicts
from test_suite import several_environments
from together import by_day

from kernel_matrix import pipeline
from kernel_matrix.config.selection import Selection
from kernel_matrix.vendors.machine import detect

TESTS = "def test_one(): assert 1 == 2\ndef test_two(): pass\n"
# Each process of pytest has a number, from 1: the first one lists the tests, the second one runs them.
COUNTING = """
import os, signal, sys, time
from pathlib import Path
import pytest

_COUNT = Path({file!r})
NUMBER = len(_COUNT.read_text()) + 1 if _COUNT.exists() else 1
_COUNT.write_text("x" * NUMBER)
"""


def made(tmp_path, conftest, files=None, matrix=MATRIX):
    """Return a suite with a conftest.py that knows the number of its process."""
    text = COUNTING.format(file=str(tmp_path / "count")) + textwrap.dedent(conftest)
    files = {"tests/test_a.py": TESTS} if files is None else files
    return Suite.made(tmp_path / "suite", {"tests/conftest.py": text, **files}, matrix)


DEATHS = {
    "it is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "died of SIGKILL"),
    "it has a segmentation fault": ("os.kill(os.getpid(), signal.SIGSEGV)", "died of SIGSEGV"),
    "it aborts": ("os.abort()", "died of SIGABRT"),
    "it ends without a word": ("os._exit(0)", "ended with exit status 0"),
    "conftest.py exits": ("sys.exit('no licence')", "no licence"),
    "conftest.py raises": ("raise RuntimeError('driver is not ready')", "driver is not ready"),
    "conftest.py ends pytest": ("pytest.exit('enough', returncode=0)", "enough"),
    "an option is unknown": ("raise pytest.UsageError('no such option')", "no such option"),
    "it is slower than the limit": ("time.sleep(600)", "within 10 s, which is limits.case"),
    "a plugin fails": ("def pytest_collection_modifyitems(): raise KeyError('broken plugin')", "broken plugin"),
    "a plugin takes all tests": ("def pytest_collection_modifyitems(items): items.clear()", "collects no test"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", by_day(2, DEATHS))
def test_collecting_that_dies_once_is_an_error_of_the_job(tmp_path, how):
    text, words = DEATHS[how]
    suite = made(tmp_path, f"if NUMBER == 1:\n    {text}\n")
    path = suite.root / "matrix.yaml"
    path.write_text(path.read_text().replace("case: 60", "case: 10"))
    found = verdicts(suite.run())
    assert {verdict.state for verdict in found.values()} == {"error"}
    for verdict in found.values():
        assert words in verdict.reason
        assert verdict.record.stage == "import"
        assert "could not be listed" in verdict.reason


@pytest.mark.slow
def test_an_option_that_pytest_does_not_know_is_named(tmp_path):
    suite = Suite.made(tmp_path, {"pytest.ini": "[pytest]\naddopts = --no-such\n", "tests/test_a.py": TESTS})
    [verdict] = verdicts(suite.run()).values()
    assert verdict.state == "error"
    assert "unrecognized arguments: --no-such" in verdict.reason


@pytest.mark.slow
def test_a_test_file_that_ends_pytest_when_it_is_read_is_an_error_of_the_job(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": TESTS, "tests/test_b.py": "import os\nos._exit(0)\n"})
    assert {*states(suite.run()).values()} == {"error"}


@pytest.mark.slow
def test_the_tests_of_a_lane_that_died_are_errors_where_another_lane_lists_them(tmp_path):
    conftest = "import os\nif os.environ['DIES'] == '1':\n    os.kill(os.getpid(), 9)\n"
    matrix = several_environments({"good": "DIES: '0'", "bad": "DIES: '1'"})
    suite = Suite.made(tmp_path, {"tests/conftest.py": conftest, "tests/test_a.py": TESTS}, matrix)
    cells = suite.run().cells
    found = {v.case.id: v for cell in cells for v in cell.cases}
    assert {name: v.state for name, v in found.items()} == {
        "here/any/good/test_a.tests/test_one": "fail",
        "here/any/good/test_a.tests/test_two": "held",
        "here/any/bad/test_a.tests/test_one": "error",
        "here/any/bad/test_a.tests/test_two": "error",
    }
    assert "SIGKILL" in found["here/any/bad/test_a.tests/test_two"].reason
    # A report of the same files says the same.
    project = pipeline.load(suite.root / "matrix.yaml")
    again = judged_files(project, pipeline.plan(project, "quick"), [project.results])
    assert {v.case.id: v.state for cell in again.cells for v in cell.cases} == {n: v.state for n, v in found.items()}


@pytest.mark.slow
def test_collecting_that_dies_after_a_good_run_makes_all_known_tests_errors(tmp_path):
    suite = made(tmp_path, "if NUMBER == 3:\n    os._exit(1)\n")
    assert states(suite.run()) == {"test_a/test_one": "fail", "test_a/test_two": "held"}
    assert states(suite.run()) == {"test_a/test_one": "error", "test_a/test_two": "error"}


@pytest.mark.slow
def test_a_lane_without_tests_is_an_error_where_another_lane_has_some(tmp_path):
    conftest = """
        import os

        def pytest_collection_modifyitems(config, items):
            if os.environ["NONE"] == "1":
                config.hook.pytest_deselected(items=items[:])
                items.clear()
        """
    matrix = several_environments({"good": "NONE: '0'", "bad": "NONE: '1'"})
    suite = Suite.made(tmp_path, {"tests/conftest.py": conftest, "tests/test_a.py": TESTS}, matrix)
    found = {v.case.id: v for cell in suite.run().cells for v in cell.cases}
    assert {v.state for name, v in found.items() if "/bad/" in name} == {"error"}
    assert "leave out all 2" in found["here/any/bad/test_a.tests/test_one"].reason


DIFFER = {  # values of a parameter, the words about it, and the tests that run all the same
    "fewer": ("range(3 if NUMBER == 1 else 2)", "1 gone (test_n[2])", {"test_n[0]", "test_n[1]", "test_one"}),
    "more": ("range(1 if NUMBER == 1 else 3)", "2 new (test_n[1], test_n[2])", set()),
    "others": ("[NUMBER, 7]", "1 gone (test_n[1]), 1 new (test_n[2])", {"test_n[7]", "test_one"}),
    "a random id": ("[__import__('uuid').uuid4().hex]", "1 new (", {"test_one"}),
    "the time": ("[time.time_ns()]", "1 gone (", {"test_one"}),
    "the process": ("[os.getpid()]", "1 gone (", {"test_one"}),
    "a folder": ("[tempfile.mkdtemp()]", "1 gone (", {"test_one"}),
}
_DRAWN = "import os, random, tempfile, time\nfrom conftest import NUMBER\nimport pytest\n\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", by_day(3, DIFFER))
def test_what_is_gone_in_the_run_is_an_error_and_what_is_new_makes_the_file_one(tmp_path, how):
    values, words, run = DIFFER[how]
    text = f"{_DRAWN}@pytest.mark.parametrize('n', {values})\ndef test_n(n): pass\ndef test_one(): pass\n"
    files = {"tests/test_a.py": text, "tests/test_b.py": "def test_one(): pass\n"}
    found = verdicts(made(tmp_path, "", files).run())
    assert found.pop("test_b/test_one").state == "held"
    assert {name.removeprefix("test_a/") for name, verdict in found.items() if verdict.state == "held"} == run
    red = [verdict for verdict in found.values() if verdict.state == "error"]
    assert len(red) == len(found) - len(run) > 0
    for verdict in red:
        assert words in verdict.reason
        assert verdict.reason.startswith("give parameters fixed ids")


SEEDED = {
    "random": "random.sample(range(10**6), 3)",
    "how many": "range(random.randint(1, 90))",
    "numpy": "__import__('numpy').random.rand(2)",
    "numpy's module": "importlib.import_module('numpy.random').randint(0, 10**6, 2)",
    "conftest.py": "importlib.import_module('conftest').DRAWN",
    "a shuffled list": "random.sample(list('abcdefgh'), 4)",
}


@pytest.mark.slow
def test_what_files_draw_as_they_are_read_is_the_same_in_the_run_and_what_tests_draw_is_not(tmp_path):
    text = "import importlib, random\nimport pytest\n\n@pytest.mark.parametrize('n', {})\ndef test_n(n): pass\n"
    files = {f"tests/test_{number}.py": text.format(values) for number, values in enumerate(SEEDED.values())}
    draws = "import random\n\ndef test_drawn():\n    print(random.random(), file=open({!r}, 'a'))\n"
    drawn = tmp_path / "drawn"
    files |= {"tests/conftest.py": "import random\n\nDRAWN = [random.random()]\n"}
    suite = Suite.made(tmp_path / "suite", {**files, "tests/test_drawn.py": draws.format(str(drawn))})
    for _ in range(2):
        found = states(suite.run())
        assert {*found.values()} == {"held"}
        assert {name.partition("/")[0] for name in found} == {*(f"test_{n}" for n in range(len(SEEDED))), "test_drawn"}
    assert len({*drawn.read_text().split()}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("first", ["raise OSError('not yet')", "pytest.skip('not yet', allow_module_level=True)"])
def test_a_file_that_is_read_only_in_the_run_is_an_error(tmp_path, first):
    text = f"import pytest\nfrom conftest import NUMBER\nif NUMBER == 1:\n    {first}\n{TESTS}"
    found = verdicts(made(tmp_path, "", {"tests/test_a.py": text, "tests/test_b.py": "def test_b(): pass\n"}).run())
    assert {name: verdict.state for name, verdict in found.items()} == {
        "test_a/import": "error",
        "test_b/test_b": "held",
    }
    assert "2 new (test_one, test_two)" in found["test_a/import"].reason


@pytest.mark.slow
def test_a_file_that_skips_itself_only_in_the_run_is_an_error_with_its_reason(tmp_path):
    skips = "pytest.skip('GPU is busy', allow_module_level=True)"
    text = f"import pytest\nfrom conftest import NUMBER\nif NUMBER == 2:\n    {skips}\n{TESTS}"
    found = verdicts(made(tmp_path, "", {"tests/test_a.py": text}).run())
    assert {verdict.state for verdict in found.values()} == {"error"}
    assert all("GPU is busy" in verdict.reason for verdict in found.values())


@pytest.mark.slow
def test_a_new_file_of_tests_in_the_run_makes_the_job_an_error(tmp_path):
    conftest = """
        collect_ignore = [] if NUMBER > 1 else ["test_late.py"]
        """
    files = {"tests/test_a.py": TESTS, "tests/test_late.py": "def test_late(): assert False\n"}
    found = verdicts(made(tmp_path, conftest, files).run())
    assert {name: verdict.state for name, verdict in found.items()} == {
        "test_a/test_one": "error",
        "test_a/test_two": "error",
    }
    assert "The tests of test_late" in found["test_a/test_two"].reason


@pytest.mark.slow
def test_a_folder_that_cannot_be_read_is_an_error_and_the_others_run(tmp_path):
    files = {
        "tests/test_a.py": "def test_one(): pass\n",
        "tests/sub/conftest.py": "raise OSError('no such folder')\n",
        "tests/sub/test_b.py": TESTS,
    }
    found = verdicts(Suite.made(tmp_path, files).run())
    assert found.pop("test_a/test_one").state == "held"
    assert found
    assert {verdict.state for verdict in found.values()} == {"error"}
    assert all("no such folder" in verdict.record.text for verdict in found.values())


@pytest.mark.slow
def test_the_suite_s_own_conftest_that_dies_in_the_run_alone_leaves_errors(tmp_path):
    found = states(made(tmp_path, "if NUMBER > 1:\n    raise OSError('gone')\n").run())
    assert found == {"test_a/test_one": "error", "test_a/test_two": "error"}


OPTIONS = ("--lf", "--ff --nf", "--sw", "--last-failed --last-failed-no-failures=none", "--maxfail=1", "-x")


@pytest.mark.slow
@pytest.mark.parametrize("options", by_day(2, OPTIONS))
def test_no_option_of_the_suite_takes_a_part_of_its_tests_by_an_earlier_run(tmp_path, options):
    files = {"pytest.ini": f"[pytest]\naddopts = {options}\n", "tests/test_a.py": TESTS}
    suite = Suite.made(tmp_path, files)
    for _ in range(2):
        assert states(suite.run()) == {"test_a/test_one": "fail", "test_a/test_two": "held"}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_a_suite_that_asks_for_several_processes_runs_each_test_once(tmp_path):
    files = {"pytest.ini": "[pytest]\naddopts = -p xdist -n 2\n", "tests/test_a.py": TESTS}
    assert states(Suite.made(tmp_path, files).run()) == {"test_a/test_one": "fail", "test_a/test_two": "held"}


ORDERS = {  # a hook, with the options of its implementation
    "last of all": ("trylast=True", "pytest_collection_modifyitems(items): items.reverse()"),
    "behind all": ("hookwrapper=True", "pytest_collection_modifyitems(items): [(yield), items.reverse()]"),
    "at the end": ("tryfirst=True", "pytest_collection_finish(session): session.items.reverse()"),
    "in a loop of its own": ("tryfirst=True", "pytest_runtestloop(session): session.items.reverse()"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", by_day(2, ORDERS))
def test_a_plugin_that_changes_the_order_gives_no_test_the_end_of_another(tmp_path, how):
    options, hook = ORDERS[how]
    conftest = f"import pytest\n\n@pytest.hookimpl({options})\ndef {hook}\n"
    suite = Suite.made(tmp_path, {"tests/conftest.py": conftest, "tests/test_a.py": TESTS})
    assert states(suite.run()) == {"test_a/test_one": "fail", "test_a/test_two": "held"}


@pytest.mark.slow
def test_a_plugin_that_takes_a_test_away_before_it_runs_leaves_it_an_error(tmp_path):
    conftest = (
        "import pytest\n\n@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(session):\n    del session.items[0]\n"
    )
    found = states(Suite.made(tmp_path, {"tests/conftest.py": conftest, "tests/test_a.py": TESTS}).run())
    assert found == {"test_a/test_one": "error", "test_a/test_two": "held"}


CTEST = """#!/bin/sh
n=$(cat "{count}" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "{count}"
{text}
cat <<'END'
{{"tests": [{tests}]}}
END
"""
NAMED = '{"name": "one", "command": ["/bin/true"]}'
OF_CTEST = {
    "is killed": ("[ $n = 1 ] && kill -9 $$", NAMED, "ended with status -9"),
    "fails without a word": ("[ $n = 1 ] && exit 7", NAMED, "it says nothing"),
    "prints no list": ("[ $n = 1 ] && echo hello && exit 0", NAMED, "hello"),
    "lists nothing": ("", "", "CTest lists no test"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", by_day(2, OF_CTEST))
def test_a_list_of_ctest_that_does_not_come_is_an_error_of_the_job(tmp_path, monkeypatch, how):
    text, tests, words = OF_CTEST[how]
    program = tmp_path / "bin" / "ctest"
    program.parent.mkdir()
    program.write_text(CTEST.format(count=tmp_path / "count", text=text, tests=tests))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    suite = Suite.made(tmp_path / "suite", {"tests/CTestTestfile.cmake": "add_test(one true)\n"})
    found = verdicts(suite.run())
    assert {verdict.state for verdict in found.values()} == {"error"}
    assert all(words in verdict.reason for verdict in found.values())


@pytest.mark.slow
def test_a_list_that_did_not_come_ends_the_command_with_1_and_says_why(tmp_path):
    suite = made(tmp_path, "if NUMBER == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    path = suite.root / "matrix.yaml"
    path.write_text(path.read_text().replace("[any]", f"[{detect().devices[0].targets[-1]}]"))
    shown = harness("matrix", "--matrix", str(path), "--executor", "current")
    assert shown.returncode == 1, shown.stdout
    assert "SIGKILL" in shown.stdout
    assert "None is red" not in shown.stdout
    document = json.loads((suite.root / "build" / "site" / "compat.json").read_text())
    assert document["run"]["cells_by_state"] == {"error": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", by_day(1, ["suite.tests/collected", "suite.tests"]))
def test_the_command_that_repeats_a_lost_list_runs_all_tests_of_its_lane(tmp_path, name):
    suite = made(tmp_path, "if NUMBER == 1:\n    os._exit(1)\n")
    asked = Selection(cases=(f"here/any/plain/{name}",))
    assert states(suite.run(asked)) == {"suite/collected": "error"}
    assert states(suite.run(asked)) == {"test_a/test_one": "fail", "test_a/test_two": "held"}
