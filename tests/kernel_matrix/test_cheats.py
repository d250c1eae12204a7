"""Kernels and suites that cheat are red in a whole run. The doubles' toolchain ``wrong`` does what each test says."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from conftest import Doubles
from test_run import middle, states
from together import first_are_quick

from kernel_matrix.job import keys

FORGED = "the journal holds an entry that neither the harness nor the process that compares has written"


def cheat(doubles: Doubles, *lines: str) -> None:
    """Have the case of two tokens run these lines, in a function that gets ``x`` and ``out``."""
    path = doubles.root / "src" / "doubles" / "__init__.py"
    body = "".join(f"    {line}\n" for line in lines)
    path.write_text(f'{path.read_text()}\n\ndef cheat(x, out):\n{body}\n\nBACKENDS["wrong"] = cheat\n')


def change_suite(doubles: Doubles, *lines: str) -> None:
    """Put these lines at the end of the suite's module."""
    path = doubles.root / "suite" / "test_doubles.py"
    path.write_text("\n".join((path.read_text(), *lines, "")))


def forged_end(*after: str) -> tuple[str, ...]:
    """Return lines that write a passing end of the case in flight into the journal."""
    return (
        "import json",
        "journal = Path(os.readlink('/proc/self/fd/1')).with_name('journal.jsonl')",
        "start = [json.loads(line) for line in journal.read_text().splitlines()][-2]",
        "end = {'entry': 'end', 'case': start.get('case'), 'action': 'run', 'attempt': 1, 'outcome': 'pass'}",
        "end |= {'seconds': 0.1, 'facts': {}, 'metrics': {'elements': 16}, 'time': 0}",
        "with journal.open('a') as file:",
        "    file.write(json.dumps(end) + '\\n')",
        *after,
    )


@pytest.mark.parametrize("after", first_are_quick(1, ["os._exit(0)", "double(x, out)"]))
@pytest.mark.slow
def test_an_end_that_the_kernel_writes_into_the_journal_is_not_believed(doubles: Doubles, after: str):
    cheat(doubles, *forged_end(after))
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).reason == FORGED
    assert comparison.is_red


@pytest.mark.slow
def test_a_signature_is_not_believed_twice(doubles: Doubles):
    """The kernel writes the last entry once more, with its signature: the end of the case before, which passed."""
    cheat(
        doubles,
        "journal = Path(os.readlink('/proc/self/fd/1')).with_name('journal.jsonl')",
        "lines = journal.read_text().splitlines()",
        "end = next(line for line in reversed(lines) if '\"end\"' in line)",
        "with journal.open('a') as file:",
        "    file.write(end + '\\n')",
        "os._exit(0)",
    )
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "error", "pass"]


KEY = "key_file(journal.parents[2], journal.parent.name)"
THEFTS = {
    f"{KEY}.read_text()": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    f"os.link({KEY}, journal.with_name('copy'))": "Invalid cross-device link: '/var/tmp/kernel-matrix-keys-",
    f"{KEY}.rename(journal.with_name('copy'))": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    f"{KEY}.write_text('k' * 32)": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    f"{KEY}.unlink()": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    f"{KEY}.with_name('other').write_text('k' * 32)": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    f"os.truncate({KEY}, 0)": "Permission denied: ",
    f"{KEY}.parent.parent.rename('/var/tmp/elsewhere')": "Permission denied: '/var/tmp/kernel-matrix-keys-",
    "open(f'/proc/{os.getppid()}/mem', 'rb')": "Permission denied: '/proc/",
    "open(f'/proc/{harness}/mem', 'rb')": "Permission denied: '/proc/",
}


@pytest.mark.slow
def test_a_kernel_does_not_get_the_key_that_signs_the_journal(doubles: Doubles, tmp_path: Path):
    """One kernel tries each theft, and the refusals are what it writes down."""
    if not keys.can_be_kept_away():
        pytest.skip("needs Linux 5.19 or later with Landlock")
    refusals = tmp_path / "refusals"
    cheat(
        doubles,
        "from kernel_matrix.job.keys import key_file",
        "journal = Path(os.readlink('/proc/self/fd/1')).with_name('journal.jsonl')",
        "harness = Path(f'/proc/{os.getppid()}/stat').read_text().rpartition(')')[2].split()[1]",
        *(
            line
            for theft in THEFTS
            for line in (
                "try:",
                f"    {theft}",
                "    refusal = 'none'",
                "except OSError as error:",
                "    refusal = str(error)",
                f"with Path({str(refusals)!r}).open('a') as file:",
                "    file.write(refusal + '\\n')",
            )
        ),
        "double(x, out)",
    )
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass"] * 3
    assert middle(comparison).record.job["keys"] == "out of reach"
    for (theft, expected), refusal in zip(THEFTS.items(), refusals.read_text().splitlines(), strict=True):
        assert expected in refusal, theft


@pytest.mark.slow
def test_a_run_whose_key_is_gone_begins_anew_when_it_is_resumed(doubles: Doubles):
    doubles.run("good")
    keys.key_file(doubles.root / "build", "here.good").unlink()
    assert states(doubles.run("good", resume=True)) == ["pass"] * 3


@pytest.mark.slow
def test_where_landlock_is_absent_the_record_says_that_the_keys_are_within_reach(doubles: Doubles):
    monkeypatched = "from kernel_matrix.job import running", "running.can_be_kept_away = lambda: False"
    path = doubles.root / "suite" / "conftest.py"
    path.write_text("\n".join((path.read_text() if path.exists() else "", *monkeypatched, "")))
    [cell] = doubles.run("good").cells
    assert {verdict.record.job["keys"] for verdict in cell.cases} == {"within reach"}


