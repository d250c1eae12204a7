"""One command repeats a cell of another machine, or the message names the hardware that the cell needs."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from common import END, Doubles, harness, options, records_in
from records import TRITON
from shown import Page

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli import main
from kernel_matrix.results import repeat as repro
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine
from kernel_matrix.vendors.vendor import Device

FACTS = {"commit": "0123456789ab", "executor": "container", "lock.sha256": "aa11", "image": "kernel-matrix/cuda:bb22",
         "device": "NVIDIA H200", "driver": "580.1"}  # fmt: skip
CASE = f"{TRITON}/tokens7-streams4-hidden200-bf16-gamma-fp32-scale1-seed0"
RECORD = Record(CASE, "fail", "run", message="out", job=FACTS)


def test_the_command_names_commit_executor_lock_image_and_cell(matrix):
    assert repro.Commands(matrix).command(TRITON, RECORD) == (
        "git switch --detach 0123456789ab && kernel-matrix run --platform cuda --executor container "
        f"--expect lock.sha256=aa11 --expect image=kernel-matrix/cuda:bb22 --case {TRITON}"
    )


def test_what_was_changed_and_not_committed_is_in_no_commit_to_switch_to(matrix):
    changed = replace(RECORD, job={**FACTS, "commit": "0123456789ab+changes"})
    assert repro.Commands(matrix).command(TRITON, changed).startswith("kernel-matrix run --platform cuda ")
    assert "commit: 0123456789ab+changes" in repro.facts(matrix, TRITON, changed)


def test_facts_that_a_machine_sent_are_quoted(matrix):
    hostile = replace(RECORD, job={**FACTS, "commit": "x; rm -rf /", "image": "$(touch /tmp/x)", "executor": "a b"})
    words = shlex.split(repro.Commands(matrix).command(TRITON, hostile))
    assert words[0] == "kernel-matrix", "what is no commit is left out"
    assert "image=$(touch /tmp/x)" in words
    assert "a b" in words


def test_a_case_of_the_full_tier_says_so(matrix):
    name = "tokens2048-streams3-hidden1280-bf16-gamma-fp32-scale1-seed0"
    assert "--tier full" in repro.Commands(matrix).command(TRITON, replace(RECORD, case=f"{TRITON}/{name}"))


def test_facts_are_image_lock_seed_and_gpu_flags(matrix):
    said = repro.facts(matrix, TRITON, RECORD)
    assert "image: kernel-matrix/cuda:bb22" in said
    assert "lock: ci/locks/triton-3.7.txt sha256:aa11" in said
    assert "seed: 0, and the inputs are made from the case's name" in said
    assert "GPU flags: --gpus all" in said
    without = {name: value for name, value in FACTS.items() if name != "lock.sha256"}
    said = repro.facts(matrix, TRITON, replace(RECORD, job=without))
    assert "lock: none: its environment was there before" in said
    said = repro.facts(matrix, TRITON, replace(RECORD, job=without, outcome="unavailable", action=""))
    assert not [line for line in said if line.startswith("lock: ")], "nothing ran, so there was no environment"


def test_no_fact_of_a_machine_stands_in_a_line_of_its_own(matrix):
    hostile = replace(RECORD, job={**FACTS, "device": "x\ntouch /tmp/y", "driver": "\x1b]0;title\a\x9b2J"})
    laptop = Machine((Device("cpu", "a\nlaptop", ("x86-64-v3",)),))
    for line in (*repro.facts(matrix, TRITON, hostile), repro.needs(matrix, TRITON, hostile, laptop)):
        assert line.isprintable()


def test_hardware_that_is_not_here_is_said(matrix):
    laptop = Machine((Device("cpu", "a laptop", ("x86-64-v3",)),))
    text = repro.needs(matrix, TRITON, RECORD, laptop)
    assert text.startswith("needs NVIDIA CUDA hardware for sm_90 (the machines with the labels self-hosted, linux, x64")
    assert "It was NVIDIA H200. This machine has: a laptop (x86-64-v3)." in text
    assert repro.needs(matrix, TRITON, RECORD, Machine((Device("nvidia", "x", ("sm_90",)),))) == ""
    assert repro.needs(matrix, TRITON, replace(RECORD, action="compile"), laptop) == "", "a compiler needs none"


def test_a_run_that_is_not_the_expected_one_is_refused():
    repro.check([RECORD], ["lock.sha256=aa11"])
    with pytest.raises(UserError, match=r"lock\.sha256=cc: here it is aa11, so this does not repeat that run"):
        repro.check([RECORD], ["lock.sha256=cc"])
    with pytest.raises(UserError, match="write FACT=VALUE"):
        repro.check([RECORD], ["lock.sha256"])


def test_a_cell_without_a_result_or_that_is_not_planned_is_bad_input(here: Doubles):
    (here.root / "build" / "results").mkdir(parents=True)
    target = here.matrix.platforms["here"].targets[0]
    done = harness("repro", *options(here), f"here/{target}/good/double.forward")
    assert (done.returncode, "no result of it is here" in done.stderr) == (2, True)
    done = harness("repro", *options(here), "here/x/good/double.forward")
    assert (done.returncode, "Did you mean" in done.stderr) == (2, True)


@pytest.mark.slow
def test_an_excluded_case_is_tried_when_asked_and_stays_excluded(here: Doubles):
    path = here.root / "matrix.yaml"
    path.write_text(
        path.read_text() + f"exclusions:\n  - {{ where: {{ toolchain: good }}, reason: broken for years now, {END} }}\n"
    )
    arguments = options(here, "--executor", "current", "--toolchain", "good")
    assert "3 cases: 3 excluded" in harness("run", *arguments).stdout
    assert [r.action for r in records_in(here.root / "build/results", "here.good")] == [""] * 3
    done = harness("run", *arguments, "--excluded")
    assert "3 cases: 3 excluded" in done.stdout
    assert [r.outcome for r in records_in(here.root / "build/results", "here.good")] == ["pass"] * 3
    harness("report", *options(here))
    text = Page(here.root / "build" / "site").text
    assert "Tried all the same, it passes: take the exclusion out" in text


@pytest.mark.slow
def test_shards_by_hand_are_parts_of_the_whole(here: Doubles):
    seen = []
    for number in (1, 2):
        done = harness("run", *options(here, "--executor", "current", "--toolchain", "good", "--shard", f"{number}/2"))
        assert done.returncode == 0, done.stderr
        seen += [r.case for r in records_in(here.root / "build/results", f"here.good.{number}of2")]
    assert len(seen) == len(set(seen)) == 3


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/x"])
def test_a_shard_that_is_none_is_bad_input(doubles, capsys, text):
    assert main(["run", *options(doubles, "--shard", text)]) == 2
    assert "write K/N with K from 1 to N" in capsys.readouterr().err
