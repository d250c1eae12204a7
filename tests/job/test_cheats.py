"""Kernels and suites that cheat are red in a whole run. The doubles' toolchain ``wrong`` does what each test says."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from common import Doubles, copy_doubles
from records import middle, states

from kernel_matrix.job import landlock
from kernel_matrix.results.states import Verdict
from kernel_matrix.run import proven
from kernel_matrix.run.proven import mark_file

FORGED_END = "the journal holds an entry that neither the harness nor the process that compares has written"


# The kernel of each cheat, by the tokens of its case. It gets ``x`` and ``out``, and the journal's path. The cases with
# an odd number of tokens are honest, so each cheat has one before and one after it.
FORGED_AND_GONE, FORGED, SIGNED_TWICE, THIEF, LEAVES_A_PROCESS = 2, 4, 6, 8, 10


def forged_end(after: str) -> list[str]:
    """Return lines that write a passing end of the case in flight into the journal."""
    return [
        "start = [json.loads(line) for line in journal.read_text().splitlines()][-2]",
        "end = {'entry': 'end', 'case': start.get('case'), 'action': 'run', 'attempt': 1, 'outcome': 'pass'}",
        "end |= {'seconds': 0.1, 'facts': {}, 'metrics': {'elements': 16}, 'time': 0}",
        "with journal.open('a') as file:",
        "    file.write(json.dumps(end) + '\\n')",
        after,
    ]


THEFTS = {
    "mark.read_text()": "Permission denied: '/var/tmp/kernel-matrix-",
    "os.link(mark, journal.with_name('copy'))": "Invalid cross-device link: '/var/tmp/kernel-matrix-",
    "mark.rename(journal.with_name('copy'))": "Permission denied: '/var/tmp/kernel-matrix-",
    "mark.write_text('1 2 3')": "Permission denied: '/var/tmp/kernel-matrix-",
    "mark.unlink()": "Permission denied: '/var/tmp/kernel-matrix-",
    "mark.with_name('other').write_text('1 2 3')": "Permission denied: '/var/tmp/kernel-matrix-",
    "os.truncate(mark, 0)": "Permission denied: ",
    "mark.parent.parent.rename('/var/tmp/elsewhere')": "Permission denied: '/var/tmp/kernel-matrix-",
    **{
        f"open(f'/proc/{{{process}}}/{file}', 'rb')": "Permission denied: '/proc/"
        for process in ("os.getppid()", "harness")
        for file in ("mem", "fd/0")
    },
    "resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))": "Operation not permitted",
    "resource.prlimit(harness, resource.RLIMIT_CORE, (0, 0))": "Operation not permitted",
    "subprocess.run(['prlimit', '--pid', str(harness), '--core=0'], check=True)": "returned non-zero exit status",
}


def thief(refusals: Path, mark: Path) -> list[str]:
    """Return lines that try each theft, and write down how it was refused."""
    tries = [
        line
        for theft in THEFTS
        for line in (
            "try:",
            f"    {theft}",
            "    refusal = 'none'",
            "except (OSError, subprocess.CalledProcessError) as error:",
            "    refusal = str(error)",
            f"with Path({str(refusals)!r}).open('a') as file:",
            "    file.write(refusal + '\\n')",
        )
    ]
    harness = "harness = int(Path(f'/proc/{os.getppid()}/stat').read_text().rpartition(')')[2].split()[1])"
    return ["import resource, subprocess", f"mark = Path({str(mark)!r})", harness, *tries, "double(x, out)"]


def leaves_a_process(pid: Path) -> list[str]:
    """Return lines that leave a process behind, which writes its number down."""
    return [
        "double(x, out)",
        "child = os.fork()",
        "if child == 0:",
        "    os.setsid()",
        "    if os.fork() == 0:",
        f"        Path({str(pid)!r}).write_text(str(os.getpid()))",
        "        os.execvp('sleep', ['sleep', '4245'])",
        "    time.sleep(0.2)",
        "    os._exit(0)",
        "os.waitpid(child, 0)",
    ]


SIGNED = [  # the last entry once more, with its signature: the end of the case before, which passed
    "lines = journal.read_text().splitlines()",
    "end = next(line for line in reversed(lines) if '\"end\"' in line)",
    "with journal.open('a') as file:",
    "    file.write(end + '\\n')",
    "os._exit(0)",
]


def give_cheats(doubles: Doubles, cheats: Mapping[int, Sequence[str]]) -> None:
    """Have the toolchain ``wrong`` run the lines of a cheat in the case of so many tokens."""
    path = doubles.root / "src" / "doubles" / "__init__.py"
    kernels = [
        f"def cheat_{tokens}(x, out):\n    journal = Path(os.readlink('/proc/self/fd/1')).with_name('journal.jsonl')\n"
        + "".join(f"    {line}\n" for line in lines)
        for tokens, lines in cheats.items()
    ]
    chosen = 'BACKENDS["wrong"] = lambda x, out: globals()[f"cheat_{len(x)}"](x, out)\n'
    path.write_text(
        "\n\n".join((path.read_text().replace("import os\n", "import json\nimport os\n"), *kernels, chosen))
    )
    suite = doubles.root / "suite" / "test_doubles.py"
    suite.write_text(suite.read_text().replace("faulty=tokens == 2", f"faulty=tokens in {[*cheats]}"))
    doubles.edit("tokens: [1, 2, 3]", f"tokens: {[*range(1, max(cheats) + 2)]}")
    doubles.edit("case: 15,", "case: 60,")


@pytest.fixture(scope="module")
def noted(tmp_path_factory) -> Path:
    """Return the folder in which the cheats write down what they saw."""
    return tmp_path_factory.mktemp("noted")


@pytest.fixture(scope="module")
def cheated(noted: Path, tmp_path_factory, bytecode: Path) -> dict[int, Verdict]:
    """Run a job of which every second case cheats, and return the verdicts by tokens."""
    doubles = copy_doubles(tmp_path_factory.mktemp("cheats") / "doubles", bytecode)
    cheats = {
        FORGED_AND_GONE: forged_end("os._exit(0)"),
        FORGED: forged_end("double(x, out)"),
        SIGNED_TWICE: SIGNED,
        THIEF: thief(noted / "refusals", mark_file(doubles.root / "build", "here.wrong")),
        LEAVES_A_PROCESS: leaves_a_process(noted / "left"),
    }
    give_cheats(doubles, cheats)
    comparison = doubles.run("wrong")
    assert comparison.is_red
    return {verdict.case.axes["tokens"]: verdict for verdict in comparison.verdicts}


@pytest.mark.slow
def test_a_cheat_costs_its_own_case_alone(cheated):
    honest = {tokens: verdict.state for tokens, verdict in cheated.items() if tokens % 2}
    assert honest == dict.fromkeys((1, 3, 5, 7, 9, 11), "pass")


@pytest.mark.parametrize("tokens", [FORGED_AND_GONE, FORGED])
@pytest.mark.slow
def test_an_end_that_the_kernel_writes_into_the_journal_is_not_believed(cheated, tokens: int):
    assert (cheated[tokens].state, cheated[tokens].reason) == ("error", FORGED_END)


@pytest.mark.slow
def test_a_signature_is_not_believed_twice(cheated):
    assert cheated[SIGNED_TWICE].state == "error"


@pytest.mark.slow
def test_a_kernel_reaches_neither_what_is_proven_nor_the_processes_of_the_harness(cheated, noted: Path):
    """One kernel tries each theft, and the refusals are what it writes down."""
    if not landlock.can_be_kept_away():
        pytest.skip("needs Linux 5.19 or later with Landlock")
    assert cheated[THIEF].state == "pass"
    assert cheated[THIEF].record.job["keys"] == "out of reach"
    for (theft, expected), refusal in zip(THEFTS.items(), (noted / "refusals").read_text().splitlines(), strict=True):
        assert expected in refusal, theft


@pytest.mark.slow
def test_a_process_that_the_kernel_leaves_behind_is_ended_and_red(cheated, noted: Path):
    verdict = cheated[LEAVES_A_PROCESS]
    assert (verdict.state, verdict.reason) == ("error", "the kernel left 1 processes behind: sleep")
    with pytest.raises(ProcessLookupError):
        os.kill(int((noted / "left").read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_a_run_of_which_nothing_is_proven_begins_anew_when_it_is_resumed(doubles: Doubles):
    doubles.run("good")
    mark_file(doubles.root / "build", "here.good").unlink()
    assert states(doubles.run("good", resume=True)) == ["pass"] * 3


@pytest.mark.slow
def test_a_kernel_cannot_end_the_process_that_compares(doubles: Doubles):
    if landlock.abi() < landlock.ABI_OF_SIGNALS:
        pytest.skip("needs Linux 6.12 or later with Landlock")
    give_cheats(doubles, {2: ["os.kill(os.getppid(), 9)", "time.sleep(60)"]})
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "error", "pass"]
    assert middle(comparison).reason == "PermissionError: [Errno 1] Operation not permitted"


@pytest.mark.slow
def test_without_landlock_nothing_is_proven_and_a_resumed_run_begins_anew(doubles: Doubles, monkeypatch):
    monkeypatch.setattr(proven, "can_be_kept_away", lambda: False)
    doubles.run("good")
    assert not mark_file(doubles.root / "build", "here.good").exists()
    journal = doubles.root / "build" / "jobs" / "here.good" / "journal.jsonl"
    before = journal.read_text()
    assert states(doubles.run("good", resume=True)) == ["pass"] * 3
    assert journal.read_text() != before


def end(hook: str, tokens: int) -> str:
    """Return a hook of pytest that ends its process, in place of a kernel's child on a machine without Landlock."""
    return f"""\
import os, pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def {hook}(item):
    if 'tokens{tokens}' in item.nodeid:
        os.kill(os.getpid(), 9)
    return (yield)
"""