@pytest.mark.slow
def test_a_kernel_cannot_end_the_process_that_compares(doubles: Doubles):
    if keys.abi() < keys.ABI_OF_SIGNALS:
        pytest.skip("needs Linux 6.12 or later with Landlock")
    cheat(doubles, "os.kill(os.getppid(), 9)", "time.sleep(60)")
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).reason == "PermissionError: [Errno 1] Operation not permitted"


@pytest.mark.parametrize("between", first_are_quick(1, [True, False]), ids=["between two cases", "within a case"])
@pytest.mark.slow
def test_where_somebody_ends_the_process_that_compares_no_other_is_started(doubles: Doubles, between: bool):
    """The suite stands in for a kernel's child on a machine without Landlock: between two cases nothing was red."""
    hook = "pytest_runtest_protocol" if between else "pytest_runtest_call"
    (doubles.root / "suite" / "conftest.py").write_text(
        f"import os, pytest\n\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef {hook}(item):\n"
        f"    if 'tokens{3 if between else 2}' in item.nodeid:\n        os.kill(os.getpid(), 9)\n    return (yield)\n"
    )
    comparison = doubles.run("good")
    assert states(comparison) == ["pass", "pass" if between else "error", "error"]
    [*_, last] = comparison.cells[0].cases
    assert last.reason == "the process that compares died of SIGKILL, and no other one was started"
    assert comparison.is_red


@pytest.mark.slow
def test_the_key_is_never_in_the_folder_of_a_job_on_this_machine(doubles: Doubles):
    """A process that was left behind would read it there before the next process that compares has taken it."""
    (doubles.root / "suite" / "conftest.py").write_text(
        "import os, pathlib\n\nfiles = os.listdir(pathlib.Path(os.readlink('/proc/self/fd/1')).parent)\n"
        "assert 'key' not in files\nassert os.readlink('/proc/self/fd/0') == os.devnull\n"
    )
    assert states(doubles.run("good")) == ["pass"] * 3


@pytest.mark.slow
def test_without_landlock_no_key_is_kept_and_a_resumed_run_begins_anew(doubles: Doubles, monkeypatch):
    monkeypatch.setattr(keys, "can_be_kept_away", lambda: False)
    doubles.run("good")
    assert not keys.key_file(doubles.root / "build", "here.good").exists()
    journal = doubles.root / "build" / "jobs" / "here.good" / "journal.jsonl"
    before = journal.read_text()
    assert states(doubles.run("good", resume=True)) == ["pass"] * 3
    assert journal.read_text() != before


@pytest.mark.slow
def test_a_process_that_the_kernel_leaves_behind_is_ended_and_red(doubles: Doubles, tmp_path: Path):
    left = tmp_path / "left"
    cheat(
        doubles,
        "double(x, out)",
        "child = os.fork()",
        "if child == 0:",
        "    os.setsid()",
        "    if os.fork() == 0:",
        f"        Path({str(left)!r}).write_text(str(os.getpid()))",
        "        os.execvp('sleep', ['sleep', '4245'])",
        "    time.sleep(0.2)",
        "    os._exit(0)",
        "os.waitpid(child, 0)",
    )
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).reason == "the kernel left 1 processes behind: sleep"
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_a_process_that_compares_may_not_import_the_backend(doubles: Doubles):
    (doubles.root / "src" / "doubles" / "good.py").write_text("")
    doubles.edit("source: src,", "source: src, backends: src/doubles,")
    change_suite(doubles, "import doubles.good")
    comparison = doubles.run("good")
    assert states(comparison) == ["error"] * 3
    assert "RuntimeError: the process that compares has imported doubles.good" in middle(comparison).reason


@pytest.mark.parametrize(
    "blindness",
    first_are_quick(
        1,
        [
            "accuracy.Budget.faults = lambda *_: []",
            "exact = accuracy.measure(np.ones(2, np.float32), np.ones(2)); canaries.measure = lambda *_: exact",
        ],
    ),
    ids=["no limit", "no error"],
)
@pytest.mark.slow
def test_a_comparison_that_sees_no_fault_is_an_error(doubles: Doubles, blindness: str):
    change_suite(doubles, "from kernel_matrix.job import accuracy, canaries", blindness)
    comparison = doubles.run("good")
    [cell] = comparison.cells
    assert states(comparison) == ["error"] * 3, "no case is believed that a blind comparison has passed"
    [verdict] = [verdict for verdict in cell.cases if "BlindComparisonError" in verdict.reason]
    assert "the comparison does not find a fault that was put in: an element off" in verdict.reason
    assert "a NaN in out" in verdict.record.facts["canary.missed"]
    assert comparison.is_red


@pytest.mark.slow
def test_a_case_that_owes_canaries_and_has_none_is_an_error(doubles: Doubles):
    change_suite(doubles, "from kernel_matrix.job import case as of_case", "of_case.try_canaries = lambda *_: []")
    [cell] = doubles.run("good").cells
    reasons = [verdict.reason for verdict in cell.cases if verdict.state != "pass"]
    assert reasons == [
        "RuntimeError: the case ended without a fault put in: whether the comparison finds one is not known"
    ]


@pytest.mark.slow
def test_a_budget_that_the_suite_widens_is_red(doubles: Doubles):
    """A canary follows the budget, so it does not see this. The limits are computed again from the record."""
    change_suite(
        doubles,
        "from kernel_matrix.job import comparison",
        "from kernel_matrix.job.accuracy import Budget",
        "comparison.budget = lambda *_, **__: Budget(1e3, 1e3)",
    )
    comparison = doubles.run("wrong")
    assert middle(comparison).record.outcome == "pass"
    assert middle(comparison).state != "pass"
    assert "the record's limit of max_abs is 1000, and matrix.yaml makes it" in middle(comparison).reason
    assert comparison.is_red
