"""A package's own suite, unchanged: each test is a case that ends in a state, whatever the suite does."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from hashlib import sha256

import pytest
from common import harness
from judges import judged_files
from suites import MATRIX, Suite, states, verdicts

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.event_plan import plan_rows
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.config.selection import Selection, parse_shard
from kernel_matrix.config.suite import Listed, facts_of, ids_by_lane, listed_of, with_new_tests, with_tests
from kernel_matrix.job.test_names import MOST, case_of, keys_of, op_of
from kernel_matrix.machines.row_plan_file import from_json, to_json
from kernel_matrix.matrix.everything import made_from
from kernel_matrix.run.progress import Lines
from kernel_matrix.run.proven import mark_file
from kernel_matrix.run.settings import Settings
from kernel_matrix.store import junit
from kernel_matrix.vendors.machine import detect

ENDS = """
import pytest

def test_holds():
    assert 1 + 1 == 2

def test_fails():
    assert 1 + 1 == 3

def test_raises():
    raise ValueError("no such layout")

def test_says_that_it_fails():
    pytest.fail("wrong on purpose")

@pytest.mark.skip(reason="needs two GPUs")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="a known fault", strict=True)
def test_is_expected_to_fail():
    assert False

@pytest.mark.xfail(reason="mended", strict=True)
def test_passes_against_expectation():
    pass

@pytest.fixture
def broken():
    raise OSError("no room")

def test_has_a_broken_fixture(broken):
    pass

@pytest.fixture
def leaves():
    yield
    raise OSError("cannot clean up")

def test_has_a_broken_teardown(leaves):
    pass
"""


UNITTEST = """
import unittest

class Case(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1, 1)

    def test_bad(self):
        self.assertEqual(1, 2)

    def test_away(self):
        self.skipTest("not here")
"""
COMPARES = """
import numpy as np

def test_one():
    pass

def test_two(matrix):
    x = np.ones(4, np.float32)
    matrix.compare(x, x.astype(np.float64), eager=x.copy())
"""
FILES = {
    "tests/test_ends.py": ENDS,
    "tests/test_u.py": UNITTEST,
    "tests/test_sums.py": COMPARES,
    "tests/test_known.py": "def test_one(): assert 1 == 2\n",
    "tests/test_bad.py": "import nothing_of_this_name\n",
    "tests/sub/test_worse.py": "def test_x(:\n",
    "tests/test_left.py": "import pytest\npytest.importorskip('nothing_of_this_name')\ndef test_two(): pass\n",
}
EXPECTATION = """
expectations:
  - where: { op: test_known, test: test_one }
    outcome: fail
    match: "assert 1 == 2"
    reason: The sum is wrong in this version.
    owner: the tests
    link: lock.txt
    until: "numpy>=99"
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Return a suite of several files that was run, and its verdicts. Around it lies what is not its own."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    suite = Suite.made(folder / "inside", FILES, MATRIX + EXPECTATION)
    return suite, verdicts(suite.run())


def of_file(found, name):
    """Return the states of the tests of one file."""
    return {test.partition("/")[2]: verdict.state for test, verdict in found.items() if test.startswith(f"{name}/")}


@pytest.mark.slow
def test_each_test_is_a_case_with_a_state_of_its_own(several):
    found = several[1]
    assert of_file(found, "test_ends") == {
        "test_holds": "held",
        "test_fails": "fail",
        "test_raises": "error",
        "test_says_that_it_fails": "fail",
        "test_is_skipped": "unavailable",
        "test_is_expected_to_fail": "unavailable",
        "test_passes_against_expectation": "fail",
        "test_has_a_broken_fixture": "error",
        "test_has_a_broken_teardown": "error",
    }
    assert found["test_ends/test_holds"].evidence == "held"
    assert found["test_ends/test_fails"].evidence == "held"
    assert found["test_ends/test_fails"].reason == "AssertionError: assert (1 + 1) == 3"
    assert found["test_ends/test_raises"].reason == "ValueError: no such layout"
    assert found["test_ends/test_raises"].record.stage == "launch"
    assert found["test_ends/test_is_skipped"].reason == "the suite skips this test: needs two GPUs"
    assert found["test_ends/test_is_expected_to_fail"].reason == "the suite expects this test to fail: a known fault"
    assert found["test_ends/test_passes_against_expectation"].reason.endswith("[XPASS(strict)] mended")
    assert found["test_ends/test_has_a_broken_fixture"].reason == "in its setup: OSError: no room"
    assert found["test_ends/test_has_a_broken_teardown"].reason == "in its teardown: OSError: cannot clean up"
    assert not any(name.startswith("suite/") for name in found)
    assert "raise ValueError" in found["test_ends/test_raises"].record.detail