BLIND = "from kernel_matrix.job import accuracy, canaries\n"
WIDE = "comparison.budget = lambda *_, **__: Budget(1e3, 1e3)"
EXACT = "accuracy.measure(np.ones(2, np.float32), np.ones(2))"
# What the suite does in the job of a toolchain.
SUITES = {
    "sees-no-limit": f"{BLIND}accuracy.Budget.faults = lambda *_: []",
    "sees-no-error": f"import numpy as np\n{BLIND}exact = {EXACT}\ncanaries.measure = lambda *_: exact",
    "without-canaries": "from kernel_matrix.job import case as of_case\nof_case.try_canaries = lambda *_: []",
    "wrong": f"from kernel_matrix.job import comparison\nfrom kernel_matrix.job.accuracy import Budget\n{WIDE}",
    "imports-the-backend": "import doubles.good",
    "looks-for-the-key": "files = os.listdir(folder)\nassert 'todo.json' in files\nassert 'key' not in files\n"
    "assert os.readlink('/proc/self/fd/0') == os.devnull",
    "without-landlock": "from kernel_matrix.job import plugin\nplugin.can_be_kept_away = lambda: False",
    "ends-between-cases": end("pytest_runtest_protocol", 3),
    "ends-within-a-case": end("pytest_runtest_call", 2),
}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory, bytecode: Path) -> dict[str, list[Verdict]]:
    """Run a job with each suite beside the others, and return the verdicts of each."""
    doubles = copy_doubles(tmp_path_factory.mktemp("suites") / "doubles", bytecode)
    (doubles.root / "src" / "doubles" / "good.py").write_text("")
    doubles.edit("source: src,", "source: src, backends: src/doubles,")
    new = [name for name in SUITES if name != "wrong"]
    lines = [f"  {name}: {{ backend: good, lock: lock.txt, requires: [numpy] }}\n" for name in new]
    doubles.edit("toolchains:\n", "toolchains:\n" + "".join(lines))
    doubles.edit("toolchains: [good,", f"toolchains: [good, {', '.join(new)},")
    doubles.edit("case: 15,", "case: 60,")
    conftest = ["import os, pathlib, sys", "folder = pathlib.Path(sys.argv[sys.argv.index('--job') + 1]).parent"]
    for name, text in SUITES.items():
        conftest += [f"if folder.name == 'here.{name}':", textwrap.indent(text, "    ")]
    (doubles.root / "suite" / "conftest.py").write_text("\n".join((*conftest, "")))
    comparison = doubles.run(*SUITES)
    assert comparison.is_red
    return {cell.cell.toolchain: list(cell.cases) for cell in comparison.cells}


