"""The rules that `tune` writes into a table of variants: those that gain, before the others, which stay as they are."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from loops import at_least

from mhc.backends.rules import rules_of
from mhc.ops.mhc_post import MhcPostSpec

ROOT = Path(__file__).resolve().parents[2]

OTHERS = """# A comment that stays.

[[choice]]
op = "mhc_post" # and this one
target = "sm_80"
variant = "tiles"
"""


@pytest.fixture
def tune(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    for path in at_least(3, (ROOT / "benchmarks").glob("*.py")):  # the suite has modules of the same names
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    return importlib.import_module("tune")


def choice(tune, hidden, times, present="tiles"):
    return tune.Choice("mhc_post", "forward", "sm_90", "bfloat16", 4, hidden, 2048, present, times)


def rules(tmp_path, text):
    (tmp_path / "variants.toml").write_text(text)
    return rules_of(tmp_path / "variants.toml", {"mhc_post": MhcPostSpec})


def test_a_shape_gets_a_rule_where_another_variant_is_faster(tune, tmp_path):
    slower, faster = {"tiles": 13.9, "token": 15.0}, {"tiles": 262.0, "token": 249.0}
    text = tune.with_rules(OTHERS, [choice(tune, 1280, slower), choice(tune, 7168, faster)])
    measured, other = rules(tmp_path, text)
    assert measured.variant == "token"
    assert dict(measured.values)["hidden"] == (7168,)
    assert measured.target == ("sm_90",)
    assert other.target == ("sm_80",)
    assert "token 249.0, tiles 262.0" in text
    assert text.endswith(OTHERS)


def test_a_gain_within_the_noise_changes_nothing(tune):
    assert choice(tune, 7168, {"tiles": 250.0, "token": 249.0}).best == "tiles"
    assert choice(tune, 7168, {"tiles": 250.0, "token": 240.0}).best == "token"
    assert choice(tune, 7168, {"token": 249.0, "third": 250.0}).best == "token", "the present one is wrong or failed"


def test_a_second_run_replaces_the_rules_of_the_first(tune):
    first = tune.with_rules(OTHERS, [choice(tune, 7168, {"tiles": 262.0, "token": 249.0})])
    assert tune.without_rules(first) == OTHERS
    second = tune.with_rules(first, [choice(tune, 4096, {"tiles": 154.0, "token": 145.0})])
    assert "hidden = 4096" in second
    assert "hidden = 7168" not in second
    assert second.count("[[choice]]") == 2


def test_a_table_whose_end_mark_is_gone_is_refused(tune):
    with pytest.raises(ValueError, match="has the line"):
        tune.without_rules(tune.BEGIN + OTHERS)