@pytest.mark.slow
def test_subtests_and_unittest_cases_are_tests_too(several):
    assert of_file(several[1], "test_u") == {
        "Case::test_good": "held", "Case::test_bad": "fail", "Case::test_away": "unavailable"
    }  # fmt: skip


@pytest.mark.slow
def test_a_file_that_does_not_import_is_an_error_with_its_text_and_the_others_run(several):
    found = several[1]
    assert "could not import 'nothing_of_this_name'" in found["test_left/import"].reason
    bad = ("test_left/import", "test_bad/import", "sub.test_worse/import")
    assert [found[name].state for name in bad] == ["unavailable", "error", "error"]
    bad = found["test_bad/import"]
    assert (bad.record.stage, bad.reason) == ("import", "ModuleNotFoundError: No module named 'nothing_of_this_name'")
    assert "import nothing_of_this_name" in bad.record.detail
    assert "SyntaxError" in found["sub.test_worse/import"].reason


@pytest.mark.slow
def test_an_expectation_of_matrix_yaml_holds_for_a_test(several):
    assert of_file(several[1], "test_known") == {"test_one": "known"}


@pytest.mark.slow
def test_sql_counts_what_only_asserts_as_held_and_what_compares_as_passed(several):
    suite, found = several
    assert of_file(found, "test_sums") == {"test_one": "held", "test_two": "pass"}
    words = "SELECT cell, passed, held, outcome FROM cells WHERE cell LIKE '%test_sums%'"
    answer = harness("query", "--json", f"{words} ORDER BY cell", str(suite.root / "build" / "results"))
    assert [(row["passed"], row["held"], row["outcome"]) for row in json.loads(answer.stdout)] == [(1, 1, "held")]


@pytest.mark.slow
def test_results_of_another_machine_bring_their_list_of_tests(several, tmp_path):
    there, found = several
    here = Suite.made(tmp_path / "here", FILES, MATRIX + EXPECTATION)
    shutil.copytree(there.root / "build" / "results", tmp_path / "results-x")
    project = pipeline.with_tests(pipeline.load(here.root / "matrix.yaml"), [tmp_path / "results-x"])
    comparison = judged_files(project, pipeline.plan(project, "quick"), [tmp_path / "results-x"])
    assert comparison.counts["held"] == [verdict.state for verdict in found.values()].count("held")
    assert "missing" not in comparison.counts


