"""The script that tries published packages: what it prints of one."""

from __future__ import annotations

import json

import gallery


def answers(root, status, states=None):
    def timed(_, *words):
        if words[0] == "init":
            return status, "package it in this folder\nimports Triton, PyTorch\nkernel-matrix: no test", 12.4
        (root / "build/site").mkdir(parents=True)
        (root / "build/site/compat.json").write_text(json.dumps({"run": {"cases_by_state": states}}))
        return 1, "", 60.2

    return timed


def test_a_row_says_how_long_it_took_and_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "timed", answers(tmp_path, 0, {"error": 1, "held": 3}))
    row = gallery.row_of("it==1", tmp_path, 40)
    assert row == "| it==1 | Triton, PyTorch | 12 s | 60 s, 1 | 1 error, 3 held |"


def test_a_package_that_init_refuses_has_a_row_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "timed", answers(tmp_path, 2))
    assert gallery.row_of("it==1", tmp_path, 40) == "| it==1 | Triton, PyTorch | 12 s, 2 | | kernel-matrix: no test |"
