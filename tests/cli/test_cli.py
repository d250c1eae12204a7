"""Bad input ends with one clear message and exit status 2, and no result is lost."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from common import END, ROOT, RUN, Doubles, harness, options, records_in, sh, write_results
from shown import Page
from together import first_are_quick

from kernel_matrix.base import installation
from kernel_matrix.cli import GROUPS, commands, in_group, main
from kernel_matrix.config import plan as planning
from kernel_matrix.config.model import Matrix
from kernel_matrix.run.settings import choose_executor
from kernel_matrix.store import names as tables
from kernel_matrix.store.record import Record


def repeats(output: str) -> list[list[str]]:
    """Return the words of the commands that repeat the red cases of a run."""
    return [shlex.split(line) for line in re.findall(r"repeat it: .*(kernel-matrix run .*)", output)]


ANY_NUMBER = {"--port", "--seed", "--number"}  # the first has a check of its own, and any whole number is a seed


@pytest.mark.parametrize("command", commands())
def test_no_option_takes_a_number_that_is_no_limit(command):
    parser = argparse.ArgumentParser()
    importlib.import_module(commands()[command]).arguments(parser)
    bare = {word for one in parser._actions if one.type in (int, float) for word in one.option_strings}
    assert bare <= ANY_NUMBER


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            ("query 'SELECT 1' --seconds=" + text, f"{text}: give a number above 0.")
            for text in ("nan", "inf", "0", "-1")
        ),
        ("fuzz --minutes=five", "argument --minutes: five: give a number above 0."),
        ("launches --memory=nan -- python calls.py", "argument --memory: nan: give a number above 0."),
        ("calibrate --seeds=0", "--seeds: 0: give a whole number from 1 on."),
        ("ci again --cases=1.5", "--cases: 1.5: give a whole number from 1 on."),
        ("verify candidate.py --mutants=-1", "--mutants: -1: give a whole number from 0 on."),
    ],
)
def test_a_number_that_is_no_limit_is_refused_with_what_to_give(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "watch nowhere.yaml --python python",
        "launches --compile-commands nowhere.json",
        "diff http://127.0.0.1:9/nowhere.json docs/results",
        "wheel nowhere.whl",
        "wheel nowhere.whl --load nowhere.python",
        "report nowhere.xml",
    ],
)
def test_a_file_that_is_not_there_is_said_in_words(words):
    done = harness(*words.split())
    assert done.returncode == 2
    assert "nowhere." in done.stderr
    assert "Errno" not in done.stderr


# What these say is of no matrix.
WITHOUT_MATRIX = {
    *("init", "ci comment", "ci history", "ci labels", "ci notify"),
    *("diagnose", "launches", "pack", "query", "verify", "watch", "wheel"),
}
NEEDED = {
    "shell": ["cuda"], "ci bundle": ["--wheels", "wheels"], "ci image": ["--platform", "x"],
    "ci flaky": ["history"], "ci jobs": ["--plan", "plan.json", "--write", "jobs.json"],
    "diff": ["before", "now"], "repro": ["a/b/c/d.forward"],
    "compare": ["a/b/c/d.forward", "e/b/c/d.forward"], "toolchains sweep": ["own", "--versions", "1.."],
    "query": ["SELECT 1"], "ci take-junit": ["--platform", "a", "--toolchain", "b", "c.xml"],
    "toolchains bisect": ["own", "--good", "1", "--bad", "2", "--probe", "a/b"], "toolchains report": ["a/b"],
    "send": ["--as", "alice"], "take": ["--from", "sent.txt", "--by", "alice"],
}  # fmt: skip


@pytest.mark.parametrize("command", [name for name in commands() if name not in WITHOUT_MATRIX])
def test_without_a_matrix_every_command_says_in_one_sentence_what_is_missing(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), *NEEDED.get(command, [])]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        "kernel-matrix: matrix.yaml: there is no such file, and it says what is tested: kernel-matrix init writes one "
        "for this repository that has tests, and --matrix FILE names one that lies elsewhere."
    )
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.parametrize(
    ("there", "folder", "named"),
    [
        ("operators.matrix.yaml", ".", "operators.matrix.yaml"),  # `init` writes it of a package that has no tests
        ("matrix.yaml", "tests/deep", "../../matrix.yaml"),
        ("sub/matrix.yaml", ".", "sub/matrix.yaml"),
        ("other/matrix.yml", ".", None),
        ("matrix.yaml/x", "tests", None),  # a folder
    ],
)
def test_a_matrix_that_is_near_is_named(tmp_path, capsys, monkeypatch, there, folder, named):
    for path in (tmp_path / there, tmp_path / folder / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path / folder)
    assert main(["check"]) == 2
    error = capsys.readouterr().err
    assert error.endswith(f"lies elsewhere, such as {named}.\n" if named else "lies elsewhere.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--platform", "heer"], "--platform heer: there is no such platform. Did you mean 'here'?"),
        (["--toolchain", "goood"], "--toolchain goood: there is no such toolchain. Did you mean 'good'?"),
        (["--case", "good"], "* stands for any text: --case '*good*' takes the 4 cases and cells with it, such as "),
        (
            ["--case", "*/sm_99/*"],
            " more. A cell is PLATFORM/TARGET/TOOLCHAIN/OPERATOR.DIRECTION, and * stands for any",
        ),
        (["--toolchain", "f"], "there is no such toolchain. Did you mean 'fills-disk' or 'flaky' or 'forks-away'?"),
    ],
)
def test_a_name_that_is_not_in_the_plan_is_bad_input(doubles: Doubles, arguments, message):
    done = harness("run", *options(doubles, *arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--platfrm", "here"], "kernel-matrix run: error: unknown: --platfrm here. Did you mean '--platform'?"),
        (["run", "here"], "kernel-matrix run: error: unknown: here."),
        (["query", "SELECT 1", "--x=1"], "kernel-matrix query: error: unknown: --x=1. There are: --"),
    ],
)
def test_an_option_that_a_command_does_not_have_is_answered_with_those_it_has(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"usage: kernel-matrix {arguments[0]} ")
    assert message in errors


def test_an_unknown_option_before_the_command_is_answered_with_the_commands(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--platfrm", "run"])
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith("usage: kernel-matrix [-h] COMMAND")
    assert "kernel-matrix: error: unknown: --platfrm." in errors


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_names_its_commands_and_needs_one(group, capsys):
    for words, status in (([group], 2), ([group, "xyzzy"], 2), ([group, "--help"], 0)):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == status
        printed = "".join(capsys.readouterr())
        assert printed.startswith(f"usage: kernel-matrix {group} [-h] COMMAND")
        for path in in_group(group, commands()):
            assert path.partition(" ")[2] in printed or words == [group]


def test_what_belongs_to_expectations_is_refused_without_them(capsys):
    assert main(["check", "--write"]) == 2
    assert "--write and results are for kernel-matrix check --expectations." in capsys.readouterr().err


@pytest.mark.parametrize("command", first_are_quick(2, ["run", "matrix", "report", "serve"]))
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_disk_that_is_full_or_may_not_be_written_is_one_sentence(doubles: Doubles, monkeypatch, command, number):
    def fail(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    build = doubles.root / "build"
    build.joinpath("results").mkdir(parents=True)
    monkeypatch.setattr(Path, "mkdir", fail)
    done = harness(command, *options(doubles))
    assert done.returncode == 2
    sentence = rf"{os.strerror(number)}\. Write elsewhere: --build FOLDER\."
    assert re.fullmatch(rf"kernel-matrix: {build}\S*: {sentence}\n", done.stderr)


@pytest.mark.parametrize(
    ("place", "said"),
    [("new/folder/rows.json", ""), ("a_folder", "Is a directory"), ("a_file/rows.json", "File exists|Not a directory")],
)
def test_a_file_that_is_named_is_written_in_a_new_folder_or_a_sentence_says_why(doubles: Doubles, place, said):
    doubles.root.joinpath("a_folder").mkdir()
    doubles.root.joinpath("a_file").write_text("")
    done = harness("ci", "plan", "--matrix", str(doubles.root / "matrix.yaml"), "--write", str(doubles.root / place))
    assert done.returncode == (2 if said else 0), done.stderr
    if said:
        assert re.fullmatch(rf"kernel-matrix: {doubles.root}/a_\w+: ({said})\.\n", done.stderr)
        assert not list(doubles.root.rglob("*.part"))
    else:
        assert doubles.root.joinpath(place).is_file()


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("run", "; --resume goes on where this stopped, and kernel-matrix report makes the page of what has ended"),
        (
            "matrix",
            "; --resume goes on where this stopped, and kernel-matrix report makes the page of what has ended",
        ),
        ("launches", ""),
    ],
)
def test_resume_is_advised_where_there_is_one(monkeypatch, capsys, command, advice):
    def interrupted(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module(commands()[command]), "main", interrupted)
    assert main([command]) == 130
    assert capsys.readouterr().err == f"kernel-matrix: interrupted{advice}\n"


def test_the_program_ends_with_the_status_of_its_command(doubles: Doubles):
    done = sh(*RUN, *options(doubles, "--toolchain", "goood"))
    assert done.returncode == 2
    assert done.stderr.startswith("kernel-matrix: --toolchain goood: there is no such toolchain.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_command_that_repeats_a_case_of_the_full_tier_needs_no_tier(here: Doubles):
    here.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 3] }\n      full:\n        - { tokens: [2, 5] }")
    more = ("--executor", "current", "--toolchain", "wrong")
    red = harness("run", *options(here, *more, "--tier", "full"))
    [case] = [words[words.index("--case") + 1] for words in repeats(red.stdout)]
    assert case.endswith("/tokens2")
    repeated = harness("run", *options(here, "--executor", "current", "--case", case))
    assert "1 case: 1 fail" in repeated.stdout, repeated.stderr
    refused = harness("run", *options(here, "--case", case, "--tier", "quick"))
    assert refused.returncode == 2
    assert "The full tier has more: --tier full." in refused.stderr


@pytest.mark.slow
def test_a_misspelt_key_is_bad_input_and_leaves_earlier_results(here: Doubles):
    job = {"job": "here.good", "started": "2026-01-01T00:00:00Z"}
    write_results(here.root / "build" / "results", [Record("a/b/c/d.e/f", "pass", job=job)])
    here.edit("    runner:", "    runnner:")
    done = harness("matrix", *options(here))
    assert done.returncode == 2
    assert "Did you mean 'runner'?" in done.stderr
    assert len(records_in(here.root / "build" / "results", "here.good")) == 1


@pytest.mark.slow
def test_a_red_run_prints_the_command_that_repeats_it_and_what_it_repeats_takes_the_place_of_the_first(here: Doubles):
    red = harness("run", *options(here, "--executor", "current", "--toolchain", "wrong"))
    assert red.returncode == 1
    identity = next(r.case for r in records_in(here.root / "build/results", "here.wrong") if r.outcome == "fail")
    assert repeats(red.stdout)[0][-2:] == ["--matrix", str(here.root / "matrix.yaml")]
    first = repeats(red.stdout)[0]
    assert first[first.index("--case") + 1] == identity
    assert first[first.index("--executor") + 1] == "current"
    assert red.stdout.count("kernel-matrix run ") == red.stdout.count("repeat it: "), "one command per case"

    asked = harness("repro", *options(here), identity, str(here.root / "build" / "results"))
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.splitlines()[-1] == red.stdout.partition("repeat it: ")[2].splitlines()[0]

    other = ["environment.sha256=" + "0" * 64 if word.startswith("environment.sha256=") else word for word in first]
    refused = harness(*other[1:])
    assert (refused.returncode, other != first) == (2, True)
    assert "--expect environment.sha256=" in refused.stderr
    one = harness(*first[1:])
    assert one.returncode == 1, one.stderr
    assert "1 case: 1 fail" in one.stdout
    assert len(records_in(here.root / "build/results", "here.wrong")) == 1
    assert harness("report", *options(here)).returncode == 1
    rows = Page(here.root / "build" / "site").rows
    [cases] = [row["cases"] for name, row in rows.items() if "/wrong/" in name]
    assert sorted(cases.values()) == ["fail", "pass", "pass"], "the two that did not run again are not lost"


@pytest.mark.slow
def test_a_part_of_the_matrix_has_a_page_of_its_own_and_only_what_was_asked_for_can_be_red(here: Doubles):
    rule = "where: { toolchain: raises, tokens: 2 }, outcome: error, stage: launch, match: ZeroDivisionError"
    here.edit("limits:", f"expectations: [{{ {rule}, reason: it is a double that raises, {END} }}]\nlimits:")
    page, part = here.root / "build" / "site", ("--executor", "current", "--toolchain")
    expected = harness("matrix", *options(here, *part, "raises"))
    assert "here.raises: done 3/3 (2 pass, 1 known)" in expected.stdout
    assert expected.returncode == 0, expected.stdout
    assert harness("matrix", *options(here, *part, "wrong")).returncode == 1
    good = harness("matrix", *options(here, "--executor", "current", "--case", "*/good/*/tokens1"))
    assert good.returncode == 0, good.stdout
    assert "1 case: 1 pass\n" in good.stdout
    assert "Red: 1 fail." in good.stdout
    run = Page(page).overview["run"]
    assert run["cases_by_state"] == {"fail": 1, "known": 1, "pass": 5}
    assert (run["cases"], run["left_out"]) == (7, 32)
    assert harness("audit", *options(here)).returncode == 0
    source = here.root / "src" / "doubles" / "__init__.py"
    source.write_text(f"{source.read_text()}\nmore = 1\n")
    done = harness("audit", *options(here))
    assert done.returncode == 1
    assert done.stdout.endswith("If one has changed since the page was made, make it anew: kernel-matrix report\n")


@pytest.mark.slow
def test_a_truncated_result_is_named_and_the_rest_is_reported(here: Doubles):
    harness("run", *options(here, "--executor", "current", "--toolchain", "good", "--toolchain", "raises"))
    broken = tables.result_of(here.root / "build" / "results", "here.raises")
    broken.write_bytes(broken.read_bytes()[:300])
    done = harness("report", *options(here))
    assert done.returncode == 2
    assert f"{broken.name}: refused: jobs/{broken.name} is no whole Parquet file" in done.stderr
    assert "Traceback" not in done.stderr
    page = Page(here.root / "build" / "site")
    assert f"jobs/{broken.name} is no whole Parquet file" in page.overview["problems"][0]
    assert {row["state"] for row in page.rows.values()} == {"pass", "missing"}


@pytest.mark.slow
def test_a_machine_without_the_hardware_says_that_nothing_ran(doubles: Doubles):
    doubles.edit("device: cpu", "device: amd")
    done = harness("run", *options(doubles, "--toolchain", "good"))
    assert done.returncode == 1, "a run in which nothing was tested is no success"
    assert "no this machine device here" in done.stdout
    assert "3 cases: 3 unavailable" in done.stdout
    assert "Nothing ran" in done.stdout


@pytest.mark.slow
def test_plan_check_and_schema_print_what_they_say(doubles: Doubles):
    assert "39 cases in 13 jobs" in harness("check", *options(doubles)).stdout
    assert harness("ci", "plan", *options(doubles)).stdout.splitlines()[0] == "here/any/good/double.forward/tokens1"
    assert harness("check", "--schema").stdout.startswith("{")


@pytest.mark.slow
def test_the_matrix_command_loads_and_plans_once(here: Doubles, monkeypatch, capsys):
    loaded, planned = [], []
    validate, list_jobs = Matrix.model_validate, planning._jobs
    monkeypatch.setattr(Matrix, "model_validate", lambda *given: loaded.append(given) or validate(*given))
    monkeypatch.setattr(planning, "_jobs", lambda *given: planned.append(given[1]) or list_jobs(*given))
    broken = here.root / "build" / "results" / "elsewhere.xml"
    broken.parent.mkdir(parents=True)
    broken.write_text("<testsuite")
    status = main(["matrix", *options(here, "--executor", "current", "--toolchain", "good")])
    output = capsys.readouterr()
    assert "3 pass" in output.out
    assert "elsewhere.xml: not whole JUnit XML" in output.err
    assert status == 2, "a file could not be used"
    assert len(loaded) == 1
    assert planned == ["full"], "it checks matrix.yaml; the quick tier has the same cases"


def test_without_the_library_of_docker_a_run_takes_environments_and_the_rest_names_the_extra(
    monkeypatch, matrix, capsys
):
    users = ("run.container", "run.in_container", "cli.shell", "ci.packing", "ci.commands.image")
    names = ("docker", *(f"kernel_matrix.{user}" for user in users))
    for name in [name for name in sys.modules if name.startswith(names)]:
        parent, _, own = name.rpartition(".")
        if own in vars(sys.modules.get(parent, sys)):  # the next import sets it to another module
            monkeypatch.setattr(sys.modules[parent], own, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "docker", None)
    reason = "this needs the library docker, which the extra 'containers' brings: "
    reason += installation.installing("containers")
    assert reason.endswith(f"'{ROOT}[containers]'")
    assert choose_executor("auto", matrix.platforms["cuda"]) == (
        "venv",
        "no containers: the extra containers is not installed",
    )
    for words in (["shell", "cuda"], ["ci", "image", "cuda"], ["run", "--executor", "container", "--platform", "cuda"]):
        assert main(words) == 2
        assert capsys.readouterr().err.endswith(f"{reason}\n")


@pytest.mark.parametrize(
    ("text", "words"), [("nope\n", "no such case"), ("\n", "names no case"), (None, "No such file")]
)
def test_a_file_of_cases_that_is_none_is_bad_input(doubles: Doubles, tmp_path, capsys, text, words):
    if text is not None:
        (tmp_path / "cases").write_text(text)
    assert main(["report", *options(doubles, "--cases", str(tmp_path / "cases"))]) == 2
    assert words in capsys.readouterr().err


def test_the_version_is_printed_with_the_commit_of_a_clone(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"kernel-matrix \d+\.\d+\.\d+ \(commit [0-9a-f]{12}(\+changes)?\)\n", capsys.readouterr().out)