def states_of(verdicts: list[Verdict]) -> list[str]:
    return [verdict.state for verdict in verdicts]


@pytest.mark.slow
def test_where_landlock_is_absent_the_record_says_that_the_keys_are_within_reach(spoilt):
    assert {verdict.record.job["keys"] for verdict in spoilt["without-landlock"]} == {"within reach"}


@pytest.mark.parametrize(
    ("suite", "states"),
    [("ends-between-cases", ["pass", "pass", "error"]), ("ends-within-a-case", ["pass", "error", "error"])],
)
@pytest.mark.slow
def test_where_somebody_ends_the_process_that_compares_no_other_is_started(spoilt, suite: str, states: list[str]):
    """Between two cases nothing was red."""
    assert states_of(spoilt[suite]) == states
    assert spoilt[suite][-1].reason == "the process that compares died of SIGKILL, and no other one was started"


@pytest.mark.slow
def test_the_key_is_never_in_the_folder_of_a_job_on_this_machine(spoilt):
    """A process that was left behind would read it there before the next process that compares has taken it."""
    assert states_of(spoilt["looks-for-the-key"]) == ["pass"] * 3


@pytest.mark.slow
def test_a_process_that_compares_may_not_import_the_backend(spoilt):
    verdicts = spoilt["imports-the-backend"]
    assert states_of(verdicts) == ["error"] * 3
    assert "RuntimeError: the process that compares has imported doubles.good" in verdicts[1].reason


@pytest.mark.parametrize("suite", ["sees-no-limit", "sees-no-error"])
@pytest.mark.slow
def test_a_comparison_that_sees_no_fault_is_an_error(spoilt, suite: str):
    assert states_of(spoilt[suite]) == ["error"] * 3, "no case is believed that a blind comparison has passed"
    [verdict] = [verdict for verdict in spoilt[suite] if "BlindComparisonError" in verdict.reason]
    assert "the comparison does not find a fault that was put in: an element off" in verdict.reason
    assert "a NaN in out" in verdict.record.facts["canary.missed"]


@pytest.mark.slow
def test_a_case_that_owes_canaries_and_has_none_is_an_error(spoilt):
    reasons = [verdict.reason for verdict in spoilt["without-canaries"] if verdict.state != "pass"]
    assert reasons == [
        "RuntimeError: the case ended without a fault put in: whether the comparison finds one is not known"
    ]


@pytest.mark.slow
def test_a_budget_that_the_suite_widens_is_red(spoilt):
    """A canary follows the budget, so it does not see this. The limits are computed again from the record."""
    _, verdict, _ = spoilt["wrong"]
    assert verdict.record.outcome == "pass"
    assert verdict.state != "pass"
    assert "the record's limit of max_abs is 1000, and matrix.yaml makes it" in verdict.reason