@pytest.mark.slow
def test_the_results_of_one_test_say_which_others_are_missing(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\ndef test_two(): pass\n"})
    suite.run(Selection(cases=("here/any/plain/test_a.tests/test_one",)))
    project = pipeline.load(suite.root / "matrix.yaml")
    comparison = judged_files(project, pipeline.plan(project, "quick"), [project.results])
    assert states(comparison) == {"test_a/test_one": "held", "test_a/test_two": "missing"}


@pytest.mark.slow
def test_the_badge_of_a_suite_that_held_is_not_green(tmp_path, here_target):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    path = suite.root / "matrix.yaml"
    path.write_text(path.read_text().replace("[any]", f"[{here_target}]"))
    shown = harness("matrix", "--matrix", str(path), "--executor", "current")
    assert (shown.returncode, shown.stderr) == (0, "")
    site = tmp_path / "build" / "site"
    document = json.loads((site / "compat.json").read_text())
    assert document["run"]["cells_by_state"] == {"held": 1}
    assert document["run"]["cells_by_evidence"] == {"held": 1}
    badges = [json.loads(file.read_text()) for file in site.rglob("*.json") if "schemaVersion" in file.read_text()[:40]]
    assert badges
    assert all(one["color"] != "#1a7f37" for one in badges)
    assert any("1 held of 1" in one["message"] for one in badges)
    assert "1 ran under the suite's own assertions" in shown.stdout


@pytest.fixture(scope="module")
def here_target():
    from kernel_matrix.vendors.machine import detect

    return detect().devices[0].targets[-1]


CONFTESTS = (
    ("import os\nos._exit(3)\n", "exit status 3"),
    ("import os\nos._exit(0)\n", "exit status 0"),
    ("import pytest\npytest.exit('the licence is not here')\n", "the licence is not here"),
    ("import pytest\npytest.exit('all is well', returncode=0)\n", "all is well"),
    ("import nothing_of_this_name\n", "nothing_of_this_name"),
    ("raise SystemExit('stop')\n", "stop"),
    ("import signal, os\nos.kill(os.getpid(), signal.SIGKILL)\n", "SIGKILL"),
    ("def pytest_collection_modifyitems(items):\n    raise KeyError('hook')\n", "hook"),
    ("def pytest_collection_modifyitems(items):\n    items.clear()\n", "collects no test"),
)


def several_environments(environments):
    """Return a matrix.yaml with a toolchain for each environment."""
    toolchains = "".join(f"  {name}: {{ lock: lock.txt }}\n" for name in environments)
    listed = ", ".join(f"{{ toolchain: {name}, environment: {{ {text} }} }}" for name, text in environments.items())
    return MATRIX.replace("  plain: { lock: lock.txt }\n", toolchains).replace("[plain]", f"[{listed}]")


@pytest.mark.slow
def test_a_conftest_that_ends_pytest_ends_in_one_error_with_its_words(tmp_path):
    matrix = several_environments({f"end{n}": f"END: '{n}'" for n in range(len(CONFTESTS))})
    texts = [text for text, _ in CONFTESTS]
    conftest = f"import os\nexec({texts!r}[int(os.environ['END'])])\n"
    suite = Suite.made(tmp_path, {"tests/conftest.py": conftest, "tests/test_a.py": "def test_one(): pass\n"}, matrix)
    found = {v.case.id: v for cell in suite.run().cells for v in cell.cases}
    assert found.keys() == {f"here/any/end{n}/suite.tests/collected" for n in range(len(CONFTESTS))}
    for n, (_, words) in enumerate(CONFTESTS):
        verdict = found[f"here/any/end{n}/suite.tests/collected"]
        assert (verdict.state, verdict.record.stage) == ("error", "import"), words
        assert words in verdict.record.text


@pytest.mark.slow
def test_a_conftest_that_hangs_ends_by_the_time_limit_of_a_case(tmp_path):
    suite = Suite.made(tmp_path, {"tests/conftest.py": "import time\ntime.sleep(600)\n"})
    path = suite.root / "matrix.yaml"
    path.write_text(path.read_text().replace("case: 60", "case: 2"))
    [verdict] = verdicts(suite.run()).values()
    assert verdict.state == "error"
    assert "within 2 s" in verdict.reason


HOSTILE = """
import os, signal, sys
import pytest

LONG = "n" * 10_000

@pytest.mark.parametrize("text", ["a/b/c", "../../etc/passwd", "Grüße", "\\u4e2d\\u6587", "a b", "", "::",
    "\\x00\\x1b[31m",    "\\ud800", "x-timed", "|`$(reboot)`", "<b>&amp;</b>", LONG])
def test_takes(text):
    pass

def test_exits():
    os._exit(0)

def test_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def test_ends_pytest():
    pytest.exit("enough")

def test_raises_system_exit():
    sys.exit(3)

def test_interrupts():
    raise KeyboardInterrupt

def test_says_much():
    assert "x" * 1_000_000 == "y"

def test_says_what_xml_cannot_hold():
    raise ValueError("\\x00\\x08\\ud800\\uffff]]>")

class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def test_raises_what_has_no_text():
    raise Odd

def test_changes_the_folder(tmp_path):
    os.chdir(tmp_path)
    sys.path.clear()

def test_comes_last():
    pass
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, here_target):
    """Return a hostile suite of which a dashboard was made, what the command printed, and the verdicts."""
    files = {"tests/test_hostile.py": HOSTILE, "tests/test_bad.py": "import nothing\n"}
    suite = Suite.made(tmp_path_factory.mktemp("hostile"), files)
    path = suite.root / "matrix.yaml"
    path.write_text(path.read_text().replace("[any]", f"[{here_target}]"))
    shown = harness("matrix", "--matrix", str(path), "--executor", "current")
    results = suite.root / "build" / "results"
    project = pipeline.with_tests(pipeline.load(path), [results])
    return suite, shown, judged_files(project, pipeline.plan(project, "quick"), [results])


@pytest.mark.slow
def test_a_hostile_suite_ends_in_states_and_every_test_has_one(hostile):
    suite, _, comparison = hostile
    found = states(comparison)
    assert found.pop("test_bad/import") == "error"
    ends = {name.partition("/")[2]: state for name, state in found.items() if "takes" not in name}
    assert ends == {
        "test_exits": "error",
        "test_is_killed": "error",
        "test_ends_pytest": "error",
        "test_raises_system_exit": "error",
        "test_interrupts": "error",
        "test_says_much": "fail",
        "test_says_what_xml_cannot_hold": "error",
        "test_raises_what_has_no_text": "error",
        "test_changes_the_folder": "held",
        "test_comes_last": "held",
    }
    takes = {name: state for name, state in found.items() if "takes" in name}
    assert len(takes) == 13
    assert set(takes.values()) == {"held"}
    assert all(len(name) < 200 and name.isprintable() and name.count("/") == 1 for name in takes)
    # What was written is read again, also where the texts are no XML.
    assert {record.case for record in suite.results().records} == {v.case.id for v in verdicts(comparison).values()}
    assert suite.results().broken == ()


@pytest.mark.slow
def test_the_dashboard_of_a_hostile_suite_is_made_and_its_figures_agree(hostile):
    suite, shown, _ = hostile
    assert shown.returncode == 1, shown.stderr
    assert shown.stderr == ""
    document = json.loads((suite.root / "build" / "site" / "compat.json").read_text())
    assert sum(document["run"]["cases_by_state"].values()) == 13 + 10 + 1


@pytest.mark.nightly
@pytest.mark.slow
def test_twenty_thousand_tests_take_a_minute_or_two(tmp_path):
    text = "import pytest\n\n@pytest.mark.parametrize('n', range(20_000))\ndef test_n(n):\n    assert n != 77\n"
    suite = Suite.made(tmp_path, {"tests/test_many.py": text})
    before = time.process_time()
    comparison = suite.run()
    assert comparison.counts == {"fail": 1, "held": 19_999}
    assert time.process_time() - before < 120
    assert suite.results().broken == ()


@pytest.mark.slow
def test_a_test_runs_once_for_each_target_and_says_so_where_no_device_is_here(tmp_path):
    text = """
        calls = []

        def test_one(tmp_path):
            calls.append(tmp_path)
            assert len(set(calls)) == len(calls)
        """
    suite = Suite.made(tmp_path, {"tests/test_a.py": text}, MATRIX.replace("[any]", "[any, other, elsewhere]"))
    found = {v.case.id: v for cell in suite.run().cells for v in cell.cases}
    assert {name: verdict.state for name, verdict in found.items()} == {
        f"here/{target}/plain/test_a.tests/test_one": "unavailable" if target == "elsewhere" else "held"
        for target in ("any", "other", "elsewhere")
    }
    assert "no this machine device for elsewhere" in found["here/elsewhere/plain/test_a.tests/test_one"].reason


@pytest.mark.slow
def test_a_test_that_one_environment_lacks_is_planned_there_and_says_so(tmp_path):
    suite = Suite.made(tmp_path, {
        "tests/test_a.py": "import os\nimport pytest\n\n@pytest.mark.parametrize('n', range(int(os.environ['N'])))\n"
        "def test_n(n): pass\n"
    }, several_environments({"one": "N: '1'", "two": "N: '2'"}))  # fmt: skip
    found = {v.case.id: v for cell in suite.run().cells for v in cell.cases if v.case.name.startswith("test_n")}
    assert {name: v.state for name, v in found.items()} == {
        "here/any/one/test_a.tests/test_n[0]": "held",
        "here/any/one/test_a.tests/test_n[1]": "unavailable",
        "here/any/two/test_a.tests/test_n[0]": "held",
        "here/any/two/test_a.tests/test_n[1]": "held",
    }
    assert "not collected in this environment" in found["here/any/one/test_a.tests/test_n[1]"].reason


@pytest.mark.slow
def test_a_case_by_its_id_and_a_shard_run_their_part_only(tmp_path):
    text = "".join(f"def test_{n}(): pass\n" for n in range(10))
    suite = Suite.made(tmp_path, {"tests/test_a.py": text})
    one = suite.run(Selection(cases=("here/any/plain/test_a.tests/test_3",)))
    assert states(one) == {"test_a/test_3": "held"}
    parts = [states(suite.run(Selection(shard=parse_shard(f"{k}/2")))) for k in (1, 2)]
    assert sorted([*parts[0], *parts[1]]) == sorted(f"test_a/test_{n}" for n in range(10))


@pytest.mark.slow
def test_a_row_that_was_planned_before_anything_was_collected_runs_all_tests(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\ndef test_two(): pass\n"})
    project = pipeline.load(suite.root / "matrix.yaml")
    rows = plan_rows(project).rows
    file = tmp_path / "plan.json"
    file.write_text(to_json(rows))
    [row] = rows.rows
    assert [case.name for job in row.jobs for case in job.cases] == ["collected"]
    now = suite.collected()
    [row] = from_json(file, pipeline.plan(now, "quick")).rows
    assert [case.name for job in row.jobs for case in job.cases] == ["test_one", "test_two"]


@pytest.mark.slow
def test_the_page_of_a_run_that_goes_on_knows_its_tests_before_a_job_has_ended(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    suite.collected()
    project = pipeline.with_tests_of_run(pipeline.load(suite.root / "matrix.yaml"))
    assert [case.id for case in pipeline.plan(project, "quick").cases] == ["here/any/plain/test_a.tests/test_one"]


@pytest.mark.slow
def test_rows_are_planned_alike_before_and_after_a_run(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    before = to_json(plan_rows(pipeline.load(suite.root / "matrix.yaml")).rows)
    suite.run()
    project = pipeline.load(suite.root / "matrix.yaml")
    assert [case.name for case in pipeline.plan(project, "quick").cases] == ["test_one"]
    assert to_json(plan_rows(project).rows) == before


def test_a_row_runs_all_tests_of_its_lanes_and_no_others(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""}, MATRIX.replace("[any]", "[any, other]"))
    matrix = with_tests(load(suite.root / "matrix.yaml"), Listed({"a": (("test_a", "one"), ("test_a", "two"))}))
    cases = plan(matrix, "quick").cases
    of_row = with_new_tests(("here/other/plain/suite.tests/collected",), ids_by_lane(cases))
    assert of_row == [f"here/other/plain/test_a.tests/{name}" for name in ("one", "two")]
    assert with_new_tests(of_row[:1], ids_by_lane(cases)) == of_row[:1]


def test_only_a_lane_whose_tests_were_lost_has_a_case_that_stands_for_them(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": ""}, MATRIX.replace("[any]", "[any, other]"))
    listed = Listed({"a": (("test_a", "one"),)}, frozenset({("here", "other", "plain")}))
    ids = [case.id for case in plan(with_tests(load(suite.root / "matrix.yaml"), listed), "quick").cases]
    assert ids == [
        "here/any/plain/test_a.tests/one",
        "here/other/plain/suite.tests/collected",
        "here/other/plain/test_a.tests/one",
    ]


def test_the_facts_of_a_job_name_its_tests_whatever_they_are_called_and_however_many():
    tests = (
        ("test_a", "test_one"),
        ("test_a", "Grüße[|`$(reboot)`]"),
        *(("test_b", f"n[{n:0180}]") for n in range(4000)),
    )
    facts = facts_of(tests)
    assert len(facts) > 2
    assert all(len(text) <= 256 * 2**10 for text in facts.values())
    assert listed_of({"here.plain": facts}) == Listed({"here.plain": tests})


def test_the_facts_of_a_job_name_the_targets_whose_tests_are_not_known():
    facts = {"platform": "here", "toolchain": "plain", **facts_of([], ["other", "any"])}
    lost = {("here", "any", "plain"), ("here", "other", "plain")}
    assert listed_of({"here.plain": facts}) == Listed({"here.plain": ()}, frozenset(lost))


@pytest.mark.parametrize("line", ["", "x", "x/", "/x", "x/y/z", "x/\x1b[31m", f"x/{'y' * 300}", "suite/collected"])
def test_a_line_that_names_no_test_is_left_out(line):
    facts = {"tests.1": f"test_a/one\n{line}\ntest_a/two"}
    assert listed_of({"a": facts}).tests == {"a": (("test_a", "one"), ("test_a", "two"))}


@pytest.mark.slow
def test_the_suite_keeps_its_own_configuration(tmp_path):
    suite = Suite.made(tmp_path, {
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["ours"]\naddopts = "--strict-markers -x"\n',
        "conftest.py": "import pytest\n\n@pytest.fixture\ndef answer():\n    return 42\n",
        "tests/test_a.py": "import pytest\n\n@pytest.mark.ours\ndef test_one(answer): assert answer == 42\n"
        "def test_two(): assert False\ndef test_three(): pass\n",
    })  # fmt: skip
    assert states(suite.run()) == {
        "test_a/test_one": "held", "test_a/test_two": "fail", "test_a/test_three": "held"
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytest.toml", ".pytest.toml"])
def test_a_file_of_pytest_s_own_configures_the_suite_before_the_project_s(tmp_path, name):
    suite = Suite.made(tmp_path, {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--no-such-option"\n',
        name: '[pytest]\nmarkers = ["ours"]\naddopts = ["--strict-markers"]\n',
        "tests/test_a.py": "import pytest\n\n@pytest.mark.ours\ndef test_one(): pass\n"
        "def test_two(pytestconfig): assert pytestconfig.getini('markers')[0] == 'ours'\n",
    })  # fmt: skip
    assert states(suite.run()) == {"test_a/test_one": "held", "test_a/test_two": "held"}


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(tmp_path):
    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\ndef test_two(): pass\n"})
    suite.run()
    journal = suite.root / "build" / "jobs" / "here.plain" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    kept = [line for line in lines if "test_two" not in line]
    journal.write_text("\n".join(kept) + "\n")
    mark = mark_file(suite.root / "build", "here.plain")
    *_, asked = mark.read_text().split()
    mark.write_text(f"{journal.stat().st_size:020d} {sha256(journal.read_bytes()).hexdigest()} {asked}\n")
    comparison = suite.run(resume=True)
    assert states(comparison) == {"test_a/test_one": "held", "test_a/test_two": "held"}
    text = journal.read_text()
    assert text.count('"entry": "start"') == len([line for line in kept if '"entry": "start"' in line]) + 1


def test_names_are_short_printable_and_different(tmp_path):
    names = [case_of(text) for text in ("a", "a/b", "a_b", "x" * 500, "x" * 501, "", "q-timed", "import")]
    assert len(set(names)) == len(names)
    assert all(0 < len(name) <= MOST and "/" not in name and name.isprintable() for name in names)
    assert not any(name.endswith("-timed") or name == "import" for name in names)
    suite = tmp_path / "tests"
    assert op_of(suite / "sub" / "test_a.py", suite) == "sub.test_a"
    assert op_of(suite / "suite.py", suite) == "file.suite"
    assert op_of(suite / "a b.py", suite) != op_of(suite / "a_b.py", suite)
    twice = list(keys_of([(suite / "test_a.py", "t")] * 2, suite))
    assert twice == [("test_a", "t"), ("test_a", "t~2")]


def test_a_matrix_with_operators_may_not_call_a_direction_tests(doubles):
    doubles.edit("directions: [forward]", "directions: [tests]")
    with pytest.raises(UserError, match="'tests' is the direction of the tests of a suite without 'ops'"):
        load(doubles.root / "matrix.yaml")


def test_a_matrix_with_operators_may_not_have_a_sample_of_tests(doubles):
    doubles.edit("directions: [forward]", "sample: 3, directions: [forward]")
    with pytest.raises(UserError, match="a sample is of the tests of a suite without 'ops'"):
        load(doubles.root / "matrix.yaml")


def test_tests_do_not_touch_a_matrix_that_names_its_operators(doubles):
    matrix = doubles.matrix
    assert with_tests(matrix, Listed({"a": (("x", "y"),)})) is matrix


def test_text_that_xml_cannot_hold_is_replaced(tmp_path):
    from kernel_matrix.store.record import Record

    junit.write(tmp_path / "a.xml", "a", [Record("a/b/c/d.e/f", "error", message="x\ud800\uffff\x00y")], {})
    [record] = junit.read(tmp_path / "a.xml")
    assert record.message == "x???y".replace("?", "\N{REPLACEMENT CHARACTER}")


PALLAS = {
    **{f"{folder}/__init__.py": "" for folder in ("jax", "jax/experimental", "jax/experimental/pallas")},
    "jax/experimental/pallas/tpu.py": """
        asked = []

        class InterpretParams:
            pass

        set_tpu_interpret_mode = asked.append
        """,
    "tests/test_a.py": """
        from jax.experimental.pallas import tpu

        def test_pallas_interprets():
            assert len(tpu.asked) == 1
        """,
}


@pytest.mark.slow
def test_pallas_interprets_where_the_environment_asks_for_it(tmp_path):
    of = {"asks": "KERNEL_MATRIX_PALLAS_INTERPRET: '1'", "not": "KERNEL_MATRIX_PALLAS_INTERPRET: '0'"}
    cells = Suite.made(tmp_path, PALLAS, several_environments(of)).run().cells
    found = {v.case.id: v.state for cell in cells for v in cell.cases}
    assert found == {
        "here/any/asks/test_a.tests/test_pallas_interprets": "held",
        "here/any/not/test_a.tests/test_pallas_interprets": "fail",
    }


@pytest.mark.slow
def test_what_a_job_depends_on_takes_time_as_its_tests_and_not_as_their_square(tmp_path):
    """The process's own time is taken, and the smaller of two suites sets the measure."""

    suite = Suite.made(tmp_path, {"tests/test_a.py": "def test_one(): pass\n"})
    loaded = pipeline.load(suite.root / "matrix.yaml", tmp_path / "build")

    def seconds(count: int) -> float:
        tests = tuple((f"test_{number % 40}", f"case{number}") for number in range(count))
        project = replace(loaded, matrix=with_tests(loaded.matrix, Listed({"here.plain": tests})), checked=None)
        jobs = plan(project.matrix, "quick").jobs
        assert sum(len(job.cases) for job in jobs) >= count
        settings = Settings(project.root, project.build, "current")
        before = time.process_time()
        made_from(project, settings, detect(), Lines(), jobs)
        return time.process_time() - before

    seconds(10)  # imports
    assert seconds(16000) < 24 * max(seconds(1000), 0.02)
