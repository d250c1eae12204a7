"""A fault is named as it was put in: of integers, one element was off by 1."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kernel_matrix.audit.comparisons import found
from kernel_matrix.job.suite_canaries.asking import FACT, Asking
from kernel_matrix.job.suite_canaries.summing import in_words, without_time
from kernel_matrix.results.comparisons import lines_of

TONE = np.sin(np.arange(300.0) / 20) * 16384
OFF_BY_ONE, OFF_BY_A_SHARE = "one element off by 1", "one element off by 1 % of the largest"


@pytest.mark.parametrize(
    ("values", "atol", "unseen"),
    [
        (TONE.astype(np.int16), 2, OFF_BY_ONE),
        (np.abs(TONE / 65).astype(np.uint8), 1, OFF_BY_ONE),
        (TONE.astype(np.int32), 2, OFF_BY_ONE),
        (np.zeros(300, np.float32), 2, OFF_BY_ONE),
        (TONE.astype(np.int64), 0, None),
        (TONE.astype(np.float32), 200, OFF_BY_A_SHARE),
        (TONE.astype(np.float32), 2, None),
    ],
    ids=["int16", "uint8", "int32", "zeros", "exact", "float32", "close"],
)
def test_what_a_line_lets_through_is_what_was_put_in(tmp_path, values, atol, unseen):
    asking = Asking(tmp_path)
    asking.begin("test_a.py")
    asking.ask("close", lambda x, y: np.allclose(x, y, rtol=0, atol=atol), values, values.copy(), asserts=True)
    fact = asking.facts()[FACT]
    [line] = lines_of([fact, "no JSON"])
    audited = found([SimpleNamespace(facts={FACT: fact})])
    assert audited["lines"][line.at, line.call] == (line.seen, len(line.tried), sorted(line.unseen))
    let_through = {fault for fault in line.unseen if fault.startswith("one element")}
    assert let_through == ({unseen} if unseen else set())
    assert unseen is None or unseen in in_words(line)


def test_a_line_whose_noise_hides_every_fault_is_in_both_sums(tmp_path):
    asking = Asking(tmp_path)
    asking.begin("test_a.py")
    far = np.full((4, 4), 1.7e308)
    asking.ask("close", lambda x, y: np.allclose(x, y, atol=np.inf), far, -far, asserts=True)
    fact = asking.facts()[FACT]
    [line] = lines_of([fact])
    assert found([SimpleNamespace(facts={FACT: fact})])["lines"] == {(line.at, line.call): (0, 0, [])}
    assert "It allows anything" in in_words(line)


def test_comparisons_without_time_are_counted():
    facts = ['{"lines":[],"no time":3}', '{"lines":[]}', "no JSON", "", '{"no time":1}']
    assert [*without_time(facts)] == ["There was no time to ask 4 comparisons of 2 tests"]
    assert [*without_time(facts[1:4])] == []
