"""The verdict on kernels that nobody trusts. Candidates run in the sandbox only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from common import ROOT, python_of
from covering import with_the_night
from verify_cases import on_targets, trained
from verify_cases.candidates import CANDIDATES, HEAD, HOSTILE
from verify_cases.forms import forms

pytestmark = [pytest.mark.environments, pytest.mark.slow]
NIGHTLY = ("good/", "naive/")  # PyTorch's own tests take long to import
AT_NIGHT = (  # by day another candidate of each verdict and kind is judged
    *("another_order", "asserts_a_card", "no_bias", "n_minus_one", "last_row_left_out", "no_python"),
    *("kept_by_sum", "unwritten", "a_subclass", "leaves_a_dtype", "walks_objects", "triton_wrong_for_odd"),
)
ROWS = ROOT / "tests" / "tools" / "verify" / "fixtures" / "tasks" / "softmax.py"
TASK = ROOT / "tests" / "tools" / "verify_cases" / "reference.py"


def verify(folder, *words, wait=True, **environment):
    """Run the command in a Python that has PyTorch and Triton.

    Its bytecode stands beside its modules, where the sandbox sees it: else each server compiles PyTorch's anew.
    """
    python = str(python_of("triton-3.7"))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": "", **environment}
    command = [sys.executable, "-m", "kernel_matrix", "verify", "--python", python, *map(str, words)]
    if not wait:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def lines_of(folder, texts, task=TASK):
    """Write the lines of candidates, each with its text."""
    told = [{"id": key, "source": text, "against": str(task)} for key, text in texts.items()]
    return written(folder, told)


def written(folder, told):
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    return path


def verdicts_in(path):
    return {one["id"]: one for one in map(json.loads, path.read_text().splitlines())}


@pytest.fixture(scope="module")
def verdicts(request, tmp_path_factory):
    """Judge all candidates in one run, as the start of each run takes seconds."""
    folder = tmp_path_factory.mktemp("verify")
    left_out = () if with_the_night(request) else AT_NIGHT
    texts = {name: text for name, (text, *_) in CANDIDATES.items() if name not in left_out} | LEFT
    texts["hostile"] = f"MANY = True\n{HOSTILE}\n{HEAD}        return self.right(x)\n"
    told = [{"id": name, "source": text, "against": str(TASK)} for name, text in texts.items()]
    (folder / "trained.py").write_text(trained.TASK)
    told += [
        {"id": name, "source": text, "against": str(folder / "trained.py")} for name, text in trained.CANDIDATES.items()
    ]
    for name, change in WITHOUT_WORK.items():
        against = without_work(folder / f"{name}.py", change)
        told.append({"id": name, "source": f"{HEAD}        {change}\n", "against": against})
    (folder / "mine.py").write_text(FUNCTIONS)
    (folder / "theirs.py").write_text(SOFTMAX)
    of_functions = {"against": "mine:reference", "inputs": "mine:inputs"}
    told += [{"id": f"theirs:{name}", "candidate": f"theirs:{name}", **of_functions} for name in ("without", "right")]
    told += [one for one in forms(folder) if not one["id"].startswith(NIGHTLY)]
    run = verify(folder, "--jsonl", written(folder, told), "--quick")
    assert run.returncode == 1, run.stdout + run.stderr
    return verdicts_in(folder / "lines.verdicts.jsonl")


@pytest.mark.parametrize(
    "name",
    [
        "right.json",
        "wrong.json",
        "given.json",
        "unsaid.json",
        "unwritten.json",
        "sums",
        "sums/wrong.py",
        "checked/wrong.py",
    ],
)
def test_another_form_is_read(verdicts, name):
    (found,) = (one for key, one in verdicts.items() if key.partition(" ")[0] == name)
    assert found["verdict"] == found["id"].partition(" ")[2], found["reason"]


def test_the_gradients_of_weights_are_compared(verdicts):
    found = {name: verdicts[name] for name in trained.CANDIDATES}
    assert {name: one["verdict"] for name, one in found.items()} == {n: n.rpartition(" ")[2] for n in found}
    assert "the weight first.weight: max_abs" in found["detached wrong"]["reason"]
    assert any("the gradients of its weights" in text for text in found["weights of its own right"]["undecided"])


def test_a_right_triton_kernel_is_compiled_for_targets_of_two_vendors(tmp_path):
    (tmp_path / "candidate.py").write_text(on_targets.RIGHT)
    run = verify(tmp_path, "candidate.py", "--against", ROWS, "--quick", "--json",
                 "--targets", "sm_90", "gfx942", "--emulate", "none")  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout)
    for name in ("sm_90", "gfx942"):
        assert found["targets"][name]["evidence"] == "compiled", found["targets"][name]
        assert found["targets"][name]["kernels"]["softmax_kernel"]["registers"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("sandbox", ["bubblewrap", "landlock"])
def test_what_a_sanitizer_finds_is_red_unless_the_reference_has_it(tmp_path, sandbox):
    (tmp_path / "candidate.py").write_text(CANDIDATES["honest"][0])
    tmp_path.chmod(0o755)
    words = [TASK, tmp_path / "candidate.py", tmp_path, sandbox]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": ""}
    run = subprocess.run([python_of("triton-3.7"), ROOT / "tests" / "tools" / "verify_cases" / "watched.py", *words],
                         capture_output=True, text=True, env=env, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    finding = "memcheck: Invalid __global__ read of size 4 bytes in softmax_kernel"
    assert (told["finds"]["verdict"], told["finds"]["reason"]) == ("wrong", finding)
    assert {kind: one["verdict"] for kind, one in told.items() if kind != "finds"} == dict.fromkeys(
        ("clean", "both", "silent"), "right"
    )
    assert "memcheck: found nothing" in told["clean"]["notes"]
    assert f"{finding}: the reference does it too" in told["both"]["notes"]
    assert "racecheck: found nothing" in told["both"]["notes"]
    assert any("does not begin in the sandbox" in one for one in told["silent"]["not"])


@pytest.mark.nightly
def test_what_an_emulator_of_a_gpu_finds_is_red(tmp_path):
    lines = lines_of(tmp_path, on_targets.CANDIDATES, task=ROWS)
    verify(tmp_path, "--jsonl", lines, "--quick", "--targets", "none", "--emulate", "gfx942", "sm_90")
    found = verdicts_in(tmp_path / "lines.verdicts.jsonl")
    assert {name: one["verdict"] for name, one in found.items()} == {
        "right": "right",
        "reads past the end": "wrong",
        "races": "wrong",
    }
    assert {one["evidence"] for one in found["right"]["targets"].values()} == {"emulated"}
    assert "behind the end of x" in found["reads past the end"]["reason"]
    assert "races from byte 4 of sums on" in found["races"]["reason"]


@pytest.mark.nightly
def test_an_operator_of_pytorch_is_read(tmp_path):
    asked = [one for one in forms(tmp_path) if one["id"].startswith(NIGHTLY)]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    run = verify(tmp_path, "--jsonl", "lines.jsonl", "--quick")
    found = verdicts_in(tmp_path / "lines.verdicts.jsonl")
    assert {name: one["verdict"] for name, one in found.items()} == {n: n.partition(" ")[2] for n in found}, run.stdout
    assert len(found) == len(asked) == 2


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in AT_NIGHT else []) for name in CANDIDATES]
)
def test_a_candidate_gets_its_verdict(verdicts, name):
    _, verdict, kind = CANDIDATES[name]
    found = verdicts[name]
    assert (found["verdict"], found["kind"]) == (verdict, kind), (found["reason"], found["evidence"])
    assert "seed" not in found["counterexample"]


def test_a_hostile_candidate_gets_through_nowhere(verdicts, tmp_path):
    (tmp_path / "candidate.py").write_text(f"MANY = False\n{HOSTILE}\n{HEAD}        return self.right(x)\n")
    run = verify(tmp_path, "candidate.py", "--against", TASK, "--sandbox", "landlock", "--quick", "--json")
    for kind, found in {"bubblewrap": verdicts["hostile"], "landlock": json.loads(run.stdout)}.items():
        assert found["sandbox"]["kind"] == kind
        assert "through" not in json.dumps(found), found["evidence"]
        assert found["verdict"] == "hack", found["reason"]  # its numbers are right, and it has tried


LEAVE = "[open(p, 'w').write('left') for p in (os.path.join(os.getcwd(), 'a'), '/dev/shm/a')]"
LOOK = "assert not [p for p in ('a', '/dev/shm/a') if os.path.exists(p)], 'found what was left'"
LEFT = {
    name: f"import os\n{what}\n{HEAD}        return self.right(x)\n"
    for name, what in (("first", LEAVE), ("second", LOOK))
}


def test_one_candidate_leaves_nothing_to_the_next(verdicts):
    assert (verdicts["first"]["verdict"], verdicts["second"]["verdict"]) == ("right", "right")


def test_a_run_that_is_killed_goes_on_and_loses_no_line(tmp_path):
    texts = {f"{number}": f"{HEAD}        return self.right(x) + {number % 3}\n" for number in range(6)}
    path, out = lines_of(tmp_path, texts), tmp_path / "lines.verdicts.jsonl"
    run = verify(tmp_path, "--jsonl", path, "--quick", wait=False)
    while run.poll() is None and (not out.exists() or out.read_text().count("\n") < 2):
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    with out.open("a") as file:
        file.write('{"verdict": "rig')  # what a kill in the middle of a line leaves
    again = verify(tmp_path, "--jsonl", path, "--quick")
    assert "have their verdict already" in again.stdout
    found = verdicts_in(out)
    assert len(found) == len(out.read_text().splitlines()) == 6
    assert {name for name, one in found.items() if one["verdict"] == "right"} == {str(n) for n in range(0, 6, 3)}


def test_a_wrong_candidate_comes_with_a_program_that_shows_it(tmp_path):
    (tmp_path / "candidate.py").write_text(CANDIDATES["no_bias"][0])
    run = verify(tmp_path, "candidate.py", "--against", TASK, "--quick")
    assert run.returncode == 1, run.stderr
    assert run.stdout.startswith("wrong: as drawn: y0: max_abs")
    program = tmp_path / "build" / "verify" / "show.py"
    assert len(program.read_text().splitlines()) <= 40
    shown = subprocess.run(
        [str(python_of("triton-3.7")), "show.py"], cwd=program.parent, capture_output=True, text=True
    )
    error = float(shown.stdout.split("largest error ")[1].split()[0])
    assert error > 0.01, shown.stdout + shown.stderr


WITHOUT_WORK = {
    "zeros": "return torch.relu(self.norm(x)) * 0",
    "a constant": "return torch.ones_like(x)",
    "the first input": "return x.clone()",
}


def without_work(path, change):
    path.write_text(TASK.read_text().replace("return torch.relu(self.norm(x))", change))
    return str(path)


@pytest.mark.parametrize("sentence", WITHOUT_WORK)
def test_where_an_answer_without_work_passes_nothing_is_decided(verdicts, sentence):
    assert verdicts[sentence]["verdict"] == "not decided"
    assert sentence in verdicts[sentence]["reason"]


@pytest.mark.nightly
def test_the_status_says_that_nothing_is_decided(tmp_path):
    change = WITHOUT_WORK["a constant"]
    (tmp_path / "candidate.py").write_text(f"{HEAD}        {change}\n")
    run = verify(tmp_path, "candidate.py", "--against", without_work(tmp_path / "reference.py", change), "--quick")
    assert run.returncode == 3, run.stdout + run.stderr
    assert run.stdout.startswith("not decided: ")


@pytest.mark.nightly
def test_own_kernels_makes_operators_of_pytorch_a_hack(tmp_path):
    (tmp_path / "candidate.py").write_text(CANDIDATES["honest"][0])
    run = verify(tmp_path, "candidate.py", "--against", TASK, "--quick", "--own-kernels")
    assert run.stdout.startswith("hack (is not what it claims): PyTorch computes: "), run.stdout + run.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothere.py", "--against", str(TASK)], "cannot be read"),
        (["candidate.py", "--against", "nothere.py"], "cannot be read"),
        (["candidate.py", "--against", "empty.py"], "has no Model, get_inputs, get_init_inputs"),
        (["candidate.py"], "against"),
        (["--jsonl", "empty.py"], "verdicts:"),
        (["candidate.py", "--against", str(TASK), "--device", "cpu", "--sanitize", "memcheck"], "on an NVIDIA GPU"),
        (["candidate.py", "--against", str(TASK), "--sanitize", "memchek"], "there is no such tool"),
    ],
)
def test_an_input_that_cannot_be_used_is_named(tmp_path, words, sentence):
    (tmp_path / "candidate.py").write_text("")
    (tmp_path / "empty.py").write_text("")
    run = verify(tmp_path, *words)
    assert sentence in run.stdout + run.stderr
    assert run.returncode == (0 if "--jsonl" in words else 2)


@pytest.mark.parametrize("words", [("candidate.py", "--against", TASK), ("--jsonl", "lines.jsonl")])
def test_a_python_that_cannot_judge_is_named(tmp_path, words):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "torch.py").write_text("raise OSError('libtorch.so: cannot open shared object file')")
    (tmp_path / "candidate.py").write_text("")
    lines_of(tmp_path, {"one": ""})
    broken = {"PYTHONPATH": f"{ROOT / 'src'}:{folder}"}
    assert "torch cannot be imported: libtorch.so: cannot open" in verify(tmp_path, *words, **broken).stderr
    without = verify(tmp_path, *words, "--python", sys.executable)
    assert "it has no torch. It needs torch, numpy, ml_dtypes, pytest." in without.stderr
    assert without.returncode == 2


def test_a_verdict_is_what_its_schema_says(verdicts):
    schema = json.loads((ROOT / "verdict.schema.json").read_text())
    known = schema["properties"]
    for name, one in verdicts.items():
        if one["verdict"] == "unusable":  # a line that was not judged
            continue
        assert set(schema["required"]) <= one.keys() <= known.keys(), name
        for key, value in one.items():
            assert value in known[key].get("enum", [value]), (name, key)
            assert not isinstance(value, dict) or not (value.keys() - known[key].get("properties", value).keys()), (
                name,
                key,
            )
        for case in one["cases"]:
            assert case.keys() == known["cases"]["items"]["properties"].keys(), name


@pytest.mark.nightly
def test_what_the_cases_do_not_see_of_a_changed_text_is_said(tmp_path):
    text = CANDIDATES["honest"][0].replace("return self.right(x)", "unused = x + 1.0\n        return self.right(x)")
    (tmp_path / "candidate.py").write_text(text)
    run = verify(tmp_path, "candidate.py", "--against", TASK, "--json")
    found = json.loads(run.stdout)["mutants"]
    assert found["red"] >= 2
    assert found["tried"] == found["red"] + len(found["unseen"])
    assert any("unused" in one for one in found["unseen"])
    assert not any("return" in one for one in found["unseen"])


FUNCTIONS = """
import torch
def reference(x): return torch.softmax(x, -1)
def inputs(): return [torch.randn(33, 65)]
"""
SOFTMAX = """
import torch
def without(x): return x.exp() / x.exp().sum(-1, keepdim=True)
def right(x):
    y = (x - x.max(-1, keepdim=True).values).exp()
    return y / y.sum(-1, keepdim=True)
"""


@pytest.mark.parametrize(("name", "verdict"), [("without", "wrong"), ("right", "right")])
def test_a_function_is_judged_against_a_function(verdicts, name, verdict):
    assert verdicts[f"theirs:{name}"]["verdict"] == verdict
