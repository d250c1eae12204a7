"""The groups that agree are found from samples alone, and the odd one out is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case, Cell
from kernel_matrix.job.inputs import normal
from kernel_matrix.job.sample import positions, take
from kernel_matrix.results import ulp
from kernel_matrix.results.agreement import agreement, vote
from kernel_matrix.results.agreement_tables import AgreementReport, AgreementTable, Figures, FirstDifference, OddOne
from kernel_matrix.store import samples
from kernel_matrix.store.record import Record, Sample

KEY = "mix.forward/tokens7"
Edit = Callable[[np.ndarray], np.ndarray]


def sample(array: np.ndarray, output: str = "out", key: str = KEY) -> Sample:
    return samples.of_entry({output: take(key, output, array)})[output]


def result(toolchain: str, outputs: dict[str, np.ndarray], name: str = "tokens7", **fields) -> tuple[Case, Record]:
    cell = Cell("there", "any", toolchain, "mix", "forward", toolchain, "p", "cpu", "run")
    axes = {"tokens": 7, "dtype": "fp32"}
    key = f"mix.forward/{name}"
    entry = {output: take(key, output, array) for output, array in outputs.items()}
    given = {"outcome": "pass", "action": "run", "facts": {"inputs.sha256": "ab" * 8}, **fields}
    case = Case(cell, name, axes, None, (), Owed((), 4, 1.5, 4, 1e-2, apt_for_canaries=True))
    return case, Record(case.id, samples=samples.of_entry(entry), **given)


def exact(key: str = "x", shape: tuple[int, ...] = (40, 50)) -> np.ndarray:
    return normal(key, shape).astype(np.float32)


def stepped(array: np.ndarray, steps: int) -> np.ndarray:
    """Return the array with every element so many representable numbers further from zero."""
    return (array.view(np.int32) + steps).view(np.float32)


def several(edits: dict[str, Edit], names: tuple[str, ...] = ("tokens7", "tokens8")) -> AgreementReport:
    """Return the agreement of toolchains that differ from one array as ``edits`` say, in several cases."""
    return agreement([result(name, {"out": edit(exact(case))}, case) for case in names for name, edit in edits.items()])


def odd_ones(table: AgreementTable) -> dict[int, OddOne]:
    return {place: member.odd for place, member in enumerate(table.members) if member.odd}


def unchanged(array: np.ndarray) -> np.ndarray:
    return array


@pytest.mark.parametrize(
    ("dtype", "one", "other", "distance"),
    [
        (np.float32, 1.0, np.nextafter(np.float32(1), np.float32(0)), 1),
        (np.float32, 1.0, 1 + 3 * 2.0**-23, 3),
        (np.float16, 1.0, 1 + 2.0**-10, 1),
        (ml_dtypes.bfloat16, 1.0, 1 + 5 * 2.0**-7, 5),
        (np.float64, 1.0, 1 + 7 * 2.0**-52, 7),
        (np.float64, -1.0, 1.0, 2.0**57),  # no finer than the steps at 1/16
        (np.float32, 0.0, -0.0, 0),
        (np.float32, math.nan, math.nan, 0),
        (np.float32, math.inf, math.inf, 0),
        (np.float32, math.nan, 1.0, math.inf),
        (np.float32, math.inf, 3e38, math.inf),
        (np.float32, 2.0**-24, -(2.0**-24), 2.0**-23 / 2.0**-27),  # near zero: steps of 1/16, the largest times 2**-4
        (np.float32, 2.0**-30, 0.0, 2.0**-30 / 2.0**-27),
    ],
)
def test_the_distance_counts_steps_of_the_dtype_and_no_finer_ones_than_near_the_largest_value(
    dtype, one, other, distance
):
    values = np.array([[one, 1.0], [other, 1.0]]).astype(dtype)
    distances = ulp.between_all(values)[:, :, 0]
    assert distances[0, 1] == distances[1, 0] == distance
    assert distances[0, 0] == distances[1, 1] == 0


def test_huge_wrong_values_do_not_hide_the_distance_of_their_member():
    values = np.array([[1.0, 1.0], [1.0 + 2.0**-20, 1e30]], np.float32)
    assert ulp.between_all(values)[0, 1, 0] == 8


def test_the_distance_of_two_outputs_has_quantiles_and_the_first_place_that_differs():
    one = exact()
    other = one.copy()
    chosen = positions(KEY, "out", one.shape)
    for place, steps in ((100, 4), (60, 2), (61, 2)):
        index = np.unravel_index(chosen[place], one.shape)
        other[index] = stepped(one[index], steps)
    distance = ulp.measure(KEY, "out", sample(one), sample(other))
    first = np.unravel_index(chosen[60], one.shape)
    assert (distance.compared, distance.median, distance.p99, distance.largest) == (128, 0, 2, 4)
    assert not distance.identical
    assert distance.first == ulp.Divergence(tuple(map(int, first)), float(one[first]), float(other[first]))


def test_outputs_that_differ_outside_the_sample_only_are_not_bit_equal():
    one = exact()
    other = one.copy()
    place = next(number for number in range(one.size) if number not in positions(KEY, "out", one.shape))
    other.reshape(-1)[place] += 1
    distance = ulp.measure(KEY, "out", sample(one), sample(other))
    assert (distance.identical, distance.sample_identical, distance.first) == (False, True, None)


def test_outputs_of_another_shape_or_dtype_have_no_distance():
    with pytest.raises(ValueError, match=r"out is fp32 \[40, 50\] on one side and fp32 \[50, 40\] on the other"):
        ulp.measure(KEY, "out", sample(exact()), sample(exact(shape=(50, 40))))


def test_groups_agree_bit_for_bit_and_the_one_that_is_off_is_named():
    made = several(dict.fromkeys("abcde", unchanged) | {"f": lambda array: stepped(array, 9)})
    [table] = made.tables
    assert (table.op, table.direction, table.dtype) == ("mix", "forward", "fp32")
    assert [member.toolchain for member in table.members] == [*"abcdef"]
    assert [member.cases for member in table.members] == [2] * 6
    assert table.groups == ((0, 1, 2, 3, 4), (5,))
    assert {
        (table.members[place].toolchain, odd.cases, odd.outputs, odd.ulp) for place, odd in odd_ones(table).items()
    } == {("f", 2, ("out",), 9.0)}
    equal = next(pair for pair in table.pairs if (pair.one, pair.other) == (0, 4))
    assert (equal.cases, equal.identical, equal.outputs, equal.first) == (2, 2, {}, None)
    off = next(pair for pair in table.pairs if (pair.one, pair.other) == (1, 5))
    assert (off.cases, off.identical, off.outputs) == (2, 0, {"out": Figures(median=9, p99=9, largest=9)})
    value = exact(off.first.case.rpartition("/")[2])[0, 0]
    one, other = (float(f"{number:.9g}") for number in (value, stepped(value, 9)))
    assert off.first == FirstDifference(case=off.first.case, output="out", index=(0, 0), one=one, other=other)


def test_one_case_that_is_far_off_changes_only_the_largest_distance_of_a_pair():
    results = []
    for name, steps in (("tokens7", 2), ("tokens8", 2), ("tokens9", 4000)):
        array = exact(name)
        results += [result("a", {"out": array}, name), result("b", {"out": stepped(array, steps)}, name)]
    [pair] = agreement(results).tables[0].pairs
    assert pair.outputs == {"out": Figures(median=2, p99=2, largest=4000)}
    assert pair.first.case == "mix.forward/tokens9"


def test_kernels_that_sum_in_another_order_are_not_odd():
    noise = np.random.default_rng(1)
    made = several({name: lambda array: stepped(array, noise.integers(-3, 4, array.shape)) for name in "abcdefg"})
    assert odd_ones(made.tables[0]) == {}
    assert len(made.tables[0].groups) == 7


def test_two_members_have_no_odd_one():
    made = several({"a": unchanged, "b": lambda array: array * 2})
    assert odd_ones(made.tables[0]) == {}
    assert made.tables[0].pairs[0].outputs["out"].median > 1e6


def test_two_wrong_members_of_six_are_both_odd_and_do_not_move_the_consensus():
    edits = dict.fromkeys("abcd", unchanged) | {"e": lambda array: array * 2, "f": lambda array: array * math.nan}
    [table] = several(edits).tables
    assert [table.members[place].toolchain for place in odd_ones(table)] == ["e", "f"]
    assert table.members[5].odd.ulp == "inf"


def test_a_fault_of_one_rounding_in_a_narrow_dtype_is_odd_and_one_in_few_elements_is_not():
    rounded = exact().astype(ml_dtypes.bfloat16)
    often, seldom = rounded.copy(), rounded.copy()
    often.view(np.int16)[...] += 1
    seldom.view(np.int16)[::7] += 1
    outputs = {"a": rounded, "b": rounded, "c": seldom, "d": often}
    [table] = agreement([result(name, {"out": array}) for name, array in outputs.items()]).tables
    assert [table.members[place].toolchain for place in odd_ones(table)] == ["d"]


def test_the_vote_takes_the_member_with_the_least_sum_of_distances():
    points = np.array([0.0, 10.0, 12.0, 13.0, 1e9])
    distances = np.abs(points[:, None] - points[None])
    ballot = vote(distances, distances, 0.0, narrow=False)
    assert ballot.consensus == 2
    assert ballot.scores == (12, 2, 0, 1, 1e9 - 12)
    assert ballot.odd == (4,)


def test_nobody_is_odd_for_being_more_exact_than_the_baseline():
    coarse = dict.fromkeys("abcd", unchanged) | {"e": lambda array: stepped(array, 3000)}
    assert odd_ones(several(coarse).tables[0])
    results = [result(name, {"out": edit(exact())}) for name, edit in coarse.items()]
    noisy = {"out.largest": 1.0, "out.floor_max_abs": 1000 * 2.0**-23}
    [table] = agreement([(case, replace(record, metrics=noisy)) for case, record in results]).tables
    assert odd_ones(table) == {}


def test_one_record_that_claims_a_huge_noise_does_not_hide_that_it_is_odd():
    results = [result(name, {"out": stepped(exact(), 9 if name == "f" else 0)}) for name in "abcdef"]
    claimed = {"out.largest": 1.0, "out.floor_max_abs": 1e9}
    results[-1] = (results[-1][0], replace(results[-1][1], metrics=claimed))
    assert list(odd_ones(agreement(results).tables[0])) == [5]


def test_members_with_other_inputs_are_refused_by_name():
    results = [result(name, {"out": exact()}) for name in "abc"]
    results[2] = result("c", {"out": exact()}, facts={"inputs.sha256": "cd" * 8})
    made = agreement(results)
    inputs = "other inputs (cdcdcdcdcdcdcdcd) than most have (abababababababab)"
    assert made.refused == (f"mix.forward/tokens7: not compared: there/any/c: {inputs}",)
    assert [member.toolchain for member in made.tables[0].members] == ["a", "b"]


def test_of_two_members_with_different_inputs_none_is_compared():
    results = [result("a", {"out": exact()}), result("b", {"out": exact()}, facts={"inputs.sha256": "cd" * 8})]
    made = agreement(results)
    assert made.tables == ()
    assert len(made.refused) == 2
    assert "there/any/a: other inputs (abababababababab) than as many others have" in made.refused[0]


def test_a_record_that_does_not_say_its_inputs_is_refused():
    made = agreement([result("a", {"out": exact()}), result("b", {"out": exact()}, facts={})])
    assert "there/any/b: it does not say which inputs it had" in made.refused[0]


def test_an_output_of_another_dtype_is_refused_by_name():
    arrays = {"a": exact(), "b": exact(), "c": exact().astype(np.float16)}
    made = agreement([result(name, {"out": array}) for name, array in arrays.items()])
    assert made.refused == (
        "mix.forward/tokens7: not compared: there/any/c: out is fp16 [40, 50] and not fp32 [40, 50]",
    )


def test_a_variant_is_a_member_of_its_own_and_is_compared_at_the_same_positions():
    results = [
        result("a", {"out": exact(), "out@wide": stepped(exact(), 2)}),
        result("b", {"out": stepped(exact(), 2)}),
    ]
    [table] = agreement(results).tables
    assert [(member.toolchain, member.variant) for member in table.members] == [("a", ""), ("a", "wide"), ("b", "")]
    assert table.members[1].id == "there/any/a@wide"
    assert table.groups == ((1, 2), (0,))


def test_a_member_that_ran_without_samples_is_named():
    with_samples, without = result("a", {"out": exact()}), result("b", {"out": exact()})
    compiled = result("c", {}, action="compile")
    made = agreement([with_samples, (without[0], replace(without[1], samples={})), compiled])
    assert made.without == ("there/any/b",)


def test_members_that_share_no_case_are_in_no_group_together():
    made = agreement([result("a", {"out": exact()}), result("b", {"out": exact()}, "tokens8")])
    assert made.tables[0].groups == ((0,), (1,))
    assert made.tables[0].pairs == ()
